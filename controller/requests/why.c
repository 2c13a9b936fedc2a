/* SPDX-License-Identifier: Apache-2.0 */
/* why.c - see why.h
 *
 * Built from the stored events only, so running and finished jobs are explained
 * alike.
 */
#include "controller/requests/why.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "controller/base/daemon.h"
#include "controller/base/utc.h"
#include "controller/requests/job_json.h"
#include "controller/lifecycle/reserve.h"
#include "controller/job/active_jobs.h"
#include "controller/job/event_kind.h"
#include "controller/job/event_text.h"
#include "controller/job/job.h"
#include "controller/job/job_view.h"
#include "db/events.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { EVIDENCE_MAX = 40, EVIDENCE_TEXT = 1024, OUTPUT_LINES = 5 };

/* Sentences of events: how the ranks were stopped that did not end by themselves; the last failure; why it was
 * preempted last; what is not to be repeated; what the user should do; how NCCL differs from the plan; of the last
 * incident its file and the state of the ranks; what a checkpoint needs whose disk is full, now; what the end of the
 * attempt waits for, now; what was lost with the store. */
enum said { FORCED, FAILURE, TAKEN, TOLD, ADVICE, NCCL, REPORT, SEEN, ROOM, ENDING, REBUILT, SAID };

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
    bool       stop;            /* a stop was requested */
    char       why_died[80];    /* " (cause, step 5)" of the last failure */
    json_t    *text[SAID];      /* whole sentences of events; NULL: none */
    json_t    *excluded;        /* UUIDs of excluded GPUs */
    json_t    *evidence;
};

static const char *said(const struct story *s, enum said which)
{
    const char *text = json_string_value(s->text[which]);
    return text ? text : "";
}

/* body NULL: the earlier sentence no longer holds. */
static void note(struct story *s, enum said which, const json_t *body, const char *key)
{
    json_decref(s->text[which]);
    s->text[which] = field_text(body, key)[0] ? json_incref(json_object_get(body, key)) : NULL;
}

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
        const char *line = json_string_value(json_array_get(lines, i));
        json_array_append_new(s->evidence, json_text_f("    %s", line ? line : ""));
    }
}

static void add_evidence(struct story *s, enum event_kind kind, const struct event_row *row, const json_t *body)
{
    char text[EVIDENCE_TEXT];
    if (event_kind_is(kind, EVENT_IS_EVIDENCE)) {
        event_text(text, sizeof(text), row->kind, body);
        leave_out(text, said(s, TOLD));
        json_t *at = utc_json(row->at_ms);
        if (json_array_size(s->evidence) >= EVIDENCE_MAX)
            json_array_remove(s->evidence, 0);
        json_array_append_new(s->evidence, json_text_f("%s %s", at ? json_string_value(at) : "", text));
        json_decref(at);
    }
    add_output(s, body);
    if (field_text(body, "text")[0])
        note(s, TOLD, body, "text");
}

static void note_death(struct story *s, const json_t *body)
{
    const char *cause = field_text(body, "cause");
    note(s, FORCED, field_true(body, "forced") ? body : NULL, "text");
    if (!cause[0] || strcmp(cause, "none") == 0)
        return;
    if (strcmp(cause, "preempted") == 0) {
        s->taken = !s->stop;
        return;
    }
    s->deaths++;
    if (!s->incident)
        note(s, SEEN, NULL, "");
    s->incident = false;
    note(s, FAILURE, body, "text");
    note(s, ADVICE, body, "advice");
    snprintf(s->why_died, sizeof(s->why_died), " (%.40s)", cause);
    if (field_int(body, "step", -1) >= 0)
        snprintf(s->why_died, sizeof(s->why_died), " (%.40s, step %lld)", cause, (long long)field_int(body, "step", 0));
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
        note(s, REPORT, body, "path");
        note(s, SEEN, body, "text");
        s->incident = true;
    } else if (kind == EVENT_EXCLUDED) {
        json_array_append(s->excluded, json_object_get(body, "gpu"));
    } else if (kind == EVENT_NCCL) {
        note(s, NCCL, field_true(body, "expected") ? NULL : body, "text");
    } else if (kind == EVENT_ATTEMPT_ENDED && s->taken) {
        s->preempted++;
        note(s, TAKEN, body, "text");
    } else if (kind == EVENT_AGENT_LOST || kind == EVENT_START_FAILED) {
        *(kind == EVENT_AGENT_LOST ? &s->lost : &s->unstarted) += 1;
        note(s, SEEN, NULL, "");
        note(s, FAILURE, body, "text");
        snprintf(s->why_died, sizeof(s->why_died), "%s", kind == EVENT_AGENT_LOST ? " (agent_lost)" : "");
    } else if (kind == EVENT_NO_ROOM && !field_true(body, "over")) {
        note(s, ROOM, body, "text");
    } else if (kind == EVENT_CHECKPOINT) {
        s->checkpoints++;
        s->last_checkpoint = json_integer_value(json_object_get(body, "step"));
    } else if (kind == EVENT_REBUILT) {
        note(s, REBUILT, body, "text");
    } else if (kind == EVENT_STOP_REQUESTED) {
        s->stop = true;
    } else if (kind == EVENT_WARNING && field_true(body, "ending")) {
        note(s, ENDING, body, "text");
    }
    if (event_kind_is(kind, EVENT_IS_END))
        note(s, ENDING, NULL, "");
    if (kind == EVENT_GENERATION_ENDED || kind == EVENT_AGENT_LOST || field_true(body, "over"))
        note(s, ROOM, NULL, "");
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

