/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_daemon.c - `jobctl daemon`: run the controller, start it in the background, stop it
 *
 * Several `jobctl daemon --detach` may run at once: start.lock serializes them.
 * The holder checks for a running daemon and starts one if there is none, so
 * exactly one is started, and each call returns when it answers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/file_system.h"
#include "agent/os/process.h"
#include "agent/os/unix_socket.h"
#include "controller/base/client.h"
#include "controller/base/daemon.h"
#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "controller/cli/job_select.h"
#include "controller/cli/output.h"
#include "controller/job/job_list.h"
#include "controller/job/job_view.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

static const struct option_row options[] = {
    {"detach", 0, OPTION_FLAG, NULL, "run in the background, log to daemon.log; return when it "
                                     "answers"},
    {"ready-fd", 0, OPTION_COUNT, "FD", "write the line \"ready\" to this descriptor once the "
                                        "daemon answers"},
    OPTION_JSON,
    {.name = NULL},
};

enum { NOT_RUNNING = 3 };   /* exit code of `daemon status` */

/* In the child: runs the daemon; sends its error, if any, to the parent. */
static int background(int said)
{
    struct err err = { 0 };
    const struct daemon_options o = { .detach = true, .ready_fd = said };
    setsid();
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        if (null > STDERR_FILENO)
            close(null);
    }
    if (chdir("/") < 0 || daemon_run(&o, &err) < 0) {
        dprintf(said, "%d %s", (int)err.code, err.text);
        return err_exit_code(err.code);
    }
    return 0;
}

static int wait_until_ready(int said, struct err *err)
{
    char words[600];
    size_t n = 0;
    ssize_t got;
    while (n < sizeof(words) - 1 &&
           ((got = read(said, words + n, sizeof(words) - 1 - n)) > 0 || (got < 0 && errno == EINTR)))
        n += got > 0 ? (size_t)got : 0;
    words[n] = 0;
    if (strncmp(words, "ready", 5) == 0)
        return 0;
    char *text = strchr(words, ' ');
    int code = atoi(words);
    return err_set(err, code > ERR_NONE && code <= ERR_BUG ? (enum err_code)code : ERR_SYSTEM, "%s",
                   text ? text + 1 : "the daemon ended before it could answer; see the end of daemon.log");
}

static int start_lock(struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX];
    if (home_dir(dir, sizeof(dir), err) < 0 || home_path(path, sizeof(path), "start.lock", err) < 0)
        return -1;
    if (scratch_mkdirs(dir, err) < 0)
        return err_prefix(err, "the state directory (JOBCTL_HOME): ");
    int fd = safe_open(path, O_RDWR | O_CREAT, NULL);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "cannot open %s: %m", path);
    if (flock(fd, LOCK_EX) < 0) {
        file_system_lock_error(err, path, errno);
        close(fd);
        return -1;
    }
    return fd;
}

static int detach(struct err *err)
{
    char socket[PATH_MAX];
    int said[2] = { -1, -1 }, rc = -1, lock = start_lock(err);
    if (lock < 0 || home_path(socket, sizeof(socket), HOME_SOCKET, err) < 0)
        goto out;
    int fd = unix_socket_connect(socket, true, NULL);
    if (fd >= 0) {
        close(fd);
        rc = 0;
        goto out;
    }
    if (pipe2(said, O_CLOEXEC) < 0) {
        err_set(err, ERR_SYSTEM, "cannot create a pipe: %m");
        goto out;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(lock);        /* the parent keeps the lock */
        close(said[0]);
        _exit(background(said[1]));
    }
    close(said[1]);
    said[1] = -1;
    rc = pid < 0 ? err_set(err, ERR_SYSTEM, "cannot fork: %m") : wait_until_ready(said[0], err);
    if (rc < 0 && pid > 0)
        waitpid(pid, NULL, 0);
out:
    for (int i = 0; i < 2; i++)
        if (said[i] >= 0)
            close(said[i]);
    if (lock >= 0)
        close(lock);
    return rc;
}

static int run_daemon(struct call *call)
{
    const struct daemon_options o = { .ready_fd = (int)options_count(&call->options, "ready-fd", -1) };
    if (o.ready_fd >= 0 && fcntl(o.ready_fd, F_GETFD) < 0)
        return err_set(&call->err, ERR_USAGE, "--ready-fd: descriptor %d is not open", o.ready_fd);
    if (options_has(&call->options, "detach"))
        return detach(&call->err);
    return daemon_run(&o, &call->err);
}

/* ---- stop, restart, status ---- */

enum { STOP_WITHIN_S = 60, LOOK_MS = 20 };

/* A running daemon's connection and its own description, which the caller frees; both NULL: none runs. */
static int running(struct client **c, json_t **version, struct err *err)
{
    struct err none = { 0 };
    client_open(c, false, &none);
    if (!*c || client_get(*c, version, err, "/v1/version") == 0)
        return 0;
    client_close(*c);
    client_open(c, false, &none); /* it may just have ended */
    return *c ? -1 : 0;
}

