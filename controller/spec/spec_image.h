/* SPDX-License-Identifier: Apache-2.0 */
/* spec_image.h - the key `image:` of a spec: name, mounts and options */
#ifndef CONTROLLER_SPEC_SPEC_IMAGE_H
#define CONTROLLER_SPEC_SPEC_IMAGE_H

#include <jansson.h>
#include <stdbool.h>

struct spec_diagnostics;

/* Reports mistakes. `resolve`: paths become absolute, relative to the spec's workdir, and must exist if the job runs
 * on this machine; otherwise they must already be absolute. Call after spec_paths.h. */
void spec_image_check(json_t *spec, bool resolve, struct spec_diagnostics *diagnostics);

#endif
