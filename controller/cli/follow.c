/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - see follow.h */
#include "controller/cli/follow.h"

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/base/far_host.h"
#include "controller/base/log_fetch.h"
#include "controller/cli/command.h"
#include "controller/cli/interrupt.h"
#include "controller/cli/job_wait.h"
#include "controller/cli/output.h"
#include "controller/cli/progress_line.h"
#include "controller/cli/question.h"
#include "controller/job/event_kind.h"
#include "controller/job/event_text.h"
#include "controller/job/job_view.h"
#include "engine/base/clock.h"
#include "engine/base/field.h"

enum { TICK_LEAST_MS = 20, TICK_TTY_MS = 200, TICK_MS = 500, PLAIN_EVERY_S = 10, PAGE = 500, SETUP_LINES = 40 };

struct follow {
    struct call              *call;
    struct client            *client;
    const struct follow_wish *wish;
    long long                 id;
    int64_t                   after;       /* the last event seen */
    long long                 attempt, generation; /* the newest that events have named: later output comes after them */
    struct log_fetch         *logs;        /* of the rank, or of all */
    int                       n;
    bool                      drawn;       /* the last line of the terminal is the live line */
    char                      last[PROGRESS_LINE_SIZE];     /* line of the terminal; else the reason of one that waits */
    double                    last_plain;
    long long                 last_step;
    json_t                   *row;
};

static void erase(void *user)
{
    struct follow *f = user;
    if (f->drawn)
        fputs("\r\033[K", f->call->out.file);
    f->drawn = false;
}

static bool mid_line(const struct follow *f)
{
    return f->n > 0 && f->logs[0].mid_line; /* one rank: of several only whole lines are printed */
}

static void end_line(struct follow *f)
{
    if (!mid_line(f))
        return;
    fputc('\n', f->call->out.file);
    f->logs[0].mid_line = false;
}

static int read_row(struct follow *f)
{
    json_t *answer;
    if (client_get(f->client, &answer, &f->call->err, "/v1/jobs?all=1&ids=%lld", f->id) < 0)
        return -1;
    json_t *row = json_array_get(json_object_get(answer, "jobs"), 0);
    if (row) {
        json_decref(f->row);
        f->row = json_incref(row);
    }
    json_decref(answer);
    return f->row ? 0 : err_set(&f->call->err, ERR_NOT_FOUND, "job %lld does not exist", f->id);
}

/* The output of a setup that failed: nothing else tells why. */
static void show_setup(struct follow *f, const json_t *event)
{
    const json_t *body = json_object_get(event, "body");
    const bool failed = json_is_integer(json_object_get(body, "signal")) ||
                        json_integer_value(json_object_get(body, "exit_code")) != 0;
    struct log_fetch log = {.id = f->id, .setup = true,
                            .attempt = json_integer_value(json_object_get(event, "attempt"))};
    if (!failed || f->wish->setup || log_fetch_tail(&log, f->client, SETUP_LINES, NULL) < 0)
        return;
    if (log.offset > 0)
        fprintf(f->call->out.file, "(last %d lines of the setup's output; for all: jobctl logs %lld --setup)\n",
                SETUP_LINES, f->id);
    log_fetch_print(&log, f->client, f->call->out.file, NULL);
    if (log.mid_line)
        fputc('\n', f->call->out.file);
    log_fetch_fini(&log, f->call->out.file);
}

/* The number of the newest event. */
static int skip_old_events(struct follow *f)
{
    json_t *answer;
    if (client_get(f->client, &answer, &f->call->err,
                   "/v1/jobs/%lld/events?after=%lld&limit=1", f->id, (long long)(INT64_MAX / 2)) < 0)
        return -1;
    f->after = json_integer_value(json_object_get(answer, "last_seq"));
    json_decref(answer);
    return 0;
}

/* A restart with more ranks adds logs. */
static int know_ranks(struct follow *f, int n)
{
    struct log_fetch *more = n > f->n ? realloc(f->logs, (size_t)n * sizeof(*more)) : f->logs;
    if (n > f->n && !more)
        return err_set(&f->call->err, ERR_MEMORY, "out of memory for the logs of %d ranks", n);
    f->logs = more;
    for (; f->n < n; f->n++) {
        struct log_fetch *log = &f->logs[f->n];
        *log = (struct log_fetch){.id = f->id,
                                  .rank = f->wish->all ? f->n : f->wish->rank,
                                  .setup = f->wish->setup,
                                  .labelled = f->wish->all,
                                  .attempt = f->wish->attempt,
                                  .before = erase,
                                  .user = f};
        if (f->wish->tail >= 0)
            log_fetch_tail(log, f->client, f->wish->tail, NULL); /* no output yet: all of it */
    }
    return 0;
}

