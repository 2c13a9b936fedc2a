/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_notify.c - jobctl notify: list the targets of notifications, and send a test message */
#include <stdio.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { EXIT_NOT_SENT = 1 };

static const struct option_row options[] = {
    OPTION_JSON,
    {.name = NULL},
};

/* ---- jobctl notify ---- */

static void print_target(FILE *f, const json_t *target)
{
    size_t i;
    const json_t *word;
    const char *problem = field_text(target, "problem");
    const long long waiting = field_int(target, "waiting", 0);
    fprintf(f, "%s: %s, on", field_text(target, "name"), field_text(target, "kind"));
    json_array_foreach (json_object_get(target, "on"), i, word)
        fprintf(f, "%s %s", i ? "," : "", json_string_value(word));
    if (waiting > 0)
        fprintf(f, "; %lld waiting", waiting);
    if (problem[0])
        fprintf(f, "; cannot be reached: %s", problem);
    fputc('\n', f);
}

static int list(struct call *call, json_t *targets)
{
    size_t i;
    const json_t *target;
    if (call->json) {
        output_json(call, json_make("{s:O}", "targets", targets));
        return 0;
    }
    json_array_foreach (targets, i, target)
        print_target(call->out.file, target);
    if (json_array_size(targets) == 0)
        fprintf(call->out.file, "No targets: no messages about jobs are sent. Add a target to config.yaml, for example "
                "notify: {team: {webhook: \"${SLACK_URL}\"}}; see docs/MONITORING.md\n");
    return 0;
}

/* ---- jobctl notify test ---- */

static int test_one(struct call *call, struct client *c, const char *name, json_t *results)
{
    json_t *answer = NULL, *body = json_make("{s:s}", "target", name);
    const int rc = client_post(c, &answer, "/v1/notify", body, &call->err);
    json_decref(body);
    if (rc < 0)
        return -1;
    const bool ok = field_true(answer, "ok");
    if (!call->json)
        fprintf(call->out.file, "%s: %s%s\n", name, ok ? "the message was sent" : "not sent: ",
                ok ? "" : field_text(answer, "text"));
    json_array_append_new(results, answer);
    return ok ? 0 : EXIT_NOT_SENT;
}

/* The named ones, else all. */
static int test(struct call *call, struct client *c, const json_t *targets)
{
    const struct options *o = &call->options;
    json_t *results = json_array();
    const int n = o->nargs > 1 ? o->nargs - 1 : (int)json_array_size(targets);
    int bad = 0, rc = 0;
    if (n == 0)
        rc = err_set(&call->err, ERR_NOT_FOUND, "config.yaml has no notify target; see docs/MONITORING.md");
    for (int i = 0; rc >= 0 && i < n; i++) {
        const char *name = o->nargs > 1 ? o->args[i + 1] : field_text(json_array_get(targets, (size_t)i), "name");
        rc = test_one(call, c, name, results);
        bad |= rc;
    }
    if (rc >= 0 && call->json)
        output_json(call, json_make("{s:O}", "results", results));
    json_decref(results);
    return rc < 0 ? -1 : bad;
}

static int run(struct call *call)
{
    const struct options *o = &call->options;
    struct client *c;
    json_t *answer = NULL;
    if (o->nargs > 0 && strcmp(o->args[0], "test") != 0)
        return err_set(&call->err, ERR_USAGE, "notify: expected `jobctl notify`, or `jobctl notify test [TARGET...]`, "
                       "not \"%.40s\"", o->args[0]);
    if (client_open(&c, true, &call->err) < 0)
        return -1;
    int rc = client_get(c, &answer, &call->err, "/v1/notify");
    if (rc == 0)
        rc = o->nargs > 0 ? test(call, c, json_object_get(answer, "targets"))
                          : list(call, json_object_get(answer, "targets"));
    json_decref(answer);
    client_close(c);
    return rc;
}

const struct command cmd_notify = {
    .name = "notify", .args = ARGS_WORDS, .words = "[test [TARGET...]]",
    .summary = "list the targets for messages about jobs, and test them",
    .help = "Targets are defined by `notify` in ~/.config/jobctl/config.yaml: webhooks, mail and commands. `jobctl "
            "notify test` sends a message to each TARGET, or to all, and prints whether it was accepted (exit code 1 "
            "if one was not). The daemon sends it, like all messages about jobs.",
    .options = options, .run = run,
};
