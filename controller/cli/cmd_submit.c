/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_submit.c - jobctl submit: check a spec, send it to the daemon, follow the job if asked */
#include <stdio.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/follow.h"
#include "controller/cli/job_wait.h"
#include "controller/cli/output.h"
#include "controller/cli/spec_file.h"
#include "controller/job/job_view.h"

static const struct option_row options[] = {
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the spec: --set train.steps=100"},
    {"dry-run", 0, OPTION_FLAG, NULL, "check and print the canonical spec; submit nothing"},
    {"hold", 0, OPTION_FLAG, NULL, "submit held: jobctl release starts it"},
    {"follow", 'f', OPTION_FLAG, NULL, "follow the job until it is done; Ctrl-C does not stop it"},
    {"wait", 'w', OPTION_FLAG, NULL, "wait silently until the job is done; exit with its code"},
    {"quiet", 'q', OPTION_FLAG, NULL, "print the id only"},
    OPTION_JSON,
    {.name = NULL},
};

static int dry_run(struct call *call, struct client *c, json_t *request)
{
    json_t *answer, *note;
    size_t i;
    json_object_set_new(request, "dry_run", json_true());
    if (spec_file_post(call, c, &answer, request) < 0)
        return -1;
    if (call->json) {
        output_json(call, answer);
        return 0;
    }
    if (!options_has(&call->options, "quiet")) {
        json_dumpf(json_object_get(answer, "spec"), call->out.file,
                   JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        fputc('\n', call->out.file);
    }
    fflush(call->out.file);
    json_array_foreach (json_object_get(answer, "notes"), i, note)
        fprintf(stderr, "note: %s\n", json_string_value(note) ? json_string_value(note) : "");
    json_decref(answer);
    return 0;
}

static void announce(struct call *call, const json_t *row)
{
    const struct terminal *t = &call->out;
    long long id = json_integer_value(json_object_get(row, "id"));
    char title[JOB_CELL];
    if (call->json)
        return;
    if (options_has(&call->options, "quiet")) {
        fprintf(t->file, "%lld\n", id);
        return;
    }
    job_view_title(title, sizeof(title), row);
    fprintf(t->file, "%s%s%s submitted%s\n", terminal_style(t, STYLE_BOLD), title,
            terminal_style(t, STYLE_PLAIN),
            json_is_true(json_object_get(row, "held")) ? " and held" : "");
    if (!t->tty || options_has(&call->options, "follow") || options_has(&call->options, "wait"))
        return;
    fprintf(t->file, "  jobctl status %-6lld step and speed\n", id);
    fprintf(t->file, "  jobctl logs -f %-5lld its output, live\n", id);
    fprintf(t->file, "  jobctl why %-9lld why it waits, restarted or stopped\n", id);
}

/* --follow or --wait. *row is replaced by the last state. */
static int look_on(struct call *call, struct client *c, json_t **row, bool is_run)
{
    long long id = json_integer_value(json_object_get(*row, "id"));
    json_t *last = NULL;
    int code;
    fflush(call->out.file);
    if (options_has(&call->options, "follow") && !call->json) {
        struct follow_wish wish = {.output = is_run, .tail = -1, .progress = true};
        code = follow_job(call, c, id, &wish, &last);
    } else {
        code = job_wait(c, id, -1, &last, &call->err);
        if (code > 0)
            code = job_wait_exit_code(last);
    }
    if (last) {
        json_decref(*row);
        *row = last;
    }
    if (code >= 0 && code != FOLLOW_DETACHED && !call->json &&
        !options_has(&call->options, "quiet"))
        job_wait_print(&call->out, *row);
    return code;
}

static int submit(struct call *call, struct client *c, const json_t *request, bool is_run)
{
    json_t *answer;
    if (spec_file_post(call, c, &answer, request) < 0)
        return -1;
    json_t *row = json_incref(json_object_get(answer, "job"));
    json_decref(answer);
    announce(call, row);
    int code = 0;
    if (options_has(&call->options, "follow") || options_has(&call->options, "wait"))
        code = look_on(call, c, &row, is_run);
    if (code >= 0 && call->json)
        output_json(call, json_pack("{s:O}", "job", row));
    json_decref(row);
    return code;
}

static int run(struct call *call)
{
    const struct options *o = &call->options;
    json_t *request = NULL, *spec = NULL;
    struct client *c = NULL;
    int rc = -1;
    if (spec_file_request(call, o->args[0], o->list, o->nlist, &request, &spec) < 0)
        return -1;
    bool is_run = json_is_string(json_object_get(spec, "run"));
    if (options_has(o, "hold"))
        json_object_set_new(request, "hold", json_true());
    if (client_open(&c, true, &call->err) == 0)
        rc = options_has(o, "dry-run") ? dry_run(call, c, request)
                                       : submit(call, c, request, is_run);
    client_close(c);
    json_decref(request);
    json_decref(spec);
    return rc;
}

const struct command cmd_submit = {
    .name = "submit", .aliases = "run", .args = ARGS_FILE,
    .summary = "check a job spec and queue it",
    .help = "FILE is YAML, - is standard input; jobctl help spec lists its keys. The file is "
            "copied; "
            "later edits have no effect. With --follow and --wait the exit code is the job's: "
            "0 succeeded, 1 failed, 3 cancelled, 93 retry limit reached (do not requeue).",
    .options = options, .run = run,
};
