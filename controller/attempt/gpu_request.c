/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_request.c - see gpu_request.h */
#include "controller/attempt/gpu_request.h"

#include "controller/job/job.h"
#include "controller/nodes/gpu_figures.h"
#include "controller/remote/remote.h"
#include "engine/base/field.h"

static void ask(struct job *job, struct remote_link *link, int64_t for_ms)
{
    json_t *body = job_envelope(job);
    if (body && json_object_set_new(body, "for_ms", json_integer(for_ms)) == 0)
        job->need.remote->send(link, WIRE_WATCH_GPUS, body);
    else
        json_decref(body);
}

void gpu_request_hear(struct job *job, struct remote_link *link, const char *node, int64_t *asked_ms,
                      enum wire_message number, const json_t *body)
{
    if (!link || job->need.remote == &remote_local)
        return;
    if (number == WIRE_GPU_LOAD)    /* Slurm chose the machine: its own name */
        gpu_figures_take(job->daemon, job->need.remote == &remote_slurm ? field_text(body, "node") : node,
                         json_object_get(body, "gpus"));
    const int64_t for_ms = gpu_figures_ask(job->daemon, asked_ms);
    if (for_ms > 0)
        ask(job, link, for_ms);
}