/* Also where nobody reaps it, as in a container whose first process does not care. */
static bool has_ended(pid_t pid)
{
    const char state = process_state(pid);
    return state == 0 || state == 'Z' || state == 'X';
}

static int wait_for_end(pid_t pid, struct err *err)
{
    const double end = clock_s() + STOP_WITHIN_S;
    while (!has_ended(pid)) {
        if (clock_s() > end)
            return err_set(err, ERR_SYSTEM, "the daemon (pid %d) has not ended within %d s; see daemon.log in its home",
                           (int)pid, STOP_WITHIN_S);
        poll(NULL, 0, LOOK_MS);
    }
    return 0;
}

/* 1: stopped; 0: none ran. */
static int stop(struct call *call, struct client *c, const json_t *version)
{
    json_t *answer = NULL, *body = json_object();
    const pid_t pid = (pid_t)json_integer_value(json_object_get(version, "pid"));
    int rc = 0;
    if (version && client_post(c, &answer, "/v1/shutdown", body, &call->err) < 0)
        rc = -1;
    else if (version)
        rc = wait_for_end(pid, &call->err) < 0 ? -1 : 1;
    json_decref(answer);
    json_decref(body);
    return rc;
}

static int do_stop(struct call *call, struct client *c, json_t *version)
{
    const int rc = stop(call, c, version);
    if (rc >= 0)
        fprintf(call->out.file, "The daemon %s.\n", rc > 0 ? "has stopped; jobs continue, and the next command starts it "
                                                            "again" : "is not running");
    return rc < 0 ? -1 : 0;
}

static int do_restart(struct call *call, struct client *c, json_t *version)
{
    const int rc = stop(call, c, version);
    if (rc < 0 || detach(&call->err) < 0)
        return -1;
    fprintf(call->out.file, "The daemon %s; jobs continue.\n",
            rc > 0 ? "was restarted" : "was not running; it is started");
    return 0;
}

static int print_status(struct call *call, struct client *c, const json_t *version)
{
    char since[JOB_CELL], totals[200];
    json_t *jobs;
    if (job_select_active(c, &jobs, &call->err) < 0)
        return -1;
    job_list_totals(totals, sizeof(totals), jobs);
    json_decref(jobs);
    job_view_local(since, sizeof(since), field_text(version, "started_at"));
    fprintf(call->out.file, "daemon %s has been running since %s, pid %lld\n  home  %s\n  jobs  %s\n",
            field_text(version, "version"), since, (long long)json_integer_value(json_object_get(version, "pid")),
            field_text(version, "home"), totals[0] ? totals : "none active");
    return 0;
}

static int do_status(struct call *call, struct client *c, json_t *version)
{
    int rc = version ? 0 : NOT_RUNNING;
    json_object_del(version, "schema");
    if (call->json)
        output_json(call, json_make("{s:O?}", "daemon", version));
    else if (version)
        rc = print_status(call, c, version);
    else
        fprintf(call->out.file, "The daemon is not running; the next command starts it.\n");
    return rc;
}

static int run(struct call *call)
{
    static const struct {
        const char *word;
        int       (*run)(struct call *call, struct client *c, json_t *version);
    } orders[] = { { "stop", do_stop }, { "restart", do_restart }, { "status", do_status } };
    const char *word = call->options.nargs ? call->options.args[0] : "";
    if (!word[0])
        return run_daemon(call);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct client *c = NULL;
        json_t *version = NULL;
        if (strcmp(orders[i].word, word) != 0)
            continue;
        if (options_has(&call->options, "detach") || options_has(&call->options, "ready-fd"))
            return err_set(&call->err, ERR_USAGE, "daemon %s takes neither --detach nor --ready-fd", word);
        const int rc = running(&c, &version, &call->err) < 0 ? -1 : orders[i].run(call, c, version);
        client_close(c);
        json_decref(version);
        return rc;
    }
    return err_set(&call->err, ERR_USAGE, "unknown word \"%.40s\"; use jobctl daemon stop, restart or status, or "
                   "jobctl daemon alone to run it", word);
}

const struct command cmd_daemon = {
    .name = "daemon", .group = GROUP_SETUP,
    .where = COMMAND_THERE, .args = ARGS_WORD,
    .words = "[stop|restart|status]",
    .summary = "run the controller, which the other commands talk to",
    .help = "Runs in the foreground and logs to stderr. Other commands start the daemon if it is not running. SIGTERM "
            "and `daemon stop` stop it; jobs keep running, and the next daemon reconnects to them. `daemon status` "
            "starts no daemon and exits with 3 if none runs; it accepts --json.",
    .options = options,
    .run = run,
};
