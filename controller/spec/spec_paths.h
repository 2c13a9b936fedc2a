/* SPDX-License-Identifier: Apache-2.0 */
/* spec_paths.h - makes paths of a spec absolute and checks that required ones exist */
#ifndef CONTROLLER_SPEC_SPEC_PATHS_H
#define CONTROLLER_SPEC_SPEC_PATHS_H

#include <jansson.h>
#include <stddef.h>

struct err;
struct spec_diagnostics;

/* Resolves `path` against the absolute directory `base`; expands "~/", drops "." parts. */
int spec_path_absolute(char *out, size_t size, const char *base, const char *path, struct err *err);

/* Resolves all paths of `spec`; `base` is the directory of the file. Mistakes are reported and
 * suppressed; paths that are suppressed already, or depend on one, are skipped. */
void spec_paths_resolve(json_t *spec, const char *base, struct spec_diagnostics *diagnostics);

/* The same for a canonical spec: reports each path that is not absolute, or not in the form of spec_path_absolute().
 * Checks no files. */
void spec_paths_check_absolute(const json_t *spec, struct spec_diagnostics *diagnostics);

#endif
