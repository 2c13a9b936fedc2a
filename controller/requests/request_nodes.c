/* SPDX-License-Identifier: Apache-2.0 */
/* request_nodes.c - lists nodes; adds, drains, resumes and removes them */
#include "controller/nodes/fleet.h"
#include "controller/requests/requests.h"

#include <string.h>

#include "engine/base/field.h"
#include "controller/base/daemon.h"
#include "controller/base/utc.h"
#include "controller/http/request.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/nodes/gpu_figures.h"
#include "controller/nodes/hosts.h"
#include "controller/nodes/machine_users.h"
#include "controller/spec/spec_rules.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

/* The running job whose plan has this GPU, as `job` and `job_name`. */
static void add_holder(struct daemon *d, json_t *gpu)
{
    json_t *uuid;
    size_t k;
    for (size_t i = 0; i < d->active_jobs->begun.count; i++) {
        const struct job *job = active_jobs_begun(d->active_jobs, i);
        const json_t *planned = job->core.live ? json_object_get(job->nodes.placed, "planned") : NULL;
        json_array_foreach(json_object_get(planned, "uuids"), k, uuid) {
            if (strcmp(json_string_value(uuid), field_text(gpu, "uuid")) != 0)
                continue;
            json_object_set_new(gpu, "job", json_integer(job->core.id));
            json_object_set_new(gpu, "job_name", json_text(job->spec.name));
        }
    }
}

/* The GPUs of the facts; with ?now=1 each has "now", what it does at present, or null. */
static json_t *gpus_of(struct daemon *d, bool now)
{
    json_t *list = json_object_get(d->fleet->facts, "gpus"), *gpu;
    json_t *out = json_array();
    size_t i;
    if (now)
        gpu_figures_want(d, GPU_FIGURES_PAGE_MS);
    json_array_foreach(list, i, gpu) {
        json_t *row = json_deep_copy(gpu), *slice;
        size_t k;
        const json_t *figures = gpu_figures_of(d, field_text(gpu, "uuid"));
        if (now)
            json_object_set_new(row, "now", figures ? json_deep_copy(figures) : json_null());
        add_holder(d, row);
        json_array_foreach(json_object_get(row, "mig_slices"), k, slice)
            add_holder(d, slice);
        json_array_append_new(out, row);
    }
    return out;
}

/* The rows of `gpus` from lines of agent/probe/gpu_load.h. */
static json_t *as_rows(struct daemon *d, const json_t *lines)
{
    json_t *out = json_array(), *line;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)lines, i, line) {
        json_array_append_new(out, json_make("{s:I, s:s, s:s, s:O*, s:O}", "index",
                                             (json_int_t)field_int(line, "index", (int64_t)i), "uuid",
                                             field_text(line, "uuid"), "name", field_text(line, "name"), "memory_bytes",
                                             json_object_get(line, "memory_bytes"), "now", line));
        add_holder(d, json_array_get(out, i));
    }
    return out;
}

/* What agents on other machines report about their GPUs, as `gpus` of those machines. */
static void tell_elsewhere(struct daemon *d, json_t *nodes)
{
    json_t *node;
    size_t i;
    json_array_foreach(nodes, i, node) {
        const json_t *gpus = json_object_get(gpu_figures_elsewhere(d), field_text(node, "name"));
        if (gpus && i > 0)
            json_object_set_new(node, "gpus", as_rows(d, gpus));
    }
}

static void tell_here(struct daemon *d, json_t *nodes, bool now)
{
    const struct fleet *f = d->fleet;
    const char *drained = hosts_drained(d, f->node);
    int64_t cpus, gpus;
    fleet_free(d, &cpus, &gpus);
    json_array_append_new(nodes, json_make(
        "{s:s, s:s, s:b, s:I, s:I, s:o, s:I, s:o, s:s, s:o, s:o, s:O*}", "name", f->node, "state",
        drained ? "drained" : "up", "probed", f->facts != NULL, "cpus", (json_int_t)d->machine.cpus, "cpus_free",
        (json_int_t)cpus,
        "gpus", gpus_of(d, now), "gpus_free",
        (json_int_t)gpus, "last_seen", utc_json(daemon_now_ms()), "boot_id", f->boot_id, "drained",
        drained ? json_text(drained) : json_null(), "users", machine_users_list(d), "pairs",
        json_object_get(f->facts, "pairs")));
}

void request_nodes(struct request *r)
{
    struct daemon *d = request_daemon(r);
    json_t *nodes = json_array();
    tell_here(d, nodes, request_query(r, "now") != NULL);
    hosts_list(d, nodes);
    if (request_query(r, "now"))
        tell_elsewhere(d, nodes);
    request_answer(r, 200, json_make("{s:o}", "nodes", nodes));
}

/* The user's actions on a node. */
void request_node(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    const char *name = json_string_value(json_object_get(request_body(r), "name"));
    const char *action = json_string_value(json_object_get(request_body(r), "action"));
    int rc = spec_host_check(name, &err);
    if (rc == 0 && strcmp(action, "add") == 0)
        rc = hosts_add(d, name, &err);
    else if (rc == 0 && strcmp(action, "drain") == 0)
        rc = hosts_drain(d, name, field_text(request_body(r), "reason"), &err);
    else if (rc == 0 && strcmp(action, "resume") == 0)
        rc = hosts_resume(d, name, &err);
    else if (rc == 0 && strcmp(action, "remove") == 0)
        rc = hosts_remove(d, name, &err);
    else if (rc == 0)
        rc = err_set(&err, ERR_USAGE, "action: \"%.40s\" is not one of add, drain, resume and "
                                      "remove",
                     action);
    if (rc < 0) {
        request_fail(r, &err, NULL);
        return;
    }
    fleet_dirty(d);
    request_nodes(r);
}
