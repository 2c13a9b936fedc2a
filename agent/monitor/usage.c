/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - see usage.h */
#include "agent/monitor/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/monitor/activity.h"
#include "agent/monitor/tree_use.h"
#include "agent/ranks/ranks.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"

enum { SAMPLE_MS = 1000, WINDOW_MS = 10 * 1000, TIMES_COST = 50, ADDRESS = 64 };

struct usage {
    const struct ranks     *ranks;
    struct tree_use        *trees;
    struct tree_use_sum    *sums;
    struct activity_sample *samples;
    int64_t                *roots;
    int                     n;
    int64_t                 next_ms, counted_ms, count_ms; /* the next sample; the last window's end, and the next one's */
    int64_t                 window_ms;
    char                    first[ADDRESS];
};

int usage_create(struct usage **out, const struct ranks *ranks, struct err *err)
{
    struct usage *u = *out = calloc(1, sizeof(*u));
    if (!u)
        return err_set(err, ERR_MEMORY, "no memory to watch the ranks");
    u->ranks = ranks;
    u->window_ms = WINDOW_MS;
    return tree_use_create(&u->trees, err);
}

static void free_room(struct usage *u)
{
    free(u->sums);
    free(u->samples);
    free(u->roots);
}

void usage_destroy(struct usage *u)
{
    if (!u)
        return;
    tree_use_destroy(u->trees);
    free_room(u);
    free(u);
}

static bool make_room(struct usage *u)
{
    const int n = ranks_count(u->ranks);
    if (n == u->n)
        return true;
    free_room(u);
    u->sums = calloc((size_t)n, sizeof(*u->sums));
    u->samples = calloc((size_t)n, sizeof(*u->samples));
    u->roots = calloc((size_t)n, sizeof(*u->roots));
    u->n = u->sums && u->samples && u->roots ? n : 0;
    u->next_ms = u->count_ms = 0;
    return u->n == n;
}

void usage_begin(struct usage *u, int64_t window_ms, const char *first)
{
    u->window_ms = window_ms;
    snprintf(u->first, sizeof(u->first), "%s", first ? first : "");
    u->next_ms = u->count_ms = 0;
}

/* CPU time of this thread, so that a pass does not look more expensive on a busy machine. */
static int64_t cpu_ms(void)
{
    struct timespec t = {0, 0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A window ends. */
static void count(struct usage *u, int64_t now)
{
    const int64_t before = cpu_ms();
    for (int i = 0; i < u->n; i++)
        u->roots[i] = ranks_pid(u->ranks, ranks_first(u->ranks) + i);
    for (int i = 0; i < u->n; i++)
        u->sums[i].blocked = false;
    tree_use_read(u->trees, u->roots, u->n, now - u->counted_ms, u->first, u->sums);
    const int64_t wait = TIMES_COST * (cpu_ms() - before);
    u->counted_ms = now;
    u->count_ms = now + (wait > u->window_ms ? wait : u->window_ms);
}

static void sample(struct usage *u, int64_t now)
{
    for (int i = 0; i < u->n; i++)
        u->samples[i] = (struct activity_sample){
            .at_ms = now,
            .output_bytes = ranks_output_bytes(u->ranks, ranks_first(u->ranks) + i),
            .work_us = u->sums[i].work_us,
            .io_bytes = u->sums[i].io_bytes,
            .moved_bytes = u->sums[i].moved_bytes,
            .main_us = u->sums[i].main_us,
            .blocked = u->sums[i].blocked,
            .counted_ms = u->counted_ms};
    u->next_ms = now + SAMPLE_MS;
}

void usage_get(struct usage *u, int rank, struct activity_sample *out)
{
    const int64_t now = clock_ms();
    memset(out, 0, sizeof(*out));
    if (!make_room(u))
        return;
    if (now >= u->next_ms) {
        if (now >= u->count_ms)
            count(u, now);
        sample(u, now);
    }
    const int i = rank - ranks_first(u->ranks);
    if (i >= 0 && i < u->n)
        *out = u->samples[i];
}
