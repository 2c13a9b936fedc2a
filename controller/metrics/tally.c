/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - see tally.h */
#include "controller/metrics/tally.h"

#include <stdlib.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/job/job.h"
#include "engine/base/field.h"

void tally_init(struct tally *t)
{
    *t = (struct tally){ .queued_s = { .bounds = histogram_wait_s } };
}

void tally_fini(struct tally *t)
{
    free(t->jobs);
    *t = (struct tally){ 0 };
}

/* Where the job is, or would be. */
static int place_of(const struct tally *t, int64_t id)
{
    int from = 0, to = t->count;
    while (from < to) {
        const int middle = (from + to) / 2;
        if (t->jobs[middle].id < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static struct tally_job *find(const struct tally *t, int64_t id)
{
    const int at = place_of(t, id);
    return at < t->count && t->jobs[at].id == id ? &t->jobs[at] : NULL;
}

const struct tally_job *tally_job(const struct tally *t, int64_t id)
{
    return find(t, id);
}

static bool grow(struct tally *t)
{
    const int room = t->room ? 2 * t->room : 16;
    struct tally_job *more = t->count < t->room ? t->jobs : realloc(t->jobs, (size_t)room * sizeof(*more));
    if (!more)
        return false;
    t->room = t->count < t->room ? t->room : room;
    t->jobs = more;
    return true;
}

/* NULL: out of memory; the job is then not counted by itself. */
static struct tally_job *find_or_add(struct tally *t, int64_t id)
{
    struct tally_job *job = find(t, id);
    const int at = place_of(t, id);
    if (job || !grow(t))
        return job;
    memmove(&t->jobs[at + 1], &t->jobs[at], (size_t)(t->count++ - at) * sizeof(*job));
    t->jobs[at] = (struct tally_job){ .id = id, .step = -1, .step_s = { .bounds = histogram_step_s } };
    return &t->jobs[at];
}

static void forget(struct tally *t, int64_t id)
{
    struct tally_job *job = find(t, id);
    if (job)
        memmove(job, job + 1, (size_t)(&t->jobs[t->count--] - (job + 1)) * sizeof(*job));
}

/* A step event tells the mean time of the steps since the one before. */
static void note_step(struct tally *t, int64_t id, const json_t *body)
{
    struct tally_job *job = find_or_add(t, id);
    const int64_t step = field_int(body, "step", -1);
    if (!job || step < 0)
        return;
    histogram_add(&job->step_s, field_number(body, "step_ms") / 1000, job->step >= 0 && step >= job->step
                  ? step - job->step : 1);
    job->step = step;
}

static void note_failure(struct tally *t, int64_t id, const json_t *body, enum cause unsaid, bool counts)
{
    struct tally_job *job = find_or_add(t, id);
    enum cause cause = unsaid;
    cause_parse(&cause, field_text(body, "cause"));
    if (cause == CAUSE_NONE)
        return;
    if (counts)
        t->failures[cause]++;
    if (job)
        job->cause = cause;
}

static void note_restart(struct tally *t, int64_t id)
{
    const struct tally_job *job = find(t, id);
    t->restarts[job ? job->cause : CAUSE_UNKNOWN]++;
}

static void note_start(struct tally *t, const struct job *job)
{
    t->started++;
    find_or_add(t, job->core.id);
    if (job->core.attempt == 1)
        histogram_add(&t->queued_s, (double)(job->core.started_ms - job->core.submitted_ms) / 1000, 1);
}

static void note_end(struct tally *t, const struct job *job)
{
    struct goodput spent;
    job_core_spent(&spent, &job->core, job->core.ended_ms);
    goodput_add(&t->spent, &spent);
    t->ended[job->core.result]++;
    forget(t, job->core.id);
}

static void note(struct tally *t, const struct job *job, const struct core_event *e)
{
    const int64_t id = job->core.id;
    if (e->kind == EVENT_PLACED)
        note_start(t, job);
    else if (e->kind == EVENT_STEP)
        note_step(t, id, e->body);
    else if (e->kind == EVENT_GENERATION_ENDED)
        note_failure(t, id, e->body, CAUSE_NONE, true);
    else if (e->kind == EVENT_ATTEMPT_ENDED)
        note_failure(t, id, e->body, CAUSE_NONE, false);
    else if (e->kind == EVENT_AGENT_LOST || e->kind == EVENT_START_FAILED)
        note_failure(t, id, e->body, CAUSE_AGENT_LOST, true);
    else if (e->kind == EVENT_RESTART_SCHEDULED || e->kind == EVENT_RETRY)
        note_restart(t, id);
    else if (e->kind == EVENT_DONE)
        note_end(t, job);
}

void tally_note(struct job *job, const struct core_output *out)
{
    for (int i = 0; i < out->count; i++)
        note(job->daemon->tally, job, &out->events[i]);
}

void tally_goodput(struct goodput *sum, struct tally *t, const struct goodput *live)
{
    *sum = t->spent;
    goodput_add(sum, live);
    for (int i = 0; i < BUCKETS; i++) {
        if (sum->ms[i] < t->shown.ms[i])
            sum->ms[i] = t->shown.ms[i];
        t->shown.ms[i] = sum->ms[i];
    }
}
