/* SPDX-License-Identifier: Apache-2.0 */
/* job_goodput.c - see job_goodput.h */
#include "controller/job/job_goodput.h"

static int64_t since(struct job_goodput *a, int64_t at_ms)
{
    if (!a->mark_ms || at_ms <= a->mark_ms)
        return 0;
    int64_t span = at_ms - a->mark_ms;
    a->mark_ms = at_ms;
    return span;
}

void job_goodput_until(struct job_goodput *a, int64_t at_ms, enum bucket bucket)
{
    if (a->ranks_since_ms)
        return;
    int64_t span = since(a, at_ms);
    a->waiting[bucket] += span;
    a->wall_ms += span;
}

static void settle(struct job_goodput *a, int64_t np)
{
    for (int i = 0; i < BUCKETS; i++) {
        goodput_put(&a->spent, (enum bucket)i, a->waiting[i] * np);
        a->waiting[i] = 0;
    }
}

void job_goodput_ranks(struct job_goodput *a, int64_t at_ms, int64_t np)
{
    a->np = np > 0 ? np : 1;
    settle(a, a->np);
    a->ranks_since_ms = a->mark_ms = at_ms;
    a->disk_ms = a->disk_since_ms = 0;
}

void job_goodput_disk(struct job_goodput *a, int64_t at_ms, bool waits)
{
    if (a->disk_since_ms && at_ms > a->disk_since_ms)
        a->disk_ms += at_ms - a->disk_since_ms;
    a->disk_since_ms = waits && a->ranks_since_ms ? at_ms : 0;
}

void job_goodput_told(struct job_goodput *a, int64_t at_ms, const struct goodput *s)
{
    if (!a->ranks_since_ms)
        return;
    goodput_add(&a->spent, s);
    a->wall_ms += s->rank_ms / a->np;
    a->ranks_since_ms = 0;
    a->mark_ms = at_ms;
}

void job_goodput_guess(struct job_goodput *a, int64_t at_ms, double fresh)
{
    if (!a->ranks_since_ms)
        return;
    job_goodput_disk(a, at_ms, false);
    int64_t span = since(a, at_ms), disk = a->disk_ms < span ? a->disk_ms : span;
    int64_t all = (span - disk) * a->np;
    int64_t productive = (int64_t)((double)all * (fresh < 0 ? 0 : fresh > 1 ? 1 : fresh));
    goodput_put(&a->spent, BUCKET_PRODUCTIVE, productive);
    goodput_put(&a->spent, BUCKET_REPLAYED, all - productive);
    goodput_put(&a->spent, BUCKET_DISK, disk * a->np);
    a->wall_ms += span;
    a->ranks_since_ms = 0;
}

void job_goodput_close(struct job_goodput *a)
{
    settle(a, a->np > 0 ? a->np : 1);
}

int64_t job_goodput_busy_ms(const struct goodput *s)
{
    return s->rank_ms - s->ms[BUCKET_QUEUED] - s->ms[BUCKET_PAUSED];
}
