/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_daemon.c - `jobctl daemon`: run the controller, or start it in the background
 *
 * Several `jobctl daemon --detach` may run at once: start.lock serializes them.
 * The holder checks for a running daemon and starts one if there is none, so
 * exactly one is started, and each call returns when it answers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/file_system.h"
#include "agent/os/unix_socket.h"
#include "controller/base/daemon.h"
#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "engine/contract/err.h"
#include "engine/contract/safe_open.h"
#include "engine/contract/scratch.h"

static const struct option_row options[] = {
    {"detach", 0, OPTION_FLAG, NULL, "run in the background, log to daemon.log; return when it "
                                     "answers"},
    {"ready-fd", 0, OPTION_COUNT, "FD", "write the line \"ready\" to this descriptor once the "
                                        "daemon answers"},
    {.name = NULL},
};

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
                   text ? text + 1 : "the daemon died before it could answer");
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

static int run(struct call *call)
{
    const struct daemon_options o = { .ready_fd =
                                          (int)options_count(&call->options, "ready-fd", -1) };
    if (o.ready_fd >= 0 && fcntl(o.ready_fd, F_GETFD) < 0)
        return err_set(&call->err, ERR_USAGE, "--ready-fd: descriptor %d is not open", o.ready_fd);
    if (options_has(&call->options, "detach"))
        return detach(&call->err);
    return daemon_run(&o, &call->err);
}

const struct command cmd_daemon = {
    .name = "daemon",
    .args = ARGS_NONE,
    .summary = "run the controller, which the other commands talk to",
    .help = "Runs in the foreground and logs to stderr. Other commands start the daemon if it is "
            "not "
            "running. SIGTERM stops it; jobs keep running, and the next daemon reconnects to them.",
    .options = options,
    .run = run,
};
