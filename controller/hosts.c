/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c - see hosts.h */
#include "controller/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/daemon.h"
#include "controller/job.h"
#include "controller/remote.h"
#include "controller/row.h"
#include "engine/err.h"

enum { LATELY_MS = 60 * 60 * 1000 };

struct host {
    char         name[64];
    char         error[240];    /* of its latest failure, "" = it has answered since */
    int64_t      failures, failed_ms, seen_ms;
    struct host *next;
};

static struct host *find(const struct daemon *d, const char *name)
{
    for (struct host *h = d->hosts; h; h = h->next)
        if (strcmp(h->name, name) == 0)
            return h;
    return NULL;
}

/* `except`: NULL, or a job that does not count. */
static int64_t holder_of(const struct daemon *d, const struct job *except, const char *name)
{
    for (size_t i = 0; i < d->roster.count; i++) {
        const struct job *job = d->roster.jobs[i];
        if (job != except && job->core.live && job->remote == &remote_ssh &&
            strcmp(job->core.node, name) == 0)
            return job->core.id;
    }
    return 0;
}

const char *hosts_choose(const struct job *job, int64_t *holder)
{
    const char *best = NULL;
    int64_t fewest = 0;
    *holder = 0;
    for (size_t i = 0; i < json_array_size(job->hosts); i++) {
        const char *name = json_string_value(json_array_get(job->hosts, i));
        const struct host *h = find(job->daemon, name);
        const bool lately = h && daemon_now_ms() - h->failed_ms < LATELY_MS;
        const int64_t failures = lately ? h->failures : 0, held = holder_of(job->daemon, job, name);
        if (held && !*holder)
            *holder = held;
        if (held || (best && failures >= fewest))
            continue;
        best = name;
        fewest = failures;
    }
    return best;
}

static struct host *remember(struct daemon *d, const char *name)
{
    struct host *h = find(d, name);
    if (!h && (h = calloc(1, sizeof(*h)))) {
        snprintf(h->name, sizeof(h->name), "%s", name);
        h->next = d->hosts;
        d->hosts = h;
    }
    return h;
}

void hosts_failed(struct daemon *d, const char *name, const char *text)
{
    struct host *h = remember(d, name);
    if (!h)
        return;
    h->failures++;
    h->failed_ms = daemon_now_ms();
    snprintf(h->error, sizeof(h->error), "%s", text);
    err_make_printable(h->error);
}

void hosts_answered(struct daemon *d, const char *name)
{
    struct host *h = remember(d, name);
    if (!h)
        return;
    h->failures = 0;
    h->error[0] = 0;
    h->seen_ms = daemon_now_ms();
}

void hosts_list(const struct daemon *d, json_t *nodes)
{
    for (const struct host *h = d->hosts; h; h = h->next) {
        const int64_t holder = holder_of(d, NULL, h->name);
        const char *state = h->error[0] ? "failing" : holder ? "busy" : "free";
        json_array_append_new(nodes, json_pack(
            "{s:s, s:s, s:n, s:n, s:[], s:n, s:o, s:s, s:I, s:s, s:o}", "name", h->name, "state",
            state, "cpus", "cpus_free", "gpus", "gpus_free", "last_seen",
            h->seen_ms ? row_time(h->seen_ms) : json_null(), "boot_id", "", "failures",
            (json_int_t)h->failures, "error", h->error, "job",
            holder ? json_integer(holder) : json_null()));
    }
}

void hosts_close(struct daemon *d)
{
    while (d->hosts) {
        struct host *h = d->hosts;
        d->hosts = h->next;
        free(h);
    }
}
