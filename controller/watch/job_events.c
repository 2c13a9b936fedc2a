/* SPDX-License-Identifier: Apache-2.0 */
/* job_events.c - see job_events.h */
#include "controller/watch/job_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/interrupt.h"
#include "controller/cli/output.h"
#include "controller/job/job_view.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

/* A narrow terminal omits the kinds, which are for programs. */
enum { PAGE = 1000, INTERRUPTED = 130, WAIT_S = 20, WIDE = 120, NARROW_TEXT = 25, WIDE_TEXT = 44 };

static void print(struct call *call, const json_t *event)
{
    const struct terminal *t = &call->out;
    char at[JOB_CELL];
    const char *text = field_text(event, "text");
    const json_t *attempt = json_object_get(event, "attempt");
    job_view_local(at, sizeof(at), json_string_value(json_object_get(event, "at")));
    char number[24] = "";
    if (json_integer_value(attempt) > 0)
        snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(attempt));
    fprintf(t->file, "%s%s%s  %2s ", terminal_style(t, STYLE_DIM), at, terminal_style(t, STYLE_PLAIN), number);
    if (t->width && t->width < WIDE) {
        fputc(' ', t->file);
        terminal_hang(t, text, NARROW_TEXT);
        return;
    }
    fprintf(t->file, "%-18s  ", field_text(event, "kind"));
    terminal_hang(t, text, WIDE_TEXT);
}

/* Events from before the job was adopted. */
static void print_past(struct call *call, const json_t *event)
{
    const json_t *history = json_object_get(json_object_get(json_object_get(event, "body"), "adopted"), "history");
    size_t i;
    json_t *row;
    json_array_foreach (history, i, row) {
        const time_t at = (time_t)(json_integer_value(json_object_get(row, "at_ms")) / 1000);
        const char *host = json_string_value(json_object_get(row, "host"));
        char when[32] = "", shown[1024];
        struct tm tm;
        if (localtime_r(&at, &tm))
            strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
        terminal_fit(&call->out, shown, sizeof(shown), field_text(row, "text"), 0);
        fprintf(call->out.file, "%s%s  on %s, job %lld: %s%s\n", terminal_style(&call->out, STYLE_DIM), when,
                host ? host : "-", (long long)json_integer_value(json_object_get(row, "job")), shown,
                terminal_style(&call->out, STYLE_PLAIN));
    }
}

/* Prints page by page to the last event; with -f until the job is done. */
static int fetch(struct call *call, struct client *c, const char *job, bool follow, json_t *all)
{
    long long after = 0;
    const volatile int *stop = follow ? interrupt_catch() : NULL;
    client_stop_when(c, stop);
    if (follow)
        client_wait_for_far(c, -1, NULL, NULL);
    for (;;) {
        json_t *answer, *event;
        size_t i;
        if (client_get(c, &answer, &call->err, "/v1/jobs/%s/events?after=%lld&limit=%d&wait_s=%d",
                       job, after, PAGE, follow ? WAIT_S : 0) < 0) {
            bool asked = stop && *stop;
            if (asked)
                memset(&call->err, 0, sizeof(call->err));
            return asked ? INTERRUPTED : -1;
        }
        json_t *events = json_object_get(answer, "events");
        json_array_foreach (events, i, event) {
            after = json_integer_value(json_object_get(event, "seq"));
            if (!call->json && after == 1)
                print_past(call, event);
            if (!call->json)
                print(call, event);
            else
                json_array_append(all, event);
        }
        size_t n = json_array_size(events);
        const bool done = strcmp(field_text(answer, "state"), "done") == 0;
        const bool over = n < PAGE && (!follow || (n == 0 && done));
        json_decref(answer);
        if (over || output_closed(call))
            return 0;
    }
}

int job_events_print(struct call *call, bool follow)
{
    struct client *c;
    char *job = client_job_part(call->options.args[0], &call->err);
    json_t *all = json_array();
    int rc = -1;
    if (job && client_open(&c, true, &call->err) == 0) {
        rc = fetch(call, c, job, follow, all);
        client_close(c);
    }
    if (rc == 0 && call->json)
        output_json(call, json_make("{s:O}", "events", all));
    free(job);
    json_decref(all);
    return rc;
}
