/* SPDX-License-Identifier: Apache-2.0 */
/* submit_key.h - a submit's idempotency key: repeated requests with the same key create one job
 *
 * 1 to 64 letters, digits, '.', '_' and '-'.
 */
#ifndef CONTROLLER_BASE_SUBMIT_KEY_H
#define CONTROLLER_BASE_SUBMIT_KEY_H

struct err;

enum { SUBMIT_KEY_SIZE = 65 };

/* Generates a key, 128 random bits. */
int submit_key_make(char key[SUBMIT_KEY_SIZE], struct err *err);

/* Is it a valid key? ERR_USAGE. */
int submit_key_check(const char *key, struct err *err);

#endif
