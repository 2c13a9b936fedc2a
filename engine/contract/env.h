/* SPDX-License-Identifier: Apache-2.0 */
/* env.h - numbers that the agent passes in the environment */
#ifndef ENGINE_CONTRACT_ENV_H
#define ENGINE_CONTRACT_ENV_H

struct err;

/* Fills *value; leaves it alone when the variable is not set, or empty. ERR_USAGE for anything that
 * is no number from `least` on. */
int env_int(const char *name, int least, int *value, struct err *err);

#endif
