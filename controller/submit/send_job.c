/* SPDX-License-Identifier: Apache-2.0 */
/* send_job.c - see send_job.h */
#include "controller/submit/send_job.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/plan/plan.h"
#include "controller/base/client.h"
#include "controller/base/submit_key.h"
#include "controller/cli/command.h"
#include "controller/cli/follow.h"
#include "controller/cli/interrupt.h"
#include "controller/cli/job_wait.h"
#include "controller/job/job_view.h"
#include "controller/remote/remote.h"
#include "controller/spec/sweep_points.h"
#include "controller/submit/local_check.h"
#include "controller/submit/spec_file.h"
#include "controller/submit/submit_code.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

enum { PROBE_MS = 3000 };       /* a daemon that has just started looks for GPUs */

static void announce(struct call *call, const json_t *row, const struct send_wish *wish)
{
    const struct terminal *t = &call->out;
    long long id = json_integer_value(json_object_get(row, "id"));
    char title[JOB_CELL];
    if (call->json)
        return;
    if (wish->quiet && wish->follow)
        return;
    if (wish->quiet) {
        fprintf(t->file, "%lld\n", id);
        return;
    }
    job_view_title(title, sizeof(title), row);
    fprintf(t->file, "%s%s%s submitted%s\n", terminal_style(t, STYLE_BOLD), title, terminal_style(t, STYLE_PLAIN),
            json_is_true(json_object_get(row, "held")) ? " and held" : "");
    if (json_is_object(json_object_get(row, "members")) && !wish->several)
        fprintf(t->file, "  %lld members; jobctl status %lld lists them, jobctl logs %lld_INDEX shows one member's "
                         "output\n",
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
        struct follow_wish look = {.output = output, .tail = -1, .progress = true, .ask = wish->ask,
                                   .quiet = wish->quiet};
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

/* Ctrl-C waits for the answer, which tells the job; a second one does not. */
static int post_with_key(struct call *call, struct client *c, json_t **answer, json_t *whole, const char *given)
{
    char key[SUBMIT_KEY_SIZE];
    if (given ? submit_key_check(given, &call->err) < 0 : submit_key_make(key, &call->err) < 0)
        return -1;
    json_object_set_new(whole, "key", json_text(given ? given : key));
    client_stop_when(c, interrupt_catch_second());
    const int rc = spec_file_post(call, c, answer, whole);
    client_stop_when(c, NULL);
    return rc;
}

static int post(struct call *call, struct client *c, const json_t *request, const struct send_wish *wish,
                json_t **code_notes, json_t **answer)
{
    struct code_taken code;
    if (submit_code_take(&code, call, request, json_object_get(request, "canonical")) < 0)
        return -1;
    json_t *whole = submit_code_request(&code, request);
    const int rc = post_with_key(call, c, answer, whole, wish->key);
    *code_notes = json_incref(code.notes);
    json_decref(whole);
    submit_code_end(&code);
    return rc;
}

/* The GPUs of the controller's machine that the job could use; 0 until it knows them. */
static int gpus_there(struct client *c, const json_t *spec)
{
    char why[300];
    int n = 0;
    bool probed = false;
    for (int64_t end = clock_ms() + PROBE_MS; !probed && clock_ms() < end; clock_wait(-1, probed ? 0 : 20)) {
        struct err ignored = {.code = ERR_NONE};    /* only a note depends on it */
        json_t *answer = NULL;
        if (client_get(c, &answer, &ignored, "/v1/nodes") < 0)
            return 0;
        const json_t *here = json_array_get(json_object_get(answer, "nodes"), 0);
        probed = field_true(here, "probed");
        n = plan_usable_gpus(why, sizeof(why), here, spec);
        json_decref(answer);
    }
    return n;
}

/* How many GPUs and copies a spec without `resources` means here. */
static void note_gpus(struct client *c, const json_t *spec)
{
    const json_t *resources = json_object_get(spec, "resources");
    const char *gpus = field_text(resources, "gpus");
    const bool several = sweep_points_is(spec), one = strcmp(gpus, "one") == 0;
    const bool copies = !several && strcmp(gpus, "auto") == 0 && json_is_string(json_object_get(spec, "run")) &&
                        strcmp(field_text(resources, "ranks"), "auto") == 0 &&
                        !json_object_get(json_object_get(spec, "env"), "CUDA_VISIBLE_DEVICES");
    const int n = remote_of_spec(spec) == &remote_local && (copies || (several && one)) ? gpus_there(c, spec) : 0;
    if (several && one && n > 0)
        fprintf(stderr, "note: each member takes one GPU per rank; to change this set resources.gpus\n");
    if (copies && n > 1)
        fprintf(stderr, "note: up to %d copies of the command start, one rank per GPU; for one copy on one GPU set "
                "resources.gpus: 1, for one copy on all GPUs resources.ranks: 1\n", n);
}

/* Ctrl-C came before the answer: it ends this command now, as it would have. A job that is followed is asked about. */
static void end_interrupted(const json_t *row)
{
    const int signo = interrupt_end();
    if (!signo)
        return;
    fflush(NULL);
    fprintf(stderr, "jobctl: interrupted: job %lld was submitted and will run\n",
            (long long)json_integer_value(json_object_get(row, "id")));
    raise(signo);
}

int send_job(struct call *call, struct client *c, const json_t *request, const json_t *notes,
             const struct send_wish *wish, json_t **row)
{
    json_t *answer, *code_notes = NULL;
    *row = NULL;
    if (post(call, c, request, wish, &code_notes, &answer) < 0) {
        json_decref(code_notes);
        interrupt_end();
        return -1;
    }
    *row = json_incref(json_object_get(answer, "job"));
    json_decref(answer);
    announce(call, *row, wish);
    local_check_print_notes(notes);
    local_check_print_notes(code_notes);
    note_gpus(c, json_object_get(request, "canonical"));
    json_decref(code_notes);
    if (wish->several || !wish->follow || call->json)
        end_interrupted(*row);
    const int code = !wish->several && (wish->follow || wish->wait) ? send_job_look_on(call, c, row, wish) : 0;
    if (code < 0) {
        json_decref(*row);
        *row = NULL;
    }
    return code;
}
