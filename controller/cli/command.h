/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - one row per command, read by parsing, help and completion
 *
 * A command returns its exit code, or -1 with call->err set: main() then prints
 * the error and chooses the exit code.  cmd_*.c have no headers: their rows are
 * declared here and listed in command_list.c.
 */
#ifndef CONTROLLER_CLI_COMMAND_H
#define CONTROLLER_CLI_COMMAND_H

#include <stdbool.h>

#include "controller/base/diagnostics.h"
#include "controller/base/terminal.h"
#include "controller/cli/options.h"
#include "engine/base/err.h"

/* The kind of arguments a command takes, for help and completion. */
enum command_args { ARGS_NONE, ARGS_COMMAND, ARGS_FILE, ARGS_FILES, ARGS_FILE_OR_JOB, ARGS_FILE_OR_NONE, ARGS_JOB,
                    ARGS_JOB_COMMAND, ARGS_JOBS, ARGS_JOBS_OR_NONE, ARGS_WORD, ARGS_WORDS };

/* Where help lists a command: in a group of the short list, behind `help --all` only, or nowhere. */
enum command_group { GROUP_MORE, GROUP_START, GROUP_WATCH, GROUP_EXPLAIN, GROUP_CHANGE, GROUP_MACHINES, GROUP_SETUP,
                     GROUP_HIDDEN };

/* What -H HOST means to a command. */
enum command_where {
    COMMAND_ASKS,       /* runs here; its requests and checks go to HOST */
    COMMAND_THERE,      /* runs on HOST, with the text of its file */
    COMMAND_HERE        /* nothing */
};

enum { COMMAND_TIMEOUT = 124 }; /* exit code of `wait --timeout` */

struct call;

struct command {
    const char              *name;
    const char              *aliases;   /* separated by |, or NULL */
    enum command_args        args;
    const char              *words;     /* the arguments in the usage line; NULL: from `args` */
    const char              *summary;   /* one line */
    const char              *help;      /* paragraphs, or NULL */
    const struct option_row *options;   /* ends with a NULL name */
    int                    (*run)(struct call *call);
    int                    (*raw)(int argc, char **argv); /* instead of run: parses argv itself */
    enum command_where       where;
    const char              *there;     /* the option that makes it run on HOST, or NULL */
    enum command_group       group;
};

/* What this program was built from; "" if unknown. Only main.c is recompiled for each commit. */
struct build {
    const char *commit, *date;          /* date: 2026-01-31 */
};

struct call {
    const struct command *command;
    const struct build   *build;
    struct options        options;
    struct terminal       out;
    bool                  json;         /* --json or JOBCTL_OUTPUT=json */
    struct err            err;
    /* all mistakes in the spec in `file`; err is the first */
    char                  file[512];
    struct diagnostics    found;
};

extern const struct command cmd_submit, cmd_run, cmd_status, cmd_show, cmd_logs, cmd_cancel, cmd_wait,
    cmd_retry, cmd_edit, cmd_hold, cmd_checkpoint, cmd_shell, cmd_why, cmd_plan, cmd_dashboard, cmd_render, cmd_doctor,
    cmd_export, cmd_verify_data, cmd_verify_resume, cmd_drill, cmd_nodes, cmd_notify, cmd_daemon, cmd_diff, cmd_adopt,
    cmd_best, cmd_fetch, cmd_relay, cmd_remove, cmd_prune, cmd_version, cmd_help, cmd_completions;

/* "submit FILE [options]" */
void command_usage(char *out, size_t size, const struct command *command);

#endif
