/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_run.c - jobctl run: a command as a job, without a file */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/submit/command_text.h"
#include "controller/submit/local_check.h"
#include "controller/submit/send_job.h"
#include "controller/submit/spec_file.h"
#include "engine/base/json_make.h"

static const struct option_row options[] = {
    {"ranks", 'n', OPTION_COUNT_AUTO, "N", "processes per node (resources.ranks); default auto: one per GPU, or 1 without GPUs"},
    {"gpus", 'g', OPTION_COUNT_AUTO, "N", "GPUs per node (resources.gpus); default: one per rank, if there are any; auto: all that are free; 0: none"},
    {"name", 'N', OPTION_TEXT, "NAME", "the job's name; default: the name of the script or program"},
    {"set", 's', OPTION_LIST, "KEY=VALUE", "another key of the spec: --set max_duration=2h"},
    {"after", 0, OPTION_TEXT, "JOBS", "start once these have succeeded: 7,prep; afterany:7: ended; afternotok:7: "
                                      "failed"},
    {"detach", 'd', OPTION_FLAG, NULL, "return once the job is stored; do not follow it"},
    {"key", 0, OPTION_TEXT, "KEY", "repeat an interrupted run safely: one key and command give one job"},
    {"quiet", 'q', OPTION_FLAG, NULL, "print the command's output only; with -d, the id only"},
    OPTION_JSON,
    {.name = NULL},
};

/* A job file is not a command, although it may be meant. */
static int check_file(struct call *call)
{
    const char *word = call->options.args[0], *dot = strrchr(word, '.');
    if (call->options.nargs > 1 || !dot || (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0) ||
        access(word, F_OK) < 0 || access(word, X_OK) == 0)
        return 0;
    return err_set(&call->err, ERR_USAGE, "run takes a command, but %.200s is a job file; use jobctl submit %.200s "
                   "--follow", word, word);
}

/* The text was made here: its lines tell the user nothing. */
static void forget_lines(struct call *call)
{
    for (int i = 0; i < call->found.count; i++)
        call->found.list[i].line = 0;
}

/* The notes of local_check() are appended to `notes`. NULL on failure, with call->err set. */
static json_t *make_request(struct call *call, json_t *notes)
{
    const struct options *o = &call->options;
    const struct command_wish wish = {
        .name = options_text(o, "name"), .ranks = options_count(o, "ranks", COMMAND_AUTO),
        .gpus = options_count(o, "gpus", options_text(o, "gpus") ? COMMAND_AUTO : COMMAND_ONE)};
    json_t *request = NULL, *spec = NULL;
    const char *set[OPTIONS_LIST + 1];
    char after[AFTER_TEXT];
    const int nset = check_file(call) < 0 ? -1 : spec_file_set(call, set, after);
    if (nset < 0)
        return NULL;
    char *text = command_text_spec(&wish, (const char *const *)o->args, o->nargs, &call->err);
    if (text && (spec_file_text_request(call, text, "-", set, nset, &request, &spec) < 0 ||
                 local_check(call, request, spec, notes) < 0)) {
        forget_lines(call);
        json_decref(request);
        request = NULL;
    }
    json_decref(spec);
    free(text);
    return request;
}

static int run(struct call *call)
{
    const bool detach = options_has(&call->options, "detach");
    const struct send_wish wish = {.quiet = options_has(&call->options, "quiet"), .output = true, .follow = !detach,
                                   .ask = true, .key = options_text(&call->options, "key")};
    struct client *c = NULL;
    json_t *row = NULL, *notes = json_array(), *request = make_request(call, notes);
    int code = -1;
    if (request && client_open(&c, true, &call->err) == 0)
        code = send_job(call, c, request, notes, &wish, &row);
    if (code >= 0 && call->json)
        output_json(call, json_make("{s:O}", "job", row));
    client_close(c);
    json_decref(row);
    json_decref(notes);
    json_decref(request);
    return code;
}

const struct command cmd_run = {
    .name = "run", .group = GROUP_START, .args = ARGS_COMMAND,
    .summary = "run a command as a job, without a file, and follow it",
    .help = "The words are passed to the command unchanged; NAME=VALUE in front of it sets a variable. A single word "
            "is a shell command line: jobctl run 'make && ./train'. The job runs in the current directory and does not "
            "read from the terminal. Ctrl-C asks whether to leave the job running or to cancel it; without a terminal, "
            "and after SIGTERM, the job keeps running, and the exit code is 130. Otherwise the exit code is the job's: "
            "0 succeeded, 1 failed, 3 cancelled, 93 retry limit reached (do not requeue).",
    .options = options, .run = run,
};
