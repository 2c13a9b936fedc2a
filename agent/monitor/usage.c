/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - see usage.h */
#include "agent/monitor/usage.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/monitor/activity.h"
#include "agent/os/process_tree.h"
#include "agent/ranks/ranks.h"
#include "engine/contract/clock.h"
#include "engine/contract/err.h"

enum { SAMPLE_MS = 1000, TIMES_COST = 50 };

struct usage {
    const struct ranks     *ranks;
    struct process_tree    *trees;
    struct activity_sample *samples;
    int                     n;
    int64_t                 next_ms;
};

int usage_create(struct usage **out, const struct ranks *ranks, struct err *err)
{
    struct usage *u = *out = calloc(1, sizeof(*u));
    if (!u)
        return err_set(err, ERR_MEMORY, "no memory to watch the ranks");
    u->ranks = ranks;
    return 0;
}

void usage_destroy(struct usage *u)
{
    if (!u)
        return;
    free(u->trees);
    free(u->samples);
    free(u);
}

static bool make_room(struct usage *u)
{
    const int n = ranks_count(u->ranks);
    if (n == u->n)
        return true;
    free(u->trees);
    free(u->samples);
    u->trees = calloc((size_t)n, sizeof(*u->trees));
    u->samples = calloc((size_t)n, sizeof(*u->samples));
    u->n = u->trees && u->samples ? n : 0;
    return u->n == n;
}

/* CPU time of this thread: on a busy machine a pass is not dearer. */
static int64_t cpu_ms(void)
{
    struct timespec t = {0, 0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void read_all(struct usage *u, int64_t now)
{
    const int first = ranks_first(u->ranks);
    for (int i = 0; i < u->n; i++)
        u->trees[i].root = ranks_pid(u->ranks, first + i);
    process_tree_read(u->trees, u->n);
    for (int i = 0; i < u->n; i++)
        u->samples[i] = (struct activity_sample){
            .at_ms = now,
            .cpu_ms = u->trees[i].cpu_ms,
            .io_bytes = u->trees[i].io_bytes,
            .output_bytes = ranks_output_bytes(u->ranks, first + i)};
}

void usage_get(struct usage *u, int rank, struct activity_sample *out)
{
    const int64_t now = clock_ms();
    memset(out, 0, sizeof(*out));
    if (!make_room(u))
        return;
    if (now >= u->next_ms) {
        const int64_t before = cpu_ms();
        read_all(u, now);
        const int64_t wait = TIMES_COST * (cpu_ms() - before);
        u->next_ms = now + (wait > SAMPLE_MS ? wait : SAMPLE_MS);
    }
    const int i = rank - ranks_first(u->ranks);
    if (i >= 0 && i < u->n)
        *out = u->samples[i];
}
