/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_shell.c - jobctl shell: a shell or a command beside a rank, with its directory and environment */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/watch/rank_process.h"
#include "engine/base/field.h"

static const struct option_row options[] = {
    {"rank", 0, OPTION_COUNT, "N", "the rank whose environment it gets; 0 if left out"},
    {.name = NULL},
};

/* The newest attempt of a job that runs; NULL with an error for another one. */
static const json_t *running_attempt(const json_t *answer, struct err *err)
{
    const json_t *job = json_object_get(answer, "job"), *attempts = json_object_get(answer, "attempts");
    const json_t *newest = json_array_get(attempts, json_array_size(attempts) - 1);
    const char *state = field_text(job, "state");
    if (newest && strcmp(state, "running") == 0)
        return newest;
    err_set(err, ERR_CONFLICT, "job %" JSON_INTEGER_FORMAT " (%s) is %s: a shell needs a rank that runs",
            json_integer_value(json_object_get(job, "id")), field_text(job, "name"),
            strcmp(state, "done") == 0 ? field_text(job, "result") : state);
    return NULL;
}

/* Of a rank that is not here: what the user can type. */
static int elsewhere(const json_t *answer, const json_t *attempt, int64_t rank, struct err *err)
{
    const json_t *job = json_object_get(answer, "job"), *np = json_object_get(job, "np");
    const char *launch = field_text(json_object_get(answer, "spec"), "launch"), *node = field_text(attempt, "node");
    if (json_is_integer(np) && rank >= json_integer_value(np))
        return err_set(err, ERR_USAGE, "--rank %" PRId64 ": the job has %" JSON_INTEGER_FORMAT " ranks, 0 to %"
                       JSON_INTEGER_FORMAT, rank, json_integer_value(np), json_integer_value(np) - 1);
    if (strcmp(launch, "ssh") == 0)
        return err_set(err, ERR_CONFLICT, "rank %" PRId64 " runs on another machine (the job's first is %s): log in "
                       "there with ssh", rank, node);
    if (strcmp(launch, "slurm") == 0)
        return err_set(err, ERR_CONFLICT, "rank %" PRId64 " runs in a Slurm allocation (its first node is %s): srun "
                       "--overlap --pty --jobid=ID bash, with the ID that jobctl show prints", rank, node);
    return err_set(err, ERR_NOT_FOUND, "no process of rank %" PRId64 " runs on this machine: the rank may be "
                   "restarting; see jobctl status", rank);
}

/* The rank's environment, with the terminal that the user sits at. */
static void take_environment(char **env)
{
    char term[128];
    const char *own = getenv("TERM");
    snprintf(term, sizeof(term), "%s", own && *own ? own : "xterm");
    environ = env;
    setenv("TERM", term, 1);
}

/* Does not return, unless it fails. */
static int become(struct rank_process *p, char **words, struct err *err)
{
    char cwd[64];
    snprintf(cwd, sizeof(cwd), "/proc/%" PRId64 "/cwd", p->pid);
    if (chdir(cwd) < 0)
        return err_set_errno(err, errno, "cannot enter the directory of the rank");
    char **before = environ;
    take_environment(p->env);
    const char *own = getenv("SHELL");
    char *shell[] = {(char *)(uintptr_t)(own && *own ? own : "/bin/sh"), NULL};
    char **command = words[0] ? words : shell;
    execvp(command[0], command);
    environ = before;
    return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, "%s cannot be run: %s", command[0],
                   strerror(errno));
}

static int run(struct call *call)
{
    const int64_t rank = options_count(&call->options, "rank", 0);
    struct rank_process process = {0};
    json_t *answer;
    if (client_ask_job(&answer, call->options.args[0], "", &call->err) < 0)
        return -1;
    const json_t *attempt = running_attempt(answer, &call->err);
    if (attempt && rank_process_find(&process, field_text(attempt, "nonce"), rank, NULL) < 0)
        elsewhere(answer, attempt, rank, &call->err);
    json_decref(answer);
    call->options.args[call->options.nargs] = NULL; /* a word that was moved may stand there */
    if (call->err.code == ERR_NONE)
        become(&process, call->options.args + 1, &call->err);
    rank_process_fini(&process);
    return -1;
}

const struct command cmd_shell = {
    .name = "shell", .group = GROUP_MACHINES, .where = COMMAND_THERE,
    .args = ARGS_JOB_COMMAND, .words = "JOB [-- COMMAND...]",
    .summary = "a shell, or a command, in the directory and environment of a rank",
    .help = "Example: jobctl shell 3 -- nvidia-smi. The rank must run on this machine. The environment is the rank's "
            "own, with its devices and its secrets. The exit code is that of the shell or command.",
    .options = options, .run = run,
};