/* `sentence` lacks its capital and its full stop, which are added; "": none. */
static void put_capital(struct buf *text, const char *sentence)
{
    if (*sentence)
        buf_print(text, " %c%s.", toupper((unsigned char)*sentence), sentence + 1);
}

/* "Its ranks failed twice; most recent: ..." */
static void put_troubles(struct buf *text, const struct story *s)
{
    char n[24];
    const bool told = said(s, FAILURE)[0] && text->size > 0 && strstr(text->data, said(s, FAILURE));
    const bool once = told && s->deaths + s->lost == 0 && s->unstarted == 1;    /* the first sentence is enough */
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
        buf_print(text, "; most recent: %s%s.", said(s, FAILURE), s->why_died);
    if (s->preempted > 0)
        buf_print(text, " It was preempted %s%s%s.", times(s->preempted, n),
                  said(s, TAKEN)[0] ? "; most recent: " : "", said(s, TAKEN));
    if (s->deaths > 0 && said(s, SEEN)[0])
        buf_print(text, " Before that, %s (see %s).", said(s, SEEN), said(s, REPORT));
    put_capital(text, said(s, ADVICE));
    if (said(s, NCCL)[0])
        buf_print(text, " It is slower than planned: %s.", said(s, NCCL));
    const size_t gpus = json_array_size(s->excluded);
    for (size_t i = 0; i < gpus; i++)
        buf_print(text, "%s%s%s", i ? ", " : " GPUs excluded after failures: ",
                  json_string_value(json_array_get(s->excluded, i)), i + 1 == gpus ? "." : "");
    if (said(s, FORCED)[0])
        buf_print(text, " It was %s.", said(s, FORCED));
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
    long long id = (long long)field_int(row, "id", 0);
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
        buf_print(text, "is running, as a sweep of %lld members: %s.",
                  (long long)field_int(json_object_get(row, "members"), "count", 0), reason);
        return;
    }
    buf_print(text, "is %s", state);
    if (json_is_integer(step))
        buf_print(text, " at step %lld", (long long)json_integer_value(step));
    if (json_is_integer(steps))
        buf_print(text, " of %lld", (long long)json_integer_value(steps));
    const bool shown = reason[0] && (now || strcmp(state, "running") != 0);
    buf_print(text, ", attempt %lld, generation %lld%s%s.", (long long)field_int(row, "attempt", 0),
              (long long)field_int(row, "generation", 0), shown ? ": " : "", shown ? reason : "");
}

/* Events of jobs cannot be stored, so the jobs seem to stand still. */
static void put_full_home(struct buf *text, const struct daemon *d)
{
    char full[700];
    if (d->store_state.errnum != ENOSPC && d->store_state.errnum != EDQUOT)
        return;
    reserve_full(full, sizeof(full), &d->home, d->store_state.errnum);
    buf_print(text, " New events will be stored when there is room: %s.", full);
}

json_t *why_make(struct daemon *d, int64_t id, struct err *err)
{
    struct story s = { .evidence = json_array(), .excluded = json_array() };
    struct buf text;
    json_t *out = NULL, *row = job_json_of_id(d, id, err);
    buf_init(&text);
    if (!row || !s.evidence || events_each(d->store, id, 0, INT64_MAX, tell, &s, err) < 0)
        goto out;
    const struct job *job = active_jobs_find(d->active_jobs, id);
    put_head(&text, row, &s, job && job_json_obstacle(job));
    if (said(&s, ENDING)[0] && job)
        put_capital(&text, said(&s, ENDING));
    else if (s.stop && job && job->core.state == JOB_STOPPING)
        buf_print(&text, " Waiting for its processes on %s to exit.",
                  job->need.nodes > 1 ? "its nodes" : job->core.node);
    if (field_text(row, "agent_channel")[0])
        buf_print(&text, " Its agent is connected %s.", field_text(row, "agent_channel"));
    const bool room = said(&s, ROOM)[0] != '\0';
    if (room)
        buf_print(&text, " It waits for its disk: %s.", said(&s, ROOM));
    const bool full = job && (room || job_core_disk_wait(&job->core));
    if (full && job->texts->frees[0])
        buf_print(&text, " %s.", job->texts->frees);
    if (full)
        put_capital(&text, job->texts->by_hand);
    if (job)
        put_full_home(&text, d);
    if (!room)
        put_speed(&text, row);
    put_troubles(&text, &s);
    put_capital(&text, said(&s, REBUILT));
    out = json_make("{s:O, s:o, s:O}", "job", row, "text", json_text_n(text.data, text.size), "evidence", s.evidence);
    if (!out)
        err_set(err, ERR_MEMORY, "out of memory for an answer");
out:
    json_decref(row);
    json_decref(s.evidence);
    json_decref(s.excluded);
    for (int i = 0; i < SAID; i++)
        json_decref(s.text[i]);
    buf_fini(&text);
    return out;
}
