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
#include "engine/contract/err.h"
#include "engine/contract/field.h"

enum { SLURM_PARALLEL = 64 };   /* jobs that a sweep has in Slurm's queue at once, unless it says how many */

static int64_t max_parallel(const json_t *spec)
{
    const json_t *given = json_object_get(spec, "max_parallel");
    if (json_is_integer(given) && json_integer_value(given) > 0)
        return json_integer_value(given);
    return strcmp(field_text(spec, "launch"), "slurm") == 0 ? SLURM_PARALLEL : INDEX_COUNT_MAX;
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

bool sweep_may_start(const struct sweep *s)
{
    return s->live < s->max_parallel && sweep_next(s) >= 0;
}

bool sweep_is_over(const struct sweep *s)
{
    return s->live == 0 && sweep_next(s) < 0;
}

void sweep_started(struct sweep *s, int index)
{
    s->last = index;
    s->live++;
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
        {s->live, "running"}, {s->done[RESULT_SUCCEEDED], "succeeded"}, {s->done[RESULT_FAILED], "failed"},
        {s->done[RESULT_CANCELLED], "cancelled"}, {sweep_left(s), "not started"},
    };
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && s->last >= 0 && at < size; i++)
        if (parts[i].count > 0)
            at += (size_t)snprintf(out + at, size - at, "%s%lld %s", at ? ", " : "", (long long)parts[i].count,
                                   parts[i].word);
}
