/* SPDX-License-Identifier: Apache-2.0 */
/* notice_message.c - see notice_message.h */
#include "controller/notify/notice_message.h"

#include <stdio.h>
#include <string.h>

#include "controller/notify/notice.h"
#include "engine/base/err.h"
#include "engine/base/text_append.h"

enum { LINE = 700 };

static void times(char *out, size_t size, const char *verb, int64_t n)
{
    if (n == 1)
        text_append(out, size, "%s once", verb);
    else
        text_append(out, size, "%s %lld times", verb, (long long)n);
}

/* "restarted 5 times, hung once"; "" if neither. */
static void counts(char *out, size_t size, const struct notice_row *n)
{
    out[0] = '\0';
    if (n->restarts > 0)
        times(out, size, "restarted", n->restarts);
    if (n->hangs > 0)
        times(out, size, out[0] ? ", hung" : "hung", n->hangs);
}

/* "failed", "succeeded (restarted once)", "restarted 5 times, hung once" */
static void result(char *out, size_t size, const struct notice_row *n)
{
    char before[80];
    counts(before, sizeof(before), n);
    switch (notice_event_of(n->event)) {
    case NOTICE_DONE:
        snprintf(out, size, "succeeded%s%s%s", before[0] ? " (" : "", before, before[0] ? ")" : "");
        return;
    case NOTICE_FAILED:
        snprintf(out, size, "failed%s%s%s", before[0] ? " (" : "", before, before[0] ? ")" : "");
        return;
    case NOTICE_BUDGET:
        snprintf(out, size, "is at a limit of its spec%s%s%s", before[0] ? " (" : "", before, before[0] ? ")" : "");
        return;
    case NOTICE_NONE:
    case NOTICE_RECOVERING:
    case NOTICE_HUNG:
    case NOTICE_EVENTS:
        snprintf(out, size, "%s", before[0] ? before : "has news");
        return;
    }
}

static void job_line(char *out, size_t size, const struct notice_row *n)
{
    char what[160];
    result(what, sizeof(what), n);
    snprintf(out, size, "job %lld (%s) %s", (long long)n->job, n->name, what);
}

static void one(struct notice_message *m, const struct notice_row *n)
{
    char line[LINE];
    job_line(line, sizeof(line), n);
    snprintf(m->event, sizeof(m->event), "%s", n->event);
    snprintf(m->title, sizeof(m->title), "jobctl: %.160s on %s", line, m->host);
    text_append(m->text, sizeof(m->text), "%s%s", n->reason, n->reason[0] ? "\n" : "");
    text_append(m->text, sizeof(m->text), "To see more: jobctl %s %lld", strcmp(n->event, "done") ? "why" : "show",
                (long long)n->job);
}

/* "12 jobs: 9 failed, 2 succeeded, 1 in trouble" */
static void totals(char *out, size_t size, const struct notice_row *rows, size_t n)
{
    int of[NOTICE_EVENTS] = { 0 };
    for (size_t i = 0; i < n; i++)
        of[notice_event_of(rows[i].event)]++;
    const int trouble = (int)n - of[NOTICE_FAILED] - of[NOTICE_DONE];
    snprintf(out, size, "%zu jobs:", n);
    if (of[NOTICE_FAILED])
        text_append(out, size, " %d failed", of[NOTICE_FAILED]);
    if (of[NOTICE_DONE])
        text_append(out, size, "%s %d succeeded", of[NOTICE_FAILED] ? "," : "", of[NOTICE_DONE]);
    if (trouble)
        text_append(out, size, "%s %d in trouble", trouble < (int)n ? "," : "", trouble);
}

static void several(struct notice_message *m, const struct notice_row *rows, size_t n)
{
    char line[LINE];
    totals(line, sizeof(line), rows, n);
    snprintf(m->event, sizeof(m->event), "several");
    snprintf(m->title, sizeof(m->title), "jobctl: %.160s on %s", line, m->host);
    for (size_t i = 0; i < n && i < NOTICE_LISTED; i++) {
        job_line(line, sizeof(line), &rows[i]);
        text_append(line, sizeof(line), "%s%.100s", rows[i].reason[0] ? ": " : "", rows[i].reason);
        err_make_printable(line);
        text_append(m->text, sizeof(m->text), "%s\n", line);
    }
    if (n > NOTICE_LISTED)
        text_append(m->text, sizeof(m->text), "and %zu more\n", n - NOTICE_LISTED);
    text_append(m->text, sizeof(m->text), "To see them: jobctl status -a; to see one: jobctl why JOB");
}

static void head(struct notice_message *m, const char *host)
{
    *m = (struct notice_message){ .n = 0 };
    snprintf(m->host, sizeof(m->host), "%.64s", host);
}

void notice_message_make(struct notice_message *m, const struct notice_row *rows, size_t n, const char *instance,
                         const char *host)
{
    head(m, host);
    m->rows = rows;
    m->n = n;
    for (size_t i = 0; i < n; i++)
        m->at_ms = rows[i].last_ms > m->at_ms ? rows[i].last_ms : m->at_ms;
    snprintf(m->id, sizeof(m->id), "%.32s-%lld-%lld", instance, (long long)rows[0].job, (long long)rows[0].sent + 1);
    if (n == 1)
        one(m, rows);
    else
        several(m, rows, n);
}

void notice_message_test(struct notice_message *m, const char *target, int64_t at_ms, const char *instance,
                         const char *host)
{
    head(m, host);
    m->at_ms = at_ms;
    snprintf(m->id, sizeof(m->id), "%.32s-test-%lld", instance, (long long)at_ms);
    snprintf(m->event, sizeof(m->event), "test");
    snprintf(m->title, sizeof(m->title), "jobctl: a test of notify target %.64s on %s", target, m->host);
    snprintf(m->text, sizeof(m->text), "It works. Messages about jobs will look like this one.");
}
