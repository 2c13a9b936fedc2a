/* SPDX-License-Identifier: Apache-2.0 */
/* plan_container.c - the runtime that runs the image of a job on this node
 *
 * Pure: no clock, no I/O.
 */
#include <stdio.h>
#include <string.h>

#include "agent/container/container_choice.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

/* podman has GPUs by their description for CDI alone. */
static int check_gpus(const struct plan_view *v, const json_t *chosen, struct err *err)
{
    if (v->gpus == 0 || strcmp(field_text(chosen, "runtime"), "podman") != 0 || field_true(chosen, "cdi"))
        return 0;
    return err_set(err, ERR_CONFLICT,
                   "podman on this node has no description of its GPUs: run `nvidia-ctk cdi generate "
                   "--output=/etc/cdi/nvidia.yaml` there as root, or name another runtime in image.runtime");
}

int plan_set_container(struct plan_view *v, struct err *err)
{
    char why[400];
    const json_t *image = json_object_get(v->spec, "image");
    if (!json_is_object(image))
        return 0;
    const json_t *chosen = container_choice(json_object_get(v->facts, "containers"), image, why, sizeof(why), err);
    if (!chosen || check_gpus(v, chosen, err) < 0)
        return err_prefix(err, "%s: ", container_choice_key(image));
    json_object_set_new(v->plan, "container",
                        json_make("{s:s, s:s, s:b, s:s, s:s}", "runtime", field_text(chosen, "runtime"), "path",
                                  field_text(chosen, "path"), "rootless", field_true(chosen, "rootless"), "image",
                                  field_text(image, "image"), "why", why));
    return 0;
}
