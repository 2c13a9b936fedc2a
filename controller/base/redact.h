/* SPDX-License-Identifier: Apache-2.0 */
/* redact.h - text that may be shown to strangers
 *
 * Takes out what is known to be secret (the values of the job's secrets, nonces), what follows
 * a telling name (token=..., "api_key": "..."), and what looks like a key of a well-known
 * service.  Output of programs may hold secrets that look like nothing: people should
 * still read before they post.
 */
#ifndef CONTROLLER_BASE_REDACT_H
#define CONTROLLER_BASE_REDACT_H

#include <jansson.h>
#include <stddef.h>

struct redact;

#define REDACTED "[redacted]"

/* NULL: no memory. */
struct redact *redact_create(void);
void redact_destroy(struct redact *r);

/* From now on this text is taken out wherever it stands; shorter ones than 6 bytes are ignored: they
 * would hit too much. */
void redact_add(struct redact *r, const char *secret);

/* A new string with its size in *size; NULL: no memory. */
char *redact_text(const struct redact *r, const char *text, size_t *size);

/* Is a variable or key of this name likely to hold a secret? */
int redact_is_telling(const char *name, size_t len);

#endif
