/* SPDX-License-Identifier: Apache-2.0 */
/* redact.h - removes secrets from text and from the values of a JSON tree
 *
 * Pure: no clock, no I/O.
 * A secret is a known value in any encoding (raw, JSON, URL, base64, hexadecimal, quoted for a
 * shell, also split over quotes), or a text with one of the shapes in redact_shapes.c: keys of well-known services, the
 * value after a revealing name (token=..., --password X), credentials in a URL or a DSN, a header, a private key in
 * PEM. "[redacted]" replaces it. Secrets of other shapes remain. A tree is redacted before it is stored or printed:
 * serialized text hides where a value ends.
 */
#ifndef AGENT_CORE_REDACT_H
#define AGENT_CORE_REDACT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Known values. NULL stands for none wherever a `const struct redact *` is expected. */
struct redact;

#define REDACTED "[redacted]"

/* NULL: out of memory. */
struct redact *redact_create(void);
void redact_destroy(struct redact *r);

/* Adds a value to remove wherever it occurs; values under 6 bytes are ignored, as they would match
 * too often. Returns -1 when memory ran out. */
int redact_add(struct redact *r, const char *secret);

/* Adds the texts of an object {NAME: value}, or NULL. */
int redact_add_all(struct redact *r, const json_t *values);

/* A new string with its size in *size (or NULL); NULL: out of memory. */
char *redact_text(const struct redact *r, const char *text, size_t *size);

/* The same, as a filter of the log (agent/os/log.h); known: a struct redact, or NULL. */
char *redact_line(const void *known, const char *text);

/* A new tree with redacted texts; the whole text after a revealing key is replaced. `keep`: keys whose values stay,
 * ended by NULL; or NULL. NULL: out of memory. */
json_t *redact_tree(const struct redact *r, const json_t *value, const char *const keep[]);

/* An event's body for the store: paths, digests and other names that the program needs later are not redacted. */
json_t *redact_event(const struct redact *r, const json_t *body);

/* Does the name of a variable or key suggest a secret? */
bool redact_is_telling(const char *name, size_t len);

#endif
