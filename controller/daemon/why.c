/* SPDX-License-Identifier: Apache-2.0 */
/* why.c - see why.h
 *
 * Built from the stored events only, so running and finished jobs are explained
 * alike.
 */
#include "controller/daemon/why.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "controller/base/daemon.h"
#include "controller/base/utc.h"
#include "controller/daemon/job_json.h"
#include "controller/daemon/reserve.h"
#include "controller/job/active_jobs.h"
#include "controller/job/event_kind.h"
#include "controller/job/event_text.h"
#include "controller/job/job.h"
#include "controller/job/job_view.h"
#include "db/events.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { EVIDENCE_MAX = 40, OUTPUT_LINES = 5 };

/* The summary of the events. */
struct story {
    int        deaths;          /* generations that failed */
    int        preempted;       /* attempts preempted from outside: ranks saved and exited */
    int        unstarted;       /* attempts whose agent never answered */
    int        lost, checkpoints;
    int64_t    last_checkpoint;
    bool       taken;           /* the ranks of the newest attempt were preempted */
    bool       incident;        /* the newest incident report is of the ranks that run or have just failed */
    int64_t    first_start_ms, end_ms;
    char       stop[200], forced[160]; /* ... and how, if the ranks did not end by themselves */
    char       last_text[640], last_death[720];    /* last failure: text; text with its cause */
    char       last_taken[256];     /* why the last one was preempted */
    char       told[640];           /* a sentence not to repeat */
    char       advice[200], excluded[200];     /* UUIDs of excluded GPUs */
    char       nccl[600];           /* how NCCL differs from the plan */
    char       report[600], seen[500]; /* of the last incident: its file, and the ranks' state */
    char       room[CORE_REASON];   /* what a checkpoint needs whose disk is full, now */
    char       rebuilt[200];        /* what was lost with the store */
    char       ending[600];         /* what the end of the attempt waits for, now */
    json_t    *evidence;
};

/* A cause recurs in the events of generation, attempt and job; print it once. */
static void leave_out(char *text, const char *told)
{
    char *at = told[0] ? strstr(text, told) : NULL;
    if (!at || at - text < 2 || strncmp(at - 2, ": ", 2) != 0)
        return;
    const char *rest = at + strlen(told);
    memmove(at - 2, rest, strlen(rest) + 1);
}

/* Adds the last lines of the failed rank's output; not for a preempted rank. */
static void add_output(struct story *s, const json_t *body)
{
    const json_t *lines = json_object_get(body, "evidence");
    const size_t n = json_array_size(lines);
    if (strcmp(field_text(body, "cause"), "preempted") == 0)
        return;
    for (size_t i = n > OUTPUT_LINES ? n - OUTPUT_LINES : 0; i < n; i++) {
        char line[520];
        const char *said = json_string_value(json_array_get(lines, i));
        snprintf(line, sizeof(line), "    %.500s", said ? said : "");
        json_array_append_new(s->evidence, json_text(line));
    }
}

static void add_evidence(struct story *s, enum event_kind kind, const struct event_row *row, const json_t *body)
{
    char text[720], line[800];
    if (event_kind_is(kind, EVENT_IS_EVIDENCE)) {
        event_text(text, sizeof(text), row->kind, body);
        leave_out(text, s->told);
        json_t *at = utc_json(row->at_ms);
        snprintf(line, sizeof(line), "%s %s", at ? json_string_value(at) : "", text);
        json_decref(at);
        if (json_array_size(s->evidence) >= EVIDENCE_MAX)
            json_array_remove(s->evidence, 0);
        json_array_append_new(s->evidence, json_text(line));
    }
    add_output(s, body);
    if (field_text(body, "text")[0])
        snprintf(s->told, sizeof(s->told), "%.639s", field_text(body, "text"));
}

