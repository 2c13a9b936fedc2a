/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c - see hosts.h */
#include "controller/nodes/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log.h"
#include "agent/plan/plan.h"
#include "controller/base/daemon.h"
#include "controller/base/utc.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/nodes/fleet.h"
#include "controller/remote/remote.h"
#include "db/nodes.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

struct host {
    char         name[64];
    char         error[240];    /* its latest failure, "" = none since its last answer */
    char         reason[160];   /* reason of the drain */
    bool         drained, vanished;
    int64_t      failures, failed_ms, seen_ms;
    int64_t      cpus, gpus;    /* of its newest agent; 0 CPUs: not known */
    struct host *next;
};

static struct host *find(const struct daemon *d, const char *name)
{
    for (struct host *h = d->hosts; h; h = h->next)
        if (strcmp(h->name, name) == 0)
            return h;
    return NULL;
}

static bool has_node(const struct job *job, const char *name)
{
    for (size_t i = 0; i < json_array_size(job->nodes.names); i++)
        if (strcmp(json_string_value(json_array_get(job->nodes.names, i)), name) == 0)
            return true;
    return strcmp(job->core.node, name) == 0;
}

static bool holds(const struct job *job, const char *name)
{
    return job->core.live && job->need.remote == &remote_ssh && has_node(job, name);
}

static int64_t holder_of(const struct daemon *d, const char *name)
{
    for (size_t i = 0; i < d->active_jobs->begun.count; i++)
        if (holds(active_jobs_begun(d->active_jobs, i), name))
            return active_jobs_begun(d->active_jobs, i)->core.id;
    return 0;
}

static bool may_share(const struct job *job)
{
    return job->need.nodes == 1 && job->need.node_gpus >= 0;
}

/* A job that leaves no room for this one; 0: none does. */
static int64_t in_the_way(const struct job *job, const char *name, const struct host *h)
{
    const struct daemon *d = job->daemon;
    struct sched_node left = {.cpus = h ? h->cpus : 0, .gpus = h ? h->gpus : 0};
    const struct sched_need mine = sched_need(job->need.node_cpus, job->need.node_gpus, &left);
    left.cpus_free = left.cpus;
    left.gpus_free = left.gpus;
    for (size_t i = 0; i < d->active_jobs->begun.count; i++) {
        const struct job *other = active_jobs_begun(d->active_jobs, i);
        if (other == job || !holds(other, name))
            continue;
        const struct sched_need need = sched_need(other->need.node_cpus, other->need.node_gpus, &left);
        left.cpus_free -= need.cpus;
        left.gpus_free -= need.gpus;
        if (!left.cpus || !may_share(job) || !may_share(other) || mine.cpus > left.cpus_free ||
            mine.gpus > left.gpus_free)
            return other->core.id;
    }
    return 0;
}

void hosts_look(struct hosts_health *out, const struct job *job, const char *name)
{
    const struct host *h = find(job->daemon, name);
    *out = (struct hosts_health){ .holder = in_the_way(job, name, h) };
    if (!h)
        return;
    out->error = h->error;
    out->drained = h->drained ? h->reason : NULL;
    if (daemon_now_ms() - h->failed_ms < HOSTS_LATELY_MS) {
        out->failures = h->failures;
        out->bad = h->failures >= HOSTS_OFTEN || (h->vanished && job->need.nodes > 1);
    }
}

const char *hosts_drained(const struct daemon *d, const char *name)
{
    const struct host *h = find(d, name);
    return h && h->drained ? h->reason : NULL;
}

/* ---- records ---- */

static struct host *remember(struct daemon *d, const char *name)
{
    struct host *h = find(d, name);
    if (!h && (h = calloc(1, sizeof(*h)))) {
        struct host **at = &d->hosts;
        snprintf(h->name, sizeof(h->name), "%s", name);
        while (*at && strcmp((*at)->name, name) < 0)
            at = &(*at)->next;
        h->next = *at;
        *at = h;
    }
    return h;
}

static int keep(struct daemon *d, const struct host *h, struct err *err)
{
    const struct node_row row = {
        .name = h->name, .last_seen_ms = h->seen_ms, .failures = h->failures,
        .failed_ms = h->failed_ms, .vanished = h->vanished, .error = h->error,
        .drained = h->drained ? h->reason : NULL,
    };
    return nodes_put_health(d->store, &row, err);
}

static void keep_or_say(struct daemon *d, const struct host *h)
{
    struct err err = { 0 };
    if (keep(d, h, &err) < 0)
        log_warn(NULL, "%s", err.text);
}

static void failed(struct daemon *d, const char *name, const char *text, bool vanished)
{
    struct host *h = remember(d, name);
    if (!h)
        return;
    h->failures++;
    h->failed_ms = daemon_now_ms();
    h->vanished = vanished;
    snprintf(h->error, sizeof(h->error), "%s", text);
    err_make_printable(h->error);
    keep_or_say(d, h);
}

void hosts_failed(struct daemon *d, const char *name, const char *text)
{
    failed(d, name, text, false);
}

void hosts_vanished(struct daemon *d, const char *name, const char *text)
{
    failed(d, name, text, true);
}

