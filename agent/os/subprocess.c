/* SPDX-License-Identifier: Apache-2.0 */
/* subprocess.c - see subprocess.h */
#include "agent/os/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads both outputs to their end; -1: timed out. */
static int read_both(const int fd[ASK_OUTPUTS], struct buf out[ASK_OUTPUTS], int wait_ms)
{
    struct pollfd p[ASK_OUTPUTS] = {{.fd = fd[0], .events = POLLIN}, {.fd = fd[1], .events = POLLIN}};
    char piece[4096];
    for (int open = ASK_OUTPUTS; open > 0;) {
        int rc = poll(p, ASK_OUTPUTS, wait_ms);
        if (rc == 0 || (rc < 0 && errno != EINTR))
            return -1;
        for (int i = 0; i < ASK_OUTPUTS; i++) {
            ssize_t n = p[i].fd >= 0 && p[i].revents ? read(p[i].fd, piece, sizeof(piece)) : -1;
            if (n > 0)
                buf_append(&out[i], piece, (size_t)n);
            if (n == 0) {
                p[i].fd = -1;
                open--;
            }
        }
    }
    return 0;
}

int subprocess_run_with(char *const argv[], char *const env[], struct buf out[ASK_OUTPUTS],
                        int wait_ms)
{
    int pipes[ASK_OUTPUTS][2], status = 0;
    if (pipe2(pipes[0], O_CLOEXEC) < 0)
        return -1;
    if (pipe2(pipes[1], O_CLOEXEC) < 0) {
        close(pipes[0][0]);
        close(pipes[0][1]);
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[0][1], 1);
        dup2(pipes[1][1], 2);
        for (; *env; env++)
            putenv(*env);
        execv(argv[0], argv);
        _exit(127);
    }
    for (int i = 0; i < ASK_OUTPUTS; i++)
        close(pipes[i][1]);
    int rc = pid < 0 ? -1 : read_both((int[]){pipes[0][0], pipes[1][0]}, out, wait_ms);
    if (pid > 0 && rc < 0)
        kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < ASK_OUTPUTS; i++)
        close(pipes[i][0]);
    return rc == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int subprocess_run(char *const argv[], struct buf out[ASK_OUTPUTS], int wait_ms)
{
    return subprocess_run_with(argv, (char *[]){NULL}, out, wait_ms);
}

const char *subprocess_text(const struct buf *b)
{
    return b->data ? b->data : "";
}
