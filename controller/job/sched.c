/* SPDX-License-Identifier: Apache-2.0 */
/* sched.c - see sched.h */
#include "controller/job/sched.h"

#include <stdio.h>
#include <stdlib.h>

enum { MEMBERS_BITS = 20 };     /* indices are below that power of two */

int64_t sched_order(int64_t id, int64_t sweep, int64_t index)
{
    return sweep > 0 ? (sweep - 1) * (INT64_C(1) << MEMBERS_BITS) + 1 + index : id * (INT64_C(1) << MEMBERS_BITS);
}

static int64_t order(const struct sched_job *j)
{
    return j->order ? j->order : sched_order(j->id, 0, 0);
}

static bool before(const struct sched_job *a, const struct sched_job *b)
{
    return a->priority != b->priority ? a->priority > b->priority : order(a) < order(b);
}

static int compare(const void *pa, const void *pb)
{
    const struct sched_job *a = pa, *b = pb;
    return before(a, b) ? -1 : before(b, a) ? 1 : 0;
}

struct sched_need sched_need(int64_t cpus, int64_t gpus, const struct sched_node *node)
{
    const bool all = gpus < 0 || gpus >= node->gpus;
    struct sched_need need = {.cpus = cpus, .gpus = all ? node->gpus : gpus};
    if (cpus < 0)
        need.cpus = all || gpus == 0 ? node->cpus : node->cpus * gpus / node->gpus;
    if (cpus < 0 && need.cpus == 0)
        need.cpus = 1;
    return need;
}

/* Why the job is not in the queue yet, or SCHED_NONE. */
static enum sched_word not_queued(struct sched_job *j, const struct sched_node *node, int64_t now_ms)
{
    if (j->dep == DEP_FAILED || j->dep == DEP_OPEN) {
        j->other = j->dep_id;
        return j->dep == DEP_FAILED ? SCHED_AFTER_FAILED : SCHED_AFTER;
    }
    if (j->held)
        return SCHED_HELD;
    if (j->cpus > node->cpus) {
        j->other = node->cpus;
        return SCHED_TOO_BIG;
    }
    if (j->writer) {
        j->other = j->writer;
        return SCHED_DIR;
    }
    if (j->not_before_ms > now_ms)
        return SCHED_BACKOFF;
    return SCHED_NONE;
}

static int64_t take(int64_t *free, int64_t wanted)
{
    int64_t taken = wanted < *free ? wanted : *free;
    *free -= taken;
    return taken;
}

int64_t sched_run(struct sched_job *jobs, size_t count, struct sched_node *node, int64_t now_ms)
{
    bool sorted = true;
    for (size_t i = 1; i < count && sorted; i++)
        sorted = before(&jobs[i - 1], &jobs[i]);
    if (!sorted)
        qsort(jobs, count, sizeof(*jobs), compare);

    int64_t wake = -1, head = 0, waiting = 0;
    struct sched_node kept = *node;     /* free, less reservations of jobs ahead */
    for (size_t i = 0; i < count; i++) {
        struct sched_job *j = &jobs[i];
        j->place = waiting;
        j->word = not_queued(j, node, now_ms);
        if (j->word == SCHED_BACKOFF && (wake < 0 || j->not_before_ms < wake))
            wake = j->not_before_ms;
        if (j->word != SCHED_NONE)
            continue;
        const struct sched_need need = sched_need(j->cpus, j->gpus, node);
        if (need.cpus <= kept.cpus_free && need.gpus <= kept.gpus_free) {
            j->word = SCHED_PLACE;
            j->take_cpus = take(&kept.cpus_free, need.cpus);
            j->take_gpus = take(&kept.gpus_free, need.gpus);
            node->cpus_free -= need.cpus;
            node->gpus_free -= need.gpus;
            continue;
        }
        const bool gpu = need.gpus > node->gpus_free;
        j->word = head ? SCHED_TURN : gpu ? SCHED_GPUS : SCHED_CPUS;
        j->other = head ? head : gpu ? node->gpus_free : node->cpus_free;
        if (!head)
            head = j->id;
        waiting++;
        take(&kept.cpus_free, need.cpus);
        take(&kept.gpus_free, need.gpus);
    }
    return wake;
}

static void slots(char *out, size_t size, const struct sched_job *j, int64_t asked, const char *what)
{
    char many[32], free[32] = "none";
    snprintf(many, sizeof(many), "%lld", (long long)asked);
    if (j->other > 0)
        snprintf(free, sizeof(free), "%lld", (long long)j->other);
    snprintf(out, size, "next in queue: needs %s %s%s, %s free", asked < 0 ? "all" : many, what,
             asked == 1 ? "" : "s", free);
}

void sched_text(char *out, size_t size, const struct sched_job *j, int64_t now_ms)
{
    switch (j->word) {
    case SCHED_NONE:
        snprintf(out, size, "just submitted");
        return;
    case SCHED_PLACE:
        snprintf(out, size, "about to start");
        return;
    case SCHED_HELD:
        snprintf(out, size, "held; release it with `jobctl hold --off %lld`", (long long)j->id);
        return;
    case SCHED_AFTER:
        snprintf(out, size, "waiting for job %lld to %s", (long long)j->other,
                 j->dep_kind == AFTER_ANY ? "end" : j->dep_kind == AFTER_NOTOK ? "fail" : "succeed");
        return;
    case SCHED_AFTER_FAILED:
        snprintf(out, size, j->dep_kind == AFTER_NOTOK ? "dependency failed: job %lld succeeded (afternotok)"
                 : "dependency failed: job %lld did not succeed", (long long)j->other);
        return;
    case SCHED_BACKOFF:
        snprintf(out, size, "next attempt in %.1f s",
                 (double)(j->not_before_ms > now_ms ? j->not_before_ms - now_ms : 0) / 1000);
        return;
    case SCHED_CPUS:
        slots(out, size, j, j->cpus, "CPU slot");
        return;
    case SCHED_GPUS:
        slots(out, size, j, j->gpus, "GPU");
        return;
    case SCHED_TURN:
        snprintf(out, size, "queued: %lld job%s ahead, the first is job %lld",
                 (long long)j->place, j->place == 1 ? "" : "s", (long long)j->other);
        return;
    case SCHED_HOST:
        snprintf(out, size, "waiting for a host: job %lld is using one, none is free", (long long)j->other);
        return;
    case SCHED_DIR:
        snprintf(out, size, "waiting for job %lld, which writes the same checkpoint.dir", (long long)j->other);
        return;
    case SCHED_TOO_BIG:
        snprintf(out, size, "can never start: needs %lld CPU slots on one node, the largest node has %lld",
                 (long long)j->cpus, (long long)j->other);
        return;
    case SCHED_WORDS:
        break;
    }
    snprintf(out, size, "unknown");
}
