/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - jobctl: finds the command's row, parses its options, runs it, prints errors */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/far_host.h"
#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/help/command_list.h"
#include "controller/manage/far_command.h"
#include "controller/spec/spec_suggest.h"
#include "engine/base/err.h"
#include "engine/base/json_memory.h"

/* How many arguments each kind takes. */
static int check_args(struct call *call)
{
    static const struct {
        int         least, most;
        const char *what;
    } counts[] = {
        [ARGS_NONE] = {0, 0, "no argument"},
        [ARGS_FILE] = {1, 1, "one FILE"},
        [ARGS_FILE_OR_NONE] = {0, 1, "at most one FILE"},
        [ARGS_FILE_OR_JOB] = {1, 1, "one FILE, or one JOB: an id, a name, or last"},
        [ARGS_JOB] = {1, 1, "one JOB: an id, a name, or last"},
        [ARGS_JOB_COMMAND] = {1, 100000, "one JOB, and a command after --"},
        [ARGS_JOBS] = {1, 1000, "at least one JOB: an id, a range such as 3-5, a name, or last"},
        [ARGS_JOBS_OR_NONE] = {0, 1000, "JOBs"},
        [ARGS_COMMAND] = {1, 100000, "a command after its own options: run -- python train.py"},
        [ARGS_FILES] = {1, 1000, "at least one FILE; - is standard input"},
        [ARGS_WORD] = {0, 1, "at most one word"},
        [ARGS_WORDS] = {0, 1000, "words"},
    };
    int n = call->options.nargs;
    enum command_args kind = call->command->args;
    if (n >= counts[kind].least && n <= counts[kind].most)
        return 0;
    return err_set(&call->err, ERR_USAGE, "%s takes %s; see jobctl help %s", call->command->name,
                   counts[kind].what, call->command->name);
}

static bool wants_json(const struct call *call)
{
    const char *mode = getenv("JOBCTL_OUTPUT");
    for (int i = 0; call->command->options[i].name; i++)
        if (strcmp(call->command->options[i].name, "json") == 0)
            return call->options.given[i] || (mode && strcmp(mode, "json") == 0);
    return false;
}

static int fail(const struct err *err)
{
    fprintf(stderr, "jobctl: %s\n", err->text);
    return err_exit_code(err->code);
}

static char **copy_words(int argc, char **argv)
{
    char **copy = calloc((size_t)argc + 1, sizeof(*copy));
    if (copy)
        memcpy(copy, argv, (size_t)argc * sizeof(*copy));
    return copy;
}

/* Does it run on the machine of -H? */
static bool runs_there(const struct call *call)
{
    const struct command *c = call->command;
    return far_host_name() && (c->where == COMMAND_THERE || (c->there && options_has(&call->options, c->there)));
}

static int run_command(const struct command *command, int argc, char **argv)
{
    static const struct build build = {JOBCTL_COMMIT, JOBCTL_DATE};
    struct call call = {.command = command, .build = &build};
    char **before = copy_words(argc, argv); /* options_parse() moves them */
    if (!before) {
        err_set(&call.err, ERR_MEMORY, "out of memory");
        return fail(&call.err);
    }
    terminal_init(&call.out, stdout);
    int code = options_parse(&call.options, command->options,
                             command->args == ARGS_COMMAND ? OPTIONS_FIRST : OPTIONS_MIXED, argc, argv, &call.err);
    call.json = wants_json(&call);
    if (code == 0 && call.options.help) {
        char *words[] = {(char *)(uintptr_t)command->name, NULL};
        free(before);
        return run_command(&cmd_help, 1, words);
    }
    if (code == 0 && (code = check_args(&call)) == 0)
        code = runs_there(&call) ? far_command_run(&call, argc, before) : command->run(&call);
    free(before);
    if (code >= 0 && output_finish(&call) < 0)
        code = -1;
    return code < 0 ? output_failure(&call) : code;
}

/* What other tools call it. */
static const char *elsewhere(const char *name)
{
    static const char *const words[][2] = {
        {"stop", "cancel"}, {"kill", "cancel"}, {"scancel", "cancel"}, {"ps", "status"}, {"top", "status"},
        {"list", "status"}, {"queue", "status"}, {"squeue", "status"}, {"info", "show"}, {"describe", "show"},
        {"history", "logs --events"}, {"events", "logs --events"}, {"tail", "logs -f"}, {"metrics", "show --metrics"},
        {"curves", "show --metrics"}, {"report", "show --report"}, {"pause", "hold"}, {"release", "hold --off"},
        {"delete", "remove"}, {"clean", "prune"}, {"restart", "retry"}, {"resume", "retry"}, {"train", "submit"},
        {"start", "submit"}, {"sbatch", "submit"}, {"watch", "status --watch"},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(name, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}

static int unknown_command(const char *name)
{
    char near[64] = "";
    int best = 3;
    if (elsewhere(name)) {
        best = 0;
        snprintf(near, sizeof(near), "did you mean %s?", elsewhere(name));
    }
    for (const struct command *const *c = command_list(); *c; c++) {
        int d = spec_distance((*c)->name, name);
        if (d < best) {
            best = d;
            snprintf(near, sizeof(near), "did you mean %s?", (*c)->name);
        }
    }
    fprintf(stderr, "jobctl: unknown command \"%.40s\"; %s\n", name, near[0] ? near : "jobctl help lists the commands");
    return err_exit_code(ERR_USAGE);
}

/* -H HOST, -HHOST, --host HOST, --host=HOST before the command; returns how many words that were, or -1. */
static int take_host(int argc, char **argv, struct err *err)
{
    const char *word = argc > 1 ? argv[1] : "", *host = getenv("JOBCTL_HOST");
    const bool spaced = strcmp(word, "-H") == 0 || strcmp(word, "--host") == 0;
    int used = 0;
    if (spaced && argc < 3)
        return err_set(err, ERR_USAGE, "%s needs a host: jobctl %s me@login.example.org status", word, word);
    if (spaced) {
        host = argv[2];
        used = 2;
    } else if (strncmp(word, "-H", 2) == 0 || strncmp(word, "--host=", 7) == 0) {
        host = word + (word[1] == 'H' ? 2 : 7);
        used = 1;
    }
    return far_host_set(host, err) < 0 ? -1 : used;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    json_memory_open("jobctl", err_exit_code(ERR_MEMORY));
    const int used = take_host(argc, argv, &err);
    if (used < 0)
        return fail(&err);
    argc -= used;
    argv += used;
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0)
        name = "help";
    if (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0)
        name = "version";
    const struct command *command = command_find(name);
    if (!command)
        return unknown_command(name);
    if (command->where == COMMAND_HERE && (used == 0 || command != &cmd_relay)) /* $JOBCTL_HOST there leads no further */
        far_host_set(NULL, NULL);
    if (home_settle(&err) < 0)
        return fail(&err);
    if (command->raw)
        return command->raw(argc - 1, argv + 1);
    return run_command(command, argc > 2 ? argc - 2 : 0, argv + 2);
}
