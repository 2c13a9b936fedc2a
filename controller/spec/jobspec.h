/* SPDX-License-Identifier: Apache-2.0 */
/* jobspec.h - turns a job spec into canonical JSON (docs/SPEC.md), or lists all its mistakes
 *
 * The CLI and the daemon call the same function.  It reads only the file named by train.config (recipe.h), but checks
 * whether paths exist.
 */
#ifndef CONTROLLER_SPEC_JOBSPEC_H
#define CONTROLLER_SPEC_JOBSPEC_H

#include <jansson.h>
#include <stddef.h>

struct err;
struct diagnostics;
struct spec_diagnostics;

enum { JOB_NAME_MAX = 64 };

/* `text` is YAML; `file` its name as given by the user, "-" for standard input; `cwd` the absolute
 * directory to which `file` is relative. `set` holds overrides "a.b=c".
 * Returns 0 and a new reference in *canonical; or -1 with *canonical NULL, all mistakes in *found
 * and the first one in *err. If the text is not YAML, only the first mistake is reported. */
int jobspec_parse(json_t **canonical, const char *text, const char *file, const char *cwd,
                  const char *const *set, int nset, struct diagnostics *found, struct err *err);

/* Adds a mistake found by another check, in a spec that jobspec_parse() accepted, at the place of `path` in the
 * text; for a --set the message names the option. */
void jobspec_add_mistake(struct diagnostics *found, const char *text, const char *const *set, int nset,
                         const char *path, const struct err *why);

/* The directory against which the paths in `file` are resolved. */
int jobspec_base(char *out, size_t size, const char *file, const char *cwd, struct err *err);

/* The checks that need all keys: rules between keys, paths, the engine's rules. `base`: paths become absolute,
 * relative to this directory, and required paths must exist; NULL: `spec` is already canonical, so each path must be
 * absolute, and none is checked. Mistakes are added to *found; -1: out of memory. */
int jobspec_check_whole(json_t *spec, const char *base, struct spec_diagnostics *found, struct err *err);

/* Checks `sweep`, `array` and `max_parallel` against each other (sweep_points.h). */
void jobspec_check_members(const json_t *spec, struct spec_diagnostics *found);

#endif
