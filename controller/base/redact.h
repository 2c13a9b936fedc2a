/* SPDX-License-Identifier: Apache-2.0 */
/* redact.h - removes secrets from text to be shared
 *
 * Removes known secrets (values of the job's secrets, nonces), values after names that suggest a
 * secret (token=..., "api_key": "..."), and strings that look like keys of well-known services.
 * Other secrets in the output of programs remain: check the text before you share it.
 */
#ifndef CONTROLLER_BASE_REDACT_H
#define CONTROLLER_BASE_REDACT_H

#include <jansson.h>
#include <stddef.h>

struct redact;

#define REDACTED "[redacted]"

/* NULL: out of memory. */
struct redact *redact_create(void);
void redact_destroy(struct redact *r);

/* Adds a text to remove wherever it occurs; texts under 6 bytes are ignored, as they would match
 * too often. */
void redact_add(struct redact *r, const char *secret);

/* A new string with its size in *size; NULL: out of memory. */
char *redact_text(const struct redact *r, const char *text, size_t *size);

/* Does the name of a variable or key suggest a secret? */
int redact_is_telling(const char *name, size_t len);

#endif