static void note_death(struct story *s, const json_t *body)
{
    const char *cause = field_text(body, "cause");
    const json_t *step = json_object_get(body, "step");
    snprintf(s->forced, sizeof(s->forced), "%.159s", field_true(body, "forced") ? field_text(body, "text") : "");
    if (!cause[0] || strcmp(cause, "none") == 0)
        return;
    if (strcmp(cause, "preempted") == 0) {
        s->taken = !s->stop[0];
        return;
    }
    s->deaths++;
    if (!s->incident)
        s->seen[0] = '\0';
    s->incident = false;
    char where[40] = "";
    if (json_is_integer(step))
        snprintf(where, sizeof(where), ", step %lld", (long long)json_integer_value(step));
    snprintf(s->last_text, sizeof(s->last_text), "%.600s", field_text(body, "text"));
    snprintf(s->last_death, sizeof(s->last_death), "%.600s (%.40s%s)", s->last_text, cause, where);
    snprintf(s->advice, sizeof(s->advice), "%.199s", field_text(body, "advice"));
}

static int tell(void *ctx, const struct event_row *row)
{
    struct story *s = ctx;
    const enum event_kind kind = event_kind_of(row->kind);
    json_t *body = json_loads(row->body, 0, NULL);
    if (kind == EVENT_PLACED) {
        s->taken = s->incident = false;
        if (!s->first_start_ms)
            s->first_start_ms = row->at_ms;
    } else if (kind == EVENT_GENERATION_ENDED) {
        note_death(s, body);
    } else if (kind == EVENT_INCIDENT) {
        snprintf(s->report, sizeof(s->report), "%.599s", field_text(body, "path"));
        snprintf(s->seen, sizeof(s->seen), "%.499s", field_text(body, "text"));
        s->incident = true;
    } else if (kind == EVENT_EXCLUDED) {
        size_t n = strlen(s->excluded);
        snprintf(s->excluded + n, sizeof(s->excluded) - n, "%s%.60s", n ? ", " : "", field_text(body, "gpu"));
    } else if (kind == EVENT_NCCL) {
        bool fine = json_is_true(json_object_get(body, "expected"));
        snprintf(s->nccl, sizeof(s->nccl), "%s", fine ? "" : field_text(body, "text"));
    } else if (kind == EVENT_ATTEMPT_ENDED && s->taken) {
        s->preempted++;
        snprintf(s->last_taken, sizeof(s->last_taken), "%.250s", field_text(body, "text"));
    } else if (kind == EVENT_AGENT_LOST || kind == EVENT_START_FAILED) {
        *(kind == EVENT_AGENT_LOST ? &s->lost : &s->unstarted) += 1;
        s->seen[0] = '\0';
        snprintf(s->last_text, sizeof(s->last_text), "%.250s", field_text(body, "text"));
        snprintf(s->last_death, sizeof(s->last_death), "%.250s%s", s->last_text,
                 kind == EVENT_AGENT_LOST ? " (agent_lost)" : "");
    } else if (kind == EVENT_NO_ROOM && !json_is_true(json_object_get(body, "over"))) {
        snprintf(s->room, sizeof(s->room), "%.*s", CORE_REASON - 1, field_text(body, "text"));
    } else if (kind == EVENT_CHECKPOINT) {
        s->checkpoints++;
        s->last_checkpoint = json_integer_value(json_object_get(body, "step"));
    } else if (kind == EVENT_REBUILT) {
        snprintf(s->rebuilt, sizeof(s->rebuilt), "%.199s", field_text(body, "text"));
    } else if (kind == EVENT_STOP_REQUESTED) {
        snprintf(s->stop, sizeof(s->stop), "%.190s", field_text(body, "reason"));
    } else if (kind == EVENT_WARNING && json_is_true(json_object_get(body, "ending"))) {
        snprintf(s->ending, sizeof(s->ending), "%.599s", field_text(body, "text"));
    }
    if (event_kind_is(kind, EVENT_IS_END))
        s->ending[0] = '\0';
    if (kind == EVENT_GENERATION_ENDED || kind == EVENT_AGENT_LOST || json_is_true(json_object_get(body, "over")))
        s->room[0] = '\0';
    s->end_ms = row->at_ms;
    add_evidence(s, kind, row, body);
    json_decref(body);
    return 0;
}

