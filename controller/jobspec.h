/* SPDX-License-Identifier: Apache-2.0 */
/* jobspec.h - the text of a job spec to canonical JSON (docs/SPEC.md), or one good sentence
 *
 * The CLI and the daemon call the same function.  It reads no file but asks the
 * file system whether paths exist.
 */
#ifndef CONTROLLER_JOBSPEC_H
#define CONTROLLER_JOBSPEC_H

#include <jansson.h>

struct err;

/* Where the spec is wrong, counted from 1; line 0: in no line of the file (a --set, for example,
 * which the sentence then names). */
struct spec_error {
    int line, column;
};

enum { JOB_NAME_MAX = 64 };

/* `text` is YAML; `file` its name as the user gave it, "-" for standard input; `cwd` an absolute
 * directory, which `file` may be relative to. `set` holds overrides "a.b=c".
 * Returns 0 and a new reference in *canonical; or -1, *canonical NULL, the place in *where and the
 * sentence, without the place, in *err. */
int jobspec_parse(json_t **canonical, const char *text, const char *file, const char *cwd,
                  const char *const *set, int nset, struct spec_error *where, struct err *err);

#endif
