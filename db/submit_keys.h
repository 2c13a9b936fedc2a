/* SPDX-License-Identifier: Apache-2.0 */
/* submit_keys.h - idempotency keys of submits: a repeated request finds the job that the first one created */
#ifndef DB_SUBMIT_KEYS_H
#define DB_SUBMIT_KEYS_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct store;

enum { SUBMIT_KEYS_DIGEST = 40 };

/* Deleted with the job. */
int submit_keys_put(struct store *s, const char *key, int64_t job, const char *spec, struct err *err);

/* *job is 0 if the key is new; else `spec` gets the digest that was stored with it. */
int submit_keys_find(int64_t *job, char spec[SUBMIT_KEYS_DIGEST], struct store *s, const char *key, struct err *err);

#endif
