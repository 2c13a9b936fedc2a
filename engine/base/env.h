/* SPDX-License-Identifier: Apache-2.0 */
/* env.h - integers from environment variables that the agent sets */
#ifndef ENGINE_BASE_ENV_H
#define ENGINE_BASE_ENV_H

struct err;

/* Sets *value; leaves it alone if the variable is unset or empty. ERR_USAGE unless the value is a
 * number from `least` on. */
int env_int(const char *name, int least, int *value, struct err *err);

#endif