static bool is_done(const struct follow *f)
{
    return strcmp(field_text(f->row, "state"), "done") == 0;
}

/* Prints the output of the current attempt and of later ones, as far as events have named them. `all`: to its end. */
static int read_output(struct follow *f, struct log_fetch *log, bool all)
{
    long long newest = all ? json_integer_value(json_object_get(f->row, "attempt")) : f->attempt;
    if (newest < 1)
        return 0;
    if (log->attempt == 0)
        log->attempt = newest;
    for (;;) {
        struct err why = {0};
        log->until[0] = '\0';
        if (!all && log->attempt == f->attempt)
            snprintf(log->until, sizeof(log->until), "--- generation %lld ---\n", f->generation + 1);
        if (log_fetch_print(log, f->client, f->call->out.file, &why) < 0 &&
            why.code != ERR_NOT_FOUND) /* no output yet */
            return err_set(&f->call->err, why.code, "%s", why.text);
        if (f->wish->attempt || log->attempt >= newest)
            return 0;
        log->attempt++;
        log->offset = 0;
        erase(f);
        if (log == f->logs)
            fprintf(f->call->out.file, "--- attempt %lld ---\n", log->attempt);
    }
}

static int read_outputs(struct follow *f, bool all)
{
    const int np = (int)json_integer_value(json_object_get(f->row, "np"));
    if (know_ranks(f, f->wish->all && np > 1 ? np : 1) < 0)
        return -1;
    for (int i = 0; i < f->n; i++)
        if (read_output(f, &f->logs[i], all) < 0)
            return -1;
    return 0;
}

/* After the output that came before. */
static int tell(struct follow *f, const json_t *event)
{
    const struct terminal *t = &f->call->out;
    char shown[1024], at[JOB_CELL];
    const char *kind = json_string_value(json_object_get(event, "kind"));
    const char *text = json_string_value(json_object_get(event, "text"));
    if (f->wish->quiet || !kind || !text || !event_is_news(kind, json_object_get(event, "body")))
        return 0;
    if (f->wish->output && !f->wish->from_now && read_outputs(f, false) < 0)
        return -1;
    const bool bad = event_kind_is(event_kind_of(kind), EVENT_IS_BAD);
    job_view_local(at, sizeof(at), json_string_value(json_object_get(event, "at")));
    terminal_fit(t, shown, sizeof(shown), text, 0);
    erase(f);
    end_line(f);
    fprintf(t->file, "%s%s%s %s%s%s\n", terminal_style(t, STYLE_DIM), strlen(at) > 11 ? at + 11 : at,
            terminal_style(t, STYLE_PLAIN), bad ? terminal_style(t, STYLE_YELLOW) : "", shown,
            bad ? terminal_style(t, STYLE_PLAIN) : "");
    return 0;
}

static void note_start(struct follow *f, const json_t *event)
{
    if (event_kind_of(field_text(event, "kind")) != EVENT_GENERATION_STARTED)
        return;
    f->attempt = field_int(event, "attempt", 0);
    f->generation = field_int(json_object_get(event, "body"), "generation", 1);
}

static int read_events(struct follow *f)
{
    for (;;) {
        json_t *answer, *event;
        size_t i;
        if (client_get(f->client, &answer, &f->call->err, "/v1/jobs/%lld/events?after=%lld&limit=%d",
                       f->id, (long long)f->after, PAGE) < 0)
            return -1;
        json_t *events = json_object_get(answer, "events");
        json_array_foreach (events, i, event) {
            f->after = json_integer_value(json_object_get(event, "seq"));
            if (tell(f, event) < 0) {
                json_decref(answer);
                return -1;
            }
            note_start(f, event);
            if (f->wish->output && event_kind_of(field_text(event, "kind")) == EVENT_SETUP_DONE)
                show_setup(f, event);
        }
        size_t n = json_array_size(events);
        json_decref(answer);
        if (n < PAGE)
            return 0;
    }
}

