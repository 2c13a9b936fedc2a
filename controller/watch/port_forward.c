/* SPDX-License-Identifier: Apache-2.0 */
/* port_forward.c - see port_forward.h */
#include "controller/watch/port_forward.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/tcp_listen.h"
#include "controller/base/far_host.h"
#include "engine/base/err.h"
#include "engine/base/write_all.h"

enum { PIECE = 64 * 1024, CONNECTIONS = 32 };

int port_forward_listen(int port, struct err *err)
{
    char at[TCP_LISTEN_TEXT], bound[TCP_LISTEN_TEXT];
    snprintf(at, sizeof(at), "127.0.0.1:%d", port);
    const int fd = tcp_listen(bound, at, err);
    if (fd >= 0)
        return fd;
    return err_set(err, ERR_CONFLICT, "port %d, at which the dashboard of %.100s listens there, is not free here: run "
                   "`jobctl -H %.100s daemon restart`, then this with --port and another one", port, far_host_name(),
                   far_host_name());
}

/* Copies once; false: an end. */
static bool copy(int from, int to)
{
    char bytes[PIECE];
    const ssize_t n = read(from, bytes, sizeof(bytes));
    return (n < 0 && errno == EINTR) || (n > 0 && write_all(to, bytes, (size_t)n) == 0);
}

static void pass(int near, int far)
{
    for (bool on = true; on;) {
        struct pollfd fds[2] = { { .fd = near, .events = POLLIN }, { .fd = far, .events = POLLIN } };
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents)
            on = copy(far, near);
        if (on && fds[0].revents)
            on = copy(near, far);
    }
}

/* The process of one connection. It ends with its parent, and its session with it. */
static void serve(int near, int port, pid_t parent)
{
    struct err err = { 0 };
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
        _exit(1);
    const int far = far_host_connect_port(port, &err);
    if (far < 0)
        fprintf(stderr, "jobctl: %s\n", err.text);
    else
        pass(near, far);
    _exit(far < 0);
}

static int reap(int alive)
{
    while (alive > 0 && waitpid(-1, NULL, WNOHANG) > 0)
        alive--;
    return alive;
}

void port_forward_run(int listener, int port, const volatile int *stop)
{
    const pid_t self = getpid();
    int alive = 0;
    while (!*stop) {
        struct pollfd fd = { .fd = listener, .events = POLLIN };
        alive = reap(alive);
        if (poll(&fd, alive < CONNECTIONS, 1000) <= 0 || alive >= CONNECTIONS)
            continue;
        const int near = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        const pid_t child = near < 0 ? -1 : fork();
        if (child == 0)
            serve(near, port, self);
        alive += child > 0;
        if (near >= 0)
            close(near);
    }
    close(listener);
}
