/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_adopt.c - jobctl adopt: continue another machine's job from its mirror */
#include <dirent.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/job_wait.h"
#include "controller/cli/output.h"
#include "controller/cli/question.h"
#include "controller/submit/local_check.h"
#include "controller/submit/spec_file.h"
#include "controller/submit/submitter.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static const struct option_row options[] = {
    {"hold", 0, OPTION_FLAG, NULL, "submit the job held; jobctl hold --off lets it start"},
    {"wait", 'w', OPTION_FLAG, NULL, "wait until the job is done; exit with its code"},
    {"yes", 'y', OPTION_FLAG, NULL, "do not ask"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};

/* --- what will run --------------------------------------------------------------------------- */

enum { LABEL = 12 };

/* Every line of a text; bytes that a terminal would obey become '?'. */
static void print_text(FILE *f, const char *label, const char *text)
{
    for (;;) {
        const size_t n = strcspn(text, "\n");
        char *line = strndup(text, n);
        if (line)
            err_make_printable(line);
        fprintf(f, "  %-*s%s\n", LABEL, label, line ? line : "?");
        free(line);
        text += n;
        if (!*text || !text[1])
            return;
        text++;
        label = "";
    }
}

static void print_json(FILE *f, const char *label, const json_t *v)
{
    char *text = json_dumps(v, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    print_text(f, label, text ? text : "?");
    free(text);
}

/* What a key of the spec adds, unless it is empty. */
static void print_key(FILE *f, const char *label, const json_t *v)
{
    if (json_is_string(v))
        print_text(f, label, json_string_value(v));
    else if (json_object_size(v) > 0 || json_array_size(v) > 0)
        print_json(f, label, v);
}

/* The newest checkpoint in the mirror, by its name. */
static void newest_checkpoint(char *out, size_t size, const char *dir)
{
    char path[PATH_MAX + 16];
    long long newest = -1, step;
    snprintf(path, sizeof(path), "%s/checkpoints", dir);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (sscanf(e->d_name, "step-%lld", &step) == 1 && step > newest)
            newest = step;
    if (d)
        closedir(d);
    if (newest >= 0)
        snprintf(out, size, "step %lld, in %s", newest, path);
    else
        snprintf(out, size, "none; training starts at step 0");
}

static void print_plan(FILE *f, const json_t *plan)
{
    char host[256] = "?", checkpoint[PATH_MAX + 64];
    const json_t *spec = json_object_get(plan, "spec");
    const struct passwd *user = getpwuid(geteuid());
    gethostname(host, sizeof(host) - 1);
    newest_checkpoint(checkpoint, sizeof(checkpoint), field_text(plan, "dir"));
    fprintf(f, "%s/job.json is job %lld of %s. Adopting it runs, as user %s on %s:\n", field_text(plan, "dir"),
            (long long)json_integer_value(json_object_get(plan, "job")), field_text(plan, "host"),
            user ? user->pw_name : "?", host);
    print_key(f, "setup", json_object_get(spec, "setup"));
    print_key(f, "run", json_object_get(spec, "run"));
    print_key(f, "train", json_object_get(spec, "train"));
    print_key(f, "env", json_object_get(spec, "env"));
    print_key(f, "secrets", json_object_get(spec, "secrets"));
    print_text(f, "environment", strcmp(field_text(spec, "env_from"), "clean") == 0 ? "that of a plain login"
                                 : "yours, including the secrets");
    print_key(f, "directory", json_object_get(spec, "workdir"));
    print_text(f, "checkpoint", checkpoint);
    print_key(f, "saved to", json_object_get(json_object_get(spec, "checkpoint"), "dir"));
    print_key(f, "resume", json_object_get(spec, "resume"));
    print_key(f, "resources", json_object_get(spec, "resources"));
    print_key(f, "launch", json_object_get(spec, "launch"));
    print_key(f, "slurm", json_object_get(spec, "slurm"));
}

/* 1: yes. A program may not say it by accident: what it reads as an answer may be anything. */
static int confirm(struct call *call, const json_t *plan)
{
    if (!options_has(&call->options, "yes") && !question_possible(call))
        return err_set(&call->err, ERR_USAGE, "adopt asks before it runs a mirror's commands, but stdin is not a "
                       "terminal or --json is given; add --yes if you trust everyone who can write to '%s'",
                       field_text(plan, "dir"));
    return question_confirm(call, "Adopt it?", "Nothing was adopted.");
}

/* --- the request ------------------------------------------------------------------------------ */

/* What the daemon makes of the directory; nothing has been stored. */
static json_t *ask_plan(struct call *call, struct client *c)
{
    char dir[PATH_MAX];
    json_t *plan = NULL;
    if (submitter_real_path(dir, call->options.args[0], &call->err) < 0)
        return NULL;
    json_t *request = json_make("{s:s, s:b}", "dir", dir, "dry_run", 1);
    if (client_post(c, &plan, "/v1/adopt", request, &call->err) < 0) {
        json_decref(plan);
        plan = NULL;
    }
    json_decref(request);
    return plan;
}

/* Exactly what was shown; the mirror has the names of its secrets, our environment their values. */
static json_t *request_of(struct call *call, json_t *plan)
{
    json_t *spec = json_object_get(plan, "spec");
    json_t *secrets = spec_file_secrets(json_object_get(spec, "secrets"), &call->err);
    json_t *environment = secrets ? submitter_environment(&call->err) : NULL;
    if (!environment) {
        json_decref(secrets);
        return NULL;
    }
    return json_make("{s:s, s:b, s:O, s:o, s:o}", "dir", field_text(plan, "dir"), "hold",
                     (int)options_has(&call->options, "hold"), "expect", spec, "secrets", secrets, "environment",
                     environment);
}

static void announce(struct call *call, const json_t *row, const char *dir)
{
    const long long id = json_integer_value(json_object_get(row, "id"));
    if (call->json)
        return;
    if (options_has(&call->options, "quiet"))
        fprintf(call->out.file, "%lld\n", id);
    else
        fprintf(call->out.file, "job %lld (%s) continues from %s\n", id,
                json_string_value(json_object_get(row, "name")), dir);
    fflush(call->out.file);
}

static int wait_for(struct call *call, struct client *c, json_t **row)
{
    json_t *last = NULL;
    int code = job_wait(c, json_integer_value(json_object_get(*row, "id")), -1, &last, &call->err);
    if (code > 0)
        code = job_wait_exit_code(last);
    if (last) {
        json_decref(*row);
        *row = last;
    }
    if (code >= 0 && !call->json && !options_has(&call->options, "quiet"))
        job_wait_print(&call->out, *row);
    return code;
}

static int adopt(struct call *call, struct client *c, json_t *plan)
{
    json_t *answer = NULL, *request = request_of(call, plan);
    int code = -1;
    if (request && client_post(c, &answer, "/v1/adopt", request, &call->err) == 0) {
        json_t *row = json_incref(json_object_get(answer, "job"));
        announce(call, row, field_text(plan, "dir"));
        code = options_has(&call->options, "wait") ? wait_for(call, c, &row) : 0;
        if (code >= 0 && call->json)
            output_json(call, json_make("{s:O}", "job", row));
        json_decref(row);
    }
    json_decref(answer);
    json_decref(request);
    return code;
}

static int run(struct call *call)
{
    struct client *c = NULL;
    json_t *plan = NULL;
    int code = -1;
    if (client_open(&c, true, &call->err) == 0 && (plan = ask_plan(call, c))) {
        if (!call->json && !options_has(&call->options, "quiet"))
            print_plan(call->out.file, plan);
        fflush(call->out.file);
        local_check_print_notes(json_object_get(plan, "notes"));
        if ((code = confirm(call, plan)) > 0)
            code = adopt(call, c, plan);
    }
    json_decref(plan);
    client_close(c);
    return code;
}

const struct command cmd_adopt = {
    .name = "adopt", .args = ARGS_FILE, .words = "DIR", .summary = "continue another machine's job from its mirror",
    .help = "DIR is the job's directory below checkpoint.mirror. The machine that ran the job must have stopped it or "
            "be down: a lease prevents two machines from training one job. Adopting runs that job's commands as you: "
            "they are shown first, and need your consent or --yes.",
    .options = options, .run = run,
};
