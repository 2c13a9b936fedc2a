/* SPDX-License-Identifier: Apache-2.0 */
/* submit_key.h - the key of a submit: repeated requests with one key create one job
 *
 * 1 to 64 letters, digits, '.', '_' and '-'.
 */
#ifndef CONTROLLER_BASE_SUBMIT_KEY_H
#define CONTROLLER_BASE_SUBMIT_KEY_H

struct err;

enum { SUBMIT_KEY_SIZE = 65 };

/* A new one, 128 random bits. */
int submit_key_make(char key[SUBMIT_KEY_SIZE], struct err *err);

/* Is it one?  ERR_USAGE. */
int submit_key_check(const char *key, struct err *err);

#endif
