/* SPDX-License-Identifier: Apache-2.0 */
/* spec_paths.h - paths of a spec made absolute, and proved to be there where they must be */
#ifndef CONTROLLER_SPEC_SPEC_PATHS_H
#define CONTROLLER_SPEC_SPEC_PATHS_H

#include <jansson.h>
#include <stddef.h>

struct err;
struct spec_diagnostics;

/* `path` against `base`, an absolute directory; "~/" is the home directory, "." parts vanish. */
int spec_path_absolute(char *out, size_t size, const char *base, const char *path,
                       struct err *err);

/* All paths of `spec`; `base` is the directory of the file. What is wrong is told to `faults` and
 * distrusted; of a path that is distrusted already, or hangs on one, nothing is asked. */
void spec_paths_resolve(json_t *spec, const char *base, struct spec_diagnostics *diagnostics);

#endif