static const char *times(int n, char out[24])
{
    if (n <= 2)
        return n == 1 ? "once" : "twice";
    snprintf(out, 24, "%d times", n);
    return out;
}

/* Its speed and remaining time. */
static void put_speed(struct buf *text, const json_t *row)
{
    const json_t *rate = json_object_get(row, "samples_per_s");
    const json_t *eta = json_object_get(row, "eta_s"), *goodput = json_object_get(row, "goodput");
    if (strcmp(field_text(row, "state"), "running") != 0 || !json_is_number(rate))
        return;
    buf_print(text, " Speed: %.4g samples/s", json_number_value(rate));
    char left[32];
    job_view_duration(left, sizeof(left), json_number_value(eta));
    if (json_is_number(eta))
        buf_print(text, ", about %s left", left);
    if (json_is_number(goodput))
        buf_print(text, "; %.0f %% of its time was productive", 100 * json_number_value(goodput));
    buf_print(text, ".");
}

/* "Its ranks failed twice; most recent: ..." */
static void put_troubles(struct buf *text, const struct story *s)
{
    char n[24];
    const bool told = s->last_text[0] && text->size > 0 && strstr(text->data, s->last_text);
    const bool once = told && s->deaths + s->lost == 0 && s->unstarted == 1;    /* the first sentence tells all */
    if (s->deaths > 0)
        buf_print(text, " Its ranks failed %s", times(s->deaths, n));
    if (s->lost > 0)
        buf_print(text, "%s agent was lost %s", s->deaths > 0 ? " and its" : " Its", times(s->lost, n));
    if (s->unstarted > 0 && !once)
        buf_print(text, "%s could not be started %s", s->deaths + s->lost > 0 ? ", and it" : " It",
                  times(s->unstarted, n));
    if (s->deaths + s->lost + s->unstarted > 0 && told && !once)
        buf_print(text, ".");
    else if (s->deaths + s->lost + s->unstarted > 0 && !once)
        buf_print(text, "; most recent: %s.", s->last_death);
    if (s->preempted > 0)
        buf_print(text, " It was preempted %s%s%s.", times(s->preempted, n),
                  s->last_taken[0] ? "; most recent: " : "", s->last_taken);
    if (s->deaths > 0 && s->seen[0])
        buf_print(text, " Before that, %s (see %s).", s->seen, s->report);
    if (s->advice[0])
        buf_print(text, " %c%s.", toupper((unsigned char)s->advice[0]), s->advice + 1);
    if (s->nccl[0])
        buf_print(text, " It is slower than planned: %s.", s->nccl);
    if (s->excluded[0])
        buf_print(text, " GPUs excluded after failures: %s.", s->excluded);
    if (s->forced[0])
        buf_print(text, " It was %s.", s->forced);
    if (s->checkpoints == 1)
        buf_print(text, " It wrote one checkpoint, of step %lld.", (long long)s->last_checkpoint);
    else if (s->checkpoints > 0)
        buf_print(text, " It wrote %d checkpoints, the newest of step %lld.", s->checkpoints,
                  (long long)s->last_checkpoint);
}