static void draw(struct follow *f)
{
    const struct terminal *t = &f->call->out;
    char line[PROGRESS_LINE_SIZE];
    long long step = json_integer_value(json_object_get(f->row, "step"));
    if (!f->wish->progress || f->wish->quiet)
        return;
    if (t->tty) {
        terminal_measure(&f->call->out);
        progress_line_make(line, sizeof(line), t, f->row);
        if (!mid_line(f) && (!f->drawn || strcmp(line, f->last) != 0)) {
            fprintf(t->file, "\r\033[K%s", line);
            f->drawn = true;
            strcpy(f->last, line);
        }
        return;
    }
    const bool waits = strcmp(field_text(f->row, "state"), "running") != 0;
    const char *reason = waits ? field_text(f->row, "reason") : "";
    if ((step == f->last_step && strncmp(reason, f->last, sizeof(f->last) - 1) == 0) ||
        clock_s() - f->last_plain < PLAIN_EVERY_S)
        return;
    progress_line_make(line, sizeof(line), t, f->row);
    fprintf(t->file, "%s\n", line);
    snprintf(f->last, sizeof(f->last), "%s", reason);
    f->last_plain = clock_s();
    f->last_step = step;
}

/* Read the row first: if it is done, the events and output read next are complete. */
static int look(struct follow *f)
{
    if (read_row(f) < 0 || read_events(f) < 0)
        return -1;
    return f->wish->output ? read_outputs(f, f->wish->from_now || is_done(f)) : 0;
}

/* Before the client tells of a far host that is away. */
static void clear_line(void *user)
{
    struct follow *f = user;
    erase(f);
    end_line(f);
    fflush(f->call->out.file);
}

static int detach(struct follow *f)
{
    const struct terminal *t = &f->call->out;
    erase(f);
    const char *host = far_host_name(), *to = host ? " -H " : "";
    host = host ? host : "";
    fprintf(t->file, "%sJob %lld keeps running. Reattach: jobctl%s%s logs -f %lld. Stop: jobctl%s%s "
            "cancel %lld.\n", mid_line(f) ? "\n" : "", f->id, to, host, f->id, to, host, f->id);
    memset(&f->call->err, 0, sizeof(f->call->err));
    return FOLLOW_DETACHED;
}

static int cancel(struct follow *f)
{
    char path[64];
    json_t *answer = NULL, *body = json_object();
    snprintf(path, sizeof(path), "/v1/jobs/%lld/cancel", f->id);
    int rc = client_post(f->client, &answer, path, body, &f->call->err);
    if (rc < 0 && f->call->err.code == ERR_CONFLICT) { /* it ended meanwhile */
        memset(&f->call->err, 0, sizeof(f->call->err));
        rc = 0;
    }
    json_decref(body);
    json_decref(answer);
    return rc;
}

/* After Ctrl-C: 0 goes on with the job; else the code of follow_job(). */
static int interrupted(struct follow *f, const volatile int *stop)
{
    if (!f->wish->ask || *stop != SIGINT || !question_possible(f->call))
        return detach(f);
    interrupt_clear();
    memset(&f->call->err, 0, sizeof(f->call->err));
    erase(f);
    end_line(f);
    const enum question_leave answer = question_leave(f->call, f->id, stop);
    if (answer == QUESTION_LEAVE)
        return detach(f);
    return answer == QUESTION_CANCEL ? cancel(f) : 0;
}

static int loop(struct follow *f, const volatile int *stop)
{
    const int most = f->call->out.tty ? TICK_TTY_MS : TICK_MS;
    for (int tick = 0;;) {
        const int64_t seen = f->after;
        int rc = look(f);
        tick = f->after != seen ? TICK_LEAST_MS : 2 * tick < most ? 2 * tick : most; /* events come close together */
        if (rc == 0 && is_done(f))
            break;
        if (rc == 0) {
            draw(f);
            if (output_closed(f->call))
                return 0;
            poll(NULL, 0, tick);
        }
        if (*stop)
            rc = interrupted(f, stop);
        if (rc != 0)
            return rc;
    }
    erase(f);
    end_line(f);
    for (int i = 0; i < f->n; i++)
        log_fetch_fini(&f->logs[i], f->call->out.file);
    return job_wait_exit_code(f->row);
}

int follow_job(struct call *call, struct client *c, long long id, const struct follow_wish *wish, json_t **row)
{
    struct follow f = {.call = call, .client = c, .wish = wish, .id = id, .last_step = -1};
    const volatile int *stop = interrupt_catch();
    client_stop_when(c, stop);
    client_wait_for_far(c, -1, clear_line, &f);
    f.last_plain = clock_s();
    if (wish->from_now && skip_old_events(&f) < 0)
        return -1;
    int rc = loop(&f, stop);
    client_stop_when(c, NULL);
    client_wait_for_far(c, -1, NULL, NULL);
    if (row)
        *row = json_incref(f.row);
    for (int i = 0; i < f.n; i++)
        free(f.logs[i].held);
    free(f.logs);
    json_decref(f.row);
    return rc;
}
