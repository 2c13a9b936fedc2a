/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c - see sweep.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/job/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/spec/sweep_points.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

enum {
    SLURM_QUEUE = 64,           /* members in Slurm's queue at once, unless max_parallel is more */
    SLURM_QUEUE_MAX = 1000      /* Slurm's default for MaxArraySize is 1001 */
};

static bool for_slurm(const json_t *spec)
{
    return strcmp(field_text(spec, "launch"), "slurm") == 0;
}

static int64_t max_parallel(const json_t *spec)
{
    const json_t *given = json_object_get(spec, "max_parallel");
    if (json_is_integer(given) && json_integer_value(given) > 0)
        return json_integer_value(given);
    return for_slurm(spec) ? SLURM_QUEUE : INDEX_COUNT_MAX;
}

struct sweep *sweep_create(const json_t *spec, struct err *err)
{
    struct sweep *s = calloc(1, sizeof(*s));
    if (!s) {
        err_set(err, ERR_MEMORY, "out of memory for a sweep");
        return NULL;
    }
    s->last = -1;
    s->max_parallel = max_parallel(spec);
    s->in_waves = for_slurm(spec);
    s->spec = json_incref((json_t *)(uintptr_t)spec);
    if (sweep_points_check(spec, err) == 0 && sweep_points_indices(&s->indices, spec, err) == 0)
        return s;
    sweep_destroy(s);
    return NULL;
}

void sweep_destroy(struct sweep *s)
{
    if (!s)
        return;
    json_decref(s->spec);
    free(s);
}

int sweep_next(const struct sweep *s)
{
    return index_list_next(&s->indices, s->last);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The members of a wave that would start now. */
static int64_t wave_size(const struct sweep *s)
{
    const int64_t queue = s->max_parallel > SLURM_QUEUE ? s->max_parallel : SLURM_QUEUE;
    return least(least(queue, SLURM_QUEUE_MAX) - s->live, sweep_left(s));
}

static bool wave_may_start(const struct sweep *s)
{
    const int64_t size = wave_size(s), room = s->max_parallel - s->attempts;
    if (size <= 0)
        return false;
    if (size > room)
        return s->attempts == 0;    /* Slurm limits the array, and there is no other */
    return s->attempts * 2 <= s->max_parallel || size == sweep_left(s);
}

bool sweep_may_start(const struct sweep *s)
{
    if (sweep_next(s) < 0)
        return false;
    if (s->in_waves)
        return s->to_start > 0 || wave_may_start(s);
    return s->live < s->max_parallel;
}

bool sweep_is_over(const struct sweep *s)
{
    return s->live == 0 && sweep_next(s) < 0;
}

void sweep_started(struct sweep *s, int index)
{
    if (s->in_waves && s->to_start <= 0) {
        s->size = s->to_start = wave_size(s);
        s->wave++;
    }
    s->to_start--;
    s->last = index;
    s->live++;
}

void sweep_withdraw(struct sweep *s, int index)
{
    s->to_start++;
    s->last = index - 1;
    s->live--;
}

void sweep_attempt(struct sweep *s, int by)
{
    s->attempts += by;
}

bool sweep_has_place(const struct sweep *s)
{
    return !s->in_waves || s->attempts < s->max_parallel;
}

void sweep_ended(struct sweep *s, enum job_result result)
{
    s->live--;
    s->done[result]++;
}

int64_t sweep_left(const struct sweep *s)
{
    int64_t left = s->indices.count - s->live;
    for (int i = 0; i < RESULTS; i++)
        left -= s->done[i];
    return left;
}

enum job_result sweep_result(const struct sweep *s)
{
    if (s->done[RESULT_FAILED])
        return RESULT_FAILED;
    return s->done[RESULT_CANCELLED] ? RESULT_CANCELLED : RESULT_SUCCEEDED;
}

void sweep_text(char *out, size_t size, const struct sweep *s)
{
    const struct {
        int64_t     count;
        const char *word;
    } parts[] = {
        {s->live, s->in_waves ? "in Slurm" : "running"}, {s->done[RESULT_SUCCEEDED], "succeeded"}, {s->done[RESULT_FAILED], "failed"},
        {s->done[RESULT_CANCELLED], "cancelled"}, {sweep_left(s), "not started"},
    };
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && s->last >= 0 && at < size; i++)
        if (parts[i].count > 0)
            at += (size_t)snprintf(out + at, size - at, "%s%lld %s", at ? ", " : "", (long long)parts[i].count,
                                   parts[i].word);
}