static void put_head(struct buf *text, const json_t *row, const struct story *s, bool now)
{
    const char *state = field_text(row, "state"), *result = field_text(row, "result");
    const char *reason = field_text(row, "reason");
    long long id = (long long)json_integer_value(json_object_get(row, "id"));
    const json_t *step = json_object_get(row, "step"), *steps = json_object_get(row, "steps");
    buf_print(text, "Job %lld (%s) ", id, field_text(row, "name"));
    if (strcmp(state, "done") == 0) {
        buf_print(text, "%s%s", strcmp(result, "cancelled") == 0 ? "was " : "", result);
        if (json_is_integer(step))
            buf_print(text, " at step %lld", (long long)json_integer_value(step));
        char took[32];
        job_view_duration(took, sizeof(took), (double)(s->end_ms - s->first_start_ms) / 1000);
        if (s->first_start_ms)
            buf_print(text, " after %s", took);
        buf_print(text, "%s%s.", reason[0] ? ": " : "", reason);
        return;
    }
    if (strcmp(state, "pending") == 0) {
        buf_print(text, "is pending: %s.", reason[0] ? reason : "just submitted");
        return;
    }
    if (json_is_object(json_object_get(row, "members"))) {
        buf_print(text, "is running, as a sweep of %lld members: %s.", (long long)json_integer_value(
                  json_object_get(json_object_get(row, "members"), "count")), reason);
        return;
    }
    buf_print(text, "is %s", state);
    if (json_is_integer(step))
        buf_print(text, " at step %lld", (long long)json_integer_value(step));
    if (json_is_integer(steps))
        buf_print(text, " of %lld", (long long)json_integer_value(steps));
    buf_print(text, ", attempt %lld, generation %lld.", (long long)json_integer_value(json_object_get(row, "attempt")),
              (long long)json_integer_value(json_object_get(row, "generation")));
    if (strcmp(state, "stopping") == 0 && strcmp(reason, "on request") == 0)
        buf_print(text, " Cancelling at your request.");
    else if (reason[0] && (now || strcmp(state, "running") != 0))
        buf_print(text, " %c%s.", strncmp(reason, "rank ", 5) == 0 || strncmp(reason, "waiting ", 8) == 0
                                      ? toupper((unsigned char)reason[0]) : reason[0], reason + 1);
}

/* What happens to jobs cannot be stored, so they seem to stand still. */
static void put_full_home(struct buf *text, const struct daemon *d)
{
    char full[700];
    if (d->store_errnum != ENOSPC && d->store_errnum != EDQUOT)
        return;
    reserve_full(full, sizeof(full), d, d->store_errnum);
    buf_print(text, " New events are stored when there is room: %s.", full);
}

json_t *why_make(struct daemon *d, int64_t id, struct err *err)
{
    struct story s = { .evidence = json_array() };
    struct buf text;
    json_t *out = NULL, *row = job_json_of_id(d, id, err);
    buf_init(&text);
    if (!row || !s.evidence || events_each(d->store, id, 0, INT64_MAX, tell, &s, err) < 0)
        goto out;
    const struct job *job = active_jobs_find(d->active_jobs, id);
    put_head(&text, row, &s, job && job_json_obstacle(job));
    if (s.ending[0] && job)
        buf_print(&text, " %c%s.", toupper((unsigned char)s.ending[0]), s.ending + 1);
    else if (s.stop[0] && job && job->core.state == JOB_STOPPING)
        buf_print(&text, " Waiting for its processes on %s to exit.", job->nodes > 1 ? "its nodes" : job->core.node);
    if (field_text(row, "agent_channel")[0])
        buf_print(&text, " Its agent is connected %s.", field_text(row, "agent_channel"));
    if (s.room[0])
        buf_print(&text, " It waits for its disk: %s.", s.room);
    const bool full = job && (s.room[0] || job_core_disk_wait(&job->core));
    if (full && job->texts->frees[0])
        buf_print(&text, " %s.", job->texts->frees);
    if (full && job->texts->by_hand[0])
        buf_print(&text, " %c%s.", toupper((unsigned char)job->texts->by_hand[0]), job->texts->by_hand + 1);
    if (job)
        put_full_home(&text, d);
    if (!s.room[0])
        put_speed(&text, row);
    put_troubles(&text, &s);
    if (s.rebuilt[0])
        buf_print(&text, " %c%s.", toupper((unsigned char)s.rebuilt[0]), s.rebuilt + 1);
    out = json_make("{s:O, s:o, s:O}", "job", row, "text", json_text_n(text.data, text.size), "evidence", s.evidence);
    if (!out)
        err_set(err, ERR_MEMORY, "out of memory for an answer");
out:
    json_decref(row);
    json_decref(s.evidence);
    buf_fini(&text);
    return out;
}
