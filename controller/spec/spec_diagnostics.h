/* SPDX-License-Identifier: Apache-2.0 */
/* spec_diagnostics.h - mistakes of a spec while it is read: where each stands, and what not to ask
 * any more
 *
 * A check that finds a mistake tells it here and goes on.  So that a mistake is
 * told once, what it leaves behind is not asked: a key that is wrong by itself is
 * distrusted, and a rule between keys asks first whether it may trust those that
 * it reads.  A key that is not there may be the one that was misspelt: it is
 * distrusted, too, where a map above it holds an unknown key (a "stranger").
 */
#ifndef CONTROLLER_SPEC_SPEC_DIAGNOSTICS_H
#define CONTROLLER_SPEC_SPEC_DIAGNOSTICS_H

#include <jansson.h>
#include <stdbool.h>

#include "controller/base/diagnostics.h"

struct yaml_node;

struct spec_diagnostics {
    struct diagnostics     found;
    const struct yaml_node *root;      /* NULL: there is no file, and no mistake has a place */
    json_t                 *suppressed; /* paths */
    json_t                 *strangers;  /* paths of maps that hold an unknown key */
};

/* -1 with *err: out of memory. */
int spec_diagnostics_init(struct spec_diagnostics *f, struct err *err);
void spec_diagnostics_fini(struct spec_diagnostics *f);

enum spec_spot { SPOT_KEY, SPOT_VALUE };

/* Tell a mistake at a node; one from the command line is named in the sentence instead. Returns -1. */
int spec_diagnostic_at(struct spec_diagnostics *f, const struct yaml_node *node,
                       enum spec_spot spot,
                       const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Tell one at the value of `path`, or at the key of the deepest map above it that is there. */
int spec_diagnostic_of(struct spec_diagnostics *f, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A sentence that somebody else found. */
int spec_diagnostic_err(struct spec_diagnostics *f, const char *path, const struct err *err);

void spec_diagnostics_suppress(struct spec_diagnostics *f, const char *path);
void spec_diagnostics_stranger(struct spec_diagnostics *f, const char *map);

/* Is none of `paths`, separated by |, distrusted, nor a map above one of them? */
bool spec_diagnostics_trust(const struct spec_diagnostics *f, const char *paths);

#endif
