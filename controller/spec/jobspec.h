/* SPDX-License-Identifier: Apache-2.0 */
/* jobspec.h - the text of a job spec to canonical JSON (docs/SPEC.md), or all that is wrong with it
 *
 * The CLI and the daemon call the same function.  It reads no file but asks the
 * file system whether paths exist.
 */
#ifndef CONTROLLER_SPEC_JOBSPEC_H
#define CONTROLLER_SPEC_JOBSPEC_H

#include <jansson.h>

struct err;
struct diagnostics;

enum { JOB_NAME_MAX = 64 };

/* `text` is YAML; `file` its name as the user gave it, "-" for standard input; `cwd` an absolute
 * directory, which `file` may be relative to. `set` holds overrides "a.b=c".
 * Returns 0 and a new reference in *canonical; or -1, *canonical NULL, every mistake in *found and
 * the first of them in *err. Of text that is not YAML only the first place is known. */
int jobspec_parse(json_t **canonical, const char *text, const char *file, const char *cwd,
                  const char *const *set, int nset, struct diagnostics *found, struct err *err);

#endif
