/* SPDX-License-Identifier: Apache-2.0 */
/* spec_diagnostics.h - collects mistakes of a spec with their places, without follow-up mistakes
 *
 * A check that finds a mistake reports it here and continues.  To report each
 * mistake only once, a key that is wrong by itself is suppressed: a rule between
 * keys is skipped if it reads a suppressed key.  A missing key may be the one
 * that was misspelt, so it is also suppressed if a map above it has an unknown
 * key (a "stranger").
 */
#ifndef CONTROLLER_SPEC_SPEC_DIAGNOSTICS_H
#define CONTROLLER_SPEC_SPEC_DIAGNOSTICS_H

#include <jansson.h>
#include <stdbool.h>

#include "controller/base/diagnostics.h"

struct yaml_node;

struct spec_diagnostics {
    struct diagnostics     found;
    const struct yaml_node *root;      /* NULL: no file, so mistakes have no place */
    json_t                 *suppressed; /* paths */
    json_t                 *strangers;  /* paths of maps with an unknown key */
};

/* -1 with *err: out of memory. */
int spec_diagnostics_init(struct spec_diagnostics *f, struct err *err);
void spec_diagnostics_fini(struct spec_diagnostics *f);

enum spec_spot { SPOT_KEY, SPOT_VALUE };

/* Reports a mistake at a node; for a --set the sentence names the option instead. Returns -1. */
int spec_diagnostic_at(struct spec_diagnostics *f, const struct yaml_node *node, enum spec_spot spot, const char *fmt,
                       ...) __attribute__((format(printf, 4, 5)));

/* Reports one at the value of `path`, or at the key of the deepest existing map above it. */
int spec_diagnostic_of(struct spec_diagnostics *f, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a mistake found by another checker. */
int spec_diagnostic_err(struct spec_diagnostics *f, const char *path, const struct err *err);

void spec_diagnostics_suppress(struct spec_diagnostics *f, const char *path);
void spec_diagnostics_stranger(struct spec_diagnostics *f, const char *map);

/* True if none of `paths`, separated by |, nor a map above one, is suppressed. */
bool spec_diagnostics_trust(const struct spec_diagnostics *f, const char *paths);

#endif
