/* SPDX-License-Identifier: Apache-2.0 */
/* redact_shapes.h - texts that look like a secret: keys of services, named values, URLs, headers, private keys
 *
 * Pure: no clock, no I/O.
 * For redact.h.  The tables of shapes are in redact_shapes.c; to add one, add a row there and a template to
 * its test (tests/unit/agent/core/test_redact.c).
 */
#ifndef AGENT_CORE_REDACT_SHAPES_H
#define AGENT_CORE_REDACT_SHAPES_H

#include <stdbool.h>
#include <stddef.h>

/* `lead` bytes stay, then `len` bytes go; len 0: no secret. */
struct redact_span {
    size_t lead, len;
};

/* The secret that begins at `p`, which points into `text`. */
struct redact_span redact_shape_at(const char *text, const char *p);

/* Is this the secret value of such a key? */
bool redact_shape_is_value(const char *key, const char *value);

/* Does a private key begin on this line and continue on the next? */
bool redact_shape_opens(const char *line);

/* A command's option without its value: --token. */
bool redact_shape_is_option(const char *word);

#endif
