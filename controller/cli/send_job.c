/* SPDX-License-Identifier: Apache-2.0 */
/* send_job.c - see send_job.h */
#include "controller/cli/send_job.h"

#include <stdio.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/follow.h"
#include "controller/cli/job_wait.h"
#include "controller/cli/local_check.h"
#include "controller/cli/spec_file.h"
#include "controller/cli/submit_code.h"
#include "controller/job/job_view.h"

static void announce(struct call *call, const json_t *row, const struct send_wish *wish)
{
    const struct terminal *t = &call->out;
    long long id = json_integer_value(json_object_get(row, "id"));
    char title[JOB_CELL];
    if (call->json)
        return;
    if (wish->quiet) {
        fprintf(t->file, "%lld\n", id);
        return;
    }
    job_view_title(title, sizeof(title), row);
    fprintf(t->file, "%s%s%s submitted%s\n", terminal_style(t, STYLE_BOLD), title,
            terminal_style(t, STYLE_PLAIN),
            json_is_true(json_object_get(row, "held")) ? " and held" : "");
    if (json_is_object(json_object_get(row, "members")) && !wish->several)
        fprintf(t->file, "  %lld members; jobctl status %lld lists them, jobctl logs %lld_INDEX is the output of one\n",
                (long long)json_integer_value(json_object_get(json_object_get(row, "members"), "count")), id, id);
    if (!t->tty || wish->several || wish->follow || wish->wait || json_is_object(json_object_get(row, "members")))
        return;
    fprintf(t->file, "  jobctl status %-6lld step and speed\n", id);
    fprintf(t->file, "  jobctl logs -f %-5lld its output, live\n", id);
    fprintf(t->file, "  jobctl why %-9lld why it waits, restarted or stopped\n", id);
}

int send_job_look_on(struct call *call, struct client *c, json_t **row, const struct send_wish *wish)
{
    long long id = json_integer_value(json_object_get(*row, "id"));
    json_t *last = NULL;
    int code;
    fflush(call->out.file);
    if (wish->follow && !call->json) {
        const bool output = wish->output && !json_is_object(json_object_get(*row, "members"));
        struct follow_wish look = {.output = output, .tail = -1, .progress = true, .ask = wish->ask};
        code = follow_job(call, c, id, &look, &last);
    } else {
        code = job_wait(c, id, -1, &last, &call->err);
        if (code > 0)
            code = job_wait_exit_code(last);
    }
    if (last) {
        json_decref(*row);
        *row = last;
    }
    if (code >= 0 && code != FOLLOW_DETACHED && !call->json && !wish->quiet)
        job_wait_print(&call->out, *row);
    return code;
}

static int post(struct call *call, struct client *c, const json_t *request, json_t **code_notes, json_t **answer)
{
    struct code_taken code;
    if (submit_code_take(&code, call, request, json_object_get(request, "canonical")) < 0)
        return -1;
    json_t *whole = submit_code_request(&code, request);
    const int rc = spec_file_post(call, c, answer, whole);
    *code_notes = json_incref(code.notes);
    json_decref(whole);
    code_take_end(&code);
    return rc;
}

int send_job(struct call *call, struct client *c, const json_t *request, const json_t *notes,
             const struct send_wish *wish, json_t **row)
{
    json_t *answer, *code_notes = NULL;
    *row = NULL;
    if (post(call, c, request, &code_notes, &answer) < 0) {
        json_decref(code_notes);
        return -1;
    }
    *row = json_incref(json_object_get(answer, "job"));
    json_decref(answer);
    announce(call, *row, wish);
    local_check_print_notes(notes);
    local_check_print_notes(code_notes);
    json_decref(code_notes);
    const int code = !wish->several && (wish->follow || wish->wait) ? send_job_look_on(call, c, row, wish) : 0;
    if (code < 0) {
        json_decref(*row);
        *row = NULL;
    }
    return code;
}