void hosts_lost(struct daemon *d, const char *name, const char *text)
{
    const struct host *h = find(d, name);
    char why[sizeof(h->error)];
    snprintf(why, sizeof(why), "%s", h && h->error[0] ? h->error : text);
    failed(d, name, why, h && h->vanished);
}

static void forgive(struct host *h)
{
    h->failures = 0;
    h->failed_ms = 0;
    h->vanished = false;
    h->error[0] = 0;
}

void hosts_answered(struct daemon *d, const char *name, const json_t *facts)
{
    struct host *h = remember(d, name);
    if (!h)
        return;
    if (field_int(facts, "cpus", 0) > 0) {
        const double quota = field_number(facts, "cgroup_cpus");
        h->cpus = field_int(facts, "cpus", 0);
        h->cpus = quota >= 1 && quota < (double)h->cpus ? (int64_t)quota : h->cpus;
        h->gpus = plan_count_gpus(facts);
    }
    forgive(h);
    h->seen_ms = daemon_now_ms();
    keep_or_say(d, h);
}

void hosts_clock_set(struct daemon *d, int64_t jump_ms)
{
    for (struct host *h = d->hosts; h; h = h->next)
        if (h->failed_ms)
            h->failed_ms += jump_ms;
}

/* ---- actions of the user ---- */

static int no_room(struct err *err)
{
    return err_set(err, ERR_MEMORY, "out of memory for a node");
}

int hosts_add(struct daemon *d, const char *name, struct err *err)
{
    struct host *h = remember(d, name);
    return h ? keep(d, h, err) : no_room(err);
}

int hosts_drain(struct daemon *d, const char *name, const char *reason, struct err *err)
{
    struct host *h = remember(d, name);
    if (!h)
        return no_room(err);
    h->drained = true;
    snprintf(h->reason, sizeof(h->reason), "%s", reason);
    err_make_printable(h->reason);
    return keep(d, h, err);
}

int hosts_resume(struct daemon *d, const char *name, struct err *err)
{
    struct host *h = find(d, name);
    if (!h && strcmp(name, d->fleet->node) == 0)
        return 0;
    if (!h)
        return err_set(err, ERR_NOT_FOUND, "unknown node %.63s; `jobctl nodes` lists the known ones", name);
    forgive(h);
    h->drained = false;
    return keep(d, h, err);
}

int hosts_remove(struct daemon *d, const char *name, struct err *err)
{
    struct host *h = find(d, name);
    const int64_t holder = holder_of(d, name);
    if (!h)
        return err_set(err, ERR_NOT_FOUND, "unknown node %.63s; `jobctl nodes` lists the known ones", name);
    if (holder)
        return err_set(err, ERR_CONFLICT, "job %lld runs on %s; cancel it first, or run `jobctl "
                       "nodes drain %s` and wait for its end", (long long)holder, name, name);
    if (strcmp(name, d->fleet->node) == 0)
        return err_set(err, ERR_CONFLICT, "%s is this machine and cannot be removed; to keep jobs "
                       "away: jobctl nodes drain %s", name, name);
    if (nodes_remove(d->store, name, err) < 0)
        return -1;
    for (struct host **at = &d->hosts; *at; at = &(*at)->next)
        if (*at == h) {
            *at = h->next;
            break;
        }
    free(h);
    return 0;
}

/* ---- output ---- */

void hosts_list(const struct daemon *d, json_t *nodes)
{
    for (const struct host *h = d->hosts; h; h = h->next) {
        const int64_t holder = holder_of(d, h->name);
        const char *state = h->drained ? "drained" : h->error[0] ? "failing"
                            : holder ? "busy" : h->seen_ms ? "free" : "new";
        if (strcmp(h->name, d->fleet->node) == 0)
            continue;
        json_array_append_new(nodes, json_make(
            "{s:s, s:s, s:n, s:n, s:[], s:n, s:o, s:s, s:I, s:s, s:o, s:o}", "name", h->name,
            "state", state, "cpus", "cpus_free", "gpus", "gpus_free", "last_seen",
            h->seen_ms ? utc_json(h->seen_ms) : json_null(), "boot_id", "", "failures",
            (json_int_t)h->failures, "error", h->error, "job",
            holder ? json_integer(holder) : json_null(), "drained",
            h->drained ? json_text(h->reason) : json_null()));
    }
}

/* ---- load ---- */

static int take(void *ctx, const struct node_row *row)
{
    struct daemon *d = ctx;
    struct host *h;
    if (row->boot_id[0] && !row->drained)
        return 0;           /* a machine that ran the controller */
    if (!(h = remember(d, row->name)))
        return 1;
    h->failures = row->failures;
    h->failed_ms = row->failed_ms;
    h->seen_ms = row->last_seen_ms;
    h->vanished = row->vanished;
    h->drained = row->drained != NULL;
    snprintf(h->reason, sizeof(h->reason), "%s", row->drained ? row->drained : "");
    snprintf(h->error, sizeof(h->error), "%s", row->error);
    return 0;
}

int hosts_open(struct daemon *d, struct err *err)
{
    const int rc = nodes_each(d->store, take, d, err);
    return rc > 0 ? no_room(err) : rc;
}

void hosts_close(struct daemon *d)
{
    while (d->hosts) {
        struct host *h = d->hosts;
        d->hosts = h->next;
        free(h);
    }
}
