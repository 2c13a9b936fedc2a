/* SPDX-License-Identifier: Apache-2.0 */
/* canonical.h - checks canonical JSON from another source by the rules of a spec file
 *
 * A client sends canonical JSON (POST /v1/jobs), and a mirror contains that of another machine's job (jobctl adopt).
 * Both are untrusted: their writer decides what runs. Each value is checked against its row and by the rules of files,
 * so that only values which a submit could have produced are accepted. A missing key gets its default.
 */
#ifndef CONTROLLER_SPEC_CANONICAL_H
#define CONTROLLER_SPEC_CANONICAL_H

#include <jansson.h>
#include <stdbool.h>

struct diagnostics;
struct err;

/* 0 and a new reference in *out: the spec made by the checker. -1 with *out NULL: all mistakes in *found, each a
 * sentence that begins with the key, and the first one in *err. `stored`: a job's spec, which has an origin and may
 * have a lineage (engine/checkpoint/lineage.h). Opens no file, and does not check that paths exist. */
int canonical_check(json_t **out, const json_t *canonical, bool stored, struct diagnostics *found, struct err *err);

/* The spec as the text of a file, without values equal to the default; free() it. -1: out of memory. */
int canonical_text(char **text, const json_t *canonical, struct err *err);

#endif
