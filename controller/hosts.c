/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c - see hosts.h */
#include "controller/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/daemon.h"
#include "controller/job.h"
#include "controller/remote.h"

enum { LATELY_MS = 60 * 60 * 1000 };

struct host {
    char         name[64];
    int64_t      failures, failed_ms;
    struct host *next;
};

static struct host *find(const struct daemon *d, const char *name)
{
    for (struct host *h = d->hosts; h; h = h->next)
        if (strcmp(h->name, name) == 0)
            return h;
    return NULL;
}

static int64_t holder_of(const struct job *job, const char *name)
{
    const struct roster *roster = &job->daemon->roster;
    for (size_t i = 0; i < roster->count; i++) {
        const struct job *other = roster->jobs[i];
        if (other != job && other->core.live && other->remote == &remote_ssh &&
            strcmp(other->core.node, name) == 0)
            return other->core.id;
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
        const int64_t failures = lately ? h->failures : 0, held = holder_of(job, name);
        if (held && !*holder)
            *holder = held;
        if (held || (best && failures >= fewest))
            continue;
        best = name;
        fewest = failures;
    }
    return best;
}

void hosts_failed(struct daemon *d, const char *name, int64_t now_ms)
{
    struct host *h = find(d, name);
    if (!h && (h = calloc(1, sizeof(*h)))) {
        snprintf(h->name, sizeof(h->name), "%s", name);
        h->next = d->hosts;
        d->hosts = h;
    }
    if (!h)
        return;
    h->failures++;
    h->failed_ms = now_ms;
}

void hosts_answered(struct daemon *d, const char *name)
{
    struct host *h = find(d, name);
    if (h)
        h->failures = 0;
}

void hosts_close(struct daemon *d)
{
    while (d->hosts) {
        struct host *h = d->hosts;
        d->hosts = h->next;
        free(h);
    }
}
