/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_shell.c - jobctl shell: a shell or a command beside a rank, with its directory and environment */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/process.h"
#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

/* ---- the process of a rank on this machine ---- */

struct rank_process {
    int64_t pid;
    char  **env;   /* as the rank got it, ended by NULL */
    char   *block; /* of the texts */
};

/* The whole of /proc/PID/environ with a 0 behind it; NULL: another user's, or gone. */
static char *read_environ(int64_t pid, size_t *n)
{
    char path[64], *text = NULL;
    snprintf(path, sizeof(path), "/proc/%" PRId64 "/environ", pid);
    FILE *f = fopen(path, "re");
    size_t room = 0;
    *n = 0;
    while (f) {
        char *more = *n == room ? realloc(text, (room = room ? 2 * room : 16384) + 1) : text;
        if (!more)
            break;
        text = more;
        const size_t k = fread(text + *n, 1, room - *n, f);
        *n += k;
        if (k == 0)
            break;
    }
    if (f)
        fclose(f);
    if (text)
        text[*n] = '\0';
    return text;
}

static bool has(const char *text, size_t n, const char *entry)
{
    for (const char *p = text; p < text + n; p += strlen(p) + 1)
        if (strcmp(p, entry) == 0)
            return true;
    return false;
}

/* Field 22 of /proc/PID/stat: when it was started, in ticks; 0: gone. */
static unsigned long long started(int64_t pid)
{
    char text[1024];
    const char *p = strrchr(process_text(text, sizeof(text), pid, "stat"), ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

/* The texts as a list. -1: no memory. */
static int split(struct rank_process *p, size_t n)
{
    size_t count = 0;
    for (size_t at = 0; at < n; at += strlen(p->block + at) + 1)
        count++;
    if (!(p->env = calloc(count + 1, sizeof(*p->env))))
        return -1;
    count = 0;
    for (size_t at = 0; at < n; at += strlen(p->block + at) + 1)
        p->env[count++] = p->block + at;
    return 0;
}

/* The oldest process of this user that has JOBCTL_NONCE=nonce and RANK=rank: the rank's command itself.
 * ERR_NOT_FOUND: there is none here. Free with rank_process_fini(). */
static int rank_process_find(struct rank_process *out, const char *nonce, int64_t rank, struct err *err)
{
    char mine[96], number[32];
    unsigned long long oldest = 0;
    size_t n, size = 0;
    *out = (struct rank_process){0};
    snprintf(mine, sizeof(mine), "JOBCTL_NONCE=%s", nonce);
    snprintf(number, sizeof(number), "RANK=%" PRId64, rank);
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const int64_t pid = strtoll(e->d_name, NULL, 10);
        char *text = pid > 0 ? read_environ(pid, &n) : NULL;
        const unsigned long long at = text && has(text, n, mine) && has(text, n, number) ? started(pid) : 0;
        if (at && (!oldest || at < oldest || (at == oldest && pid < out->pid))) {
            char *before = out->block;
            *out = (struct rank_process){.pid = pid, .block = text};
            text = before;
            oldest = at;
            size = n;
        }
        free(text);
    }
    if (dir)
        closedir(dir);
    if (!oldest)
        return err_set(err, ERR_NOT_FOUND, "no process of rank %" PRId64 " runs on this machine", rank);
    return split(out, size) < 0 ? err_set(err, ERR_MEMORY, "out of memory for a rank's environment") : 0;
}

static void rank_process_fini(struct rank_process *p)
{
    free(p->env);
    free(p->block);
    *p = (struct rank_process){0};
}

/* ---- the command ---- */

static const struct option_row options[] = {
    {"rank", 0, OPTION_COUNT, "N", "the rank whose environment to use (default 0)"},
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
    err_set(err, ERR_CONFLICT, "job %" JSON_INTEGER_FORMAT " (%s) is %s: a shell needs a running rank",
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
        return err_set_errno(err, errno, "cannot enter the rank's directory");
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
    .summary = "run a shell, or a command, in a rank's directory and environment",
    .help = "Example: jobctl shell 3 -- nvidia-smi. The rank must run on this machine. The environment is the rank's "
            "own, with its devices and its secrets. The exit code is the shell's or command's.",
    .options = options, .run = run,
};
