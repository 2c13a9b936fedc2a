/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_dashboard.c - jobctl dashboard: opens the dashboard in a browser, by a file that leads there
 *
 * The token is not in any program's arguments, where other users could read it: the browser opens the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "agent/os/tcp_listen.h"
#include "controller/base/client.h"
#include "controller/base/far_host.h"
#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "controller/cli/interrupt.h"
#include "controller/cli/output.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"
#include "engine/base/write_all.h"

/* ---- a port of this machine that leads to the same port of the far host ---- */

enum { PIECE = 64 * 1024, CONNECTIONS = 32 };

/* Listens on 127.0.0.1; the descriptor, or -1. */
static int port_forward_listen(int port, struct err *err)
{
    char at[TCP_LISTEN_TEXT], bound[TCP_LISTEN_TEXT];
    snprintf(at, sizeof(at), "127.0.0.1:%d", port);
    const int fd = tcp_listen(bound, at, err);
    if (fd >= 0)
        return fd;
    return err_set(err, ERR_CONFLICT, "port %d, on which the dashboard of %.100s listens, is in use on this machine: "
                   "run `jobctl -H %.100s daemon restart`, then this command with another --port", port,
                   far_host_name(), far_host_name());
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

/* Until *stop is set: each connection is a process of its own with a session of its own, which end with this one. */
static void port_forward_run(int listener, int port, const volatile int *stop)
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

/* ---- the command ---- */

#define LINK_FILE "dashboard.html"

static const struct option_row options[] = {
    {"frame", 0, OPTION_TEXT, "SITE", "let this site show the page in a frame, and print the link to use there: colab, "
     "or an origin such as http://localhost:8888"},
    {"open", 0, OPTION_FLAG, NULL, "open the page with xdg-open"},
    {"port", 0, OPTION_COUNT, "N", "listen on port N; default: any free one"},
    {"print", 0, OPTION_FLAG, NULL, "print the link instead of writing it into a file"},
    OPTION_JSON,
    {.name = NULL},
};

/* Mode 0600 (safe_open.h), and whole: a browser may read it at once. */
static int write_file(const char *path, const char *link, struct err *err)
{
    char text[800], tmp[SCRATCH_PATH];
    snprintf(text, sizeof(text), "<!doctype html>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"referrer\" content=\"no-referrer\">\n"
             "<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n<title>jobctl</title>\n"
             "<p><a href=\"%s\">jobctl dashboard</a></p>\n", link, link);
    if (scratch_name(tmp, path, err) < 0)
        return -1;
    const int fd = safe_open(tmp, O_WRONLY | O_CREAT | O_EXCL, err);
    if (fd < 0)
        return -1;
    const bool whole = write_all(fd, text, strlen(text)) == 0;
    close(fd);
    if (whole && rename(tmp, path) == 0)
        return 0;
    err_set(err, ERR_SYSTEM, "cannot write %.300s: %m; `jobctl dashboard --print` needs no file", path);
    unlink(tmp);
    return -1;
}

static int open_browser(const char *path, struct err *err)
{
    const char *const argv[] = {"xdg-open", path, NULL};
    const struct subprocess_spec spec = {.argv = argv, .in = SUBPROCESS_NULL, .out = STDERR_FILENO,
                                         .err = STDERR_FILENO};
    const pid_t pid = subprocess_start(&spec, err);
    if (pid >= 0 && subprocess_wait(pid) == 0)
        return 0;
    return err_set(err, ERR_SYSTEM, "cannot open a browser with xdg-open: open the file %.300s yourself, or run "
                   "`jobctl dashboard --print` for a link", path);
}

static int by_file(struct call *call, const char *link, long long port)
{
    char path[PATH_MAX];
    if (home_path(path, sizeof(path), LINK_FILE, &call->err) < 0 || write_file(path, link, &call->err) < 0)
        return -1;
    if (options_has(&call->options, "open"))
        return open_browser(path, &call->err);
    if (call->json)
        output_json(call, json_make("{s:I, s:s}", "port", (json_int_t)port, "file", path));
    else
        fprintf(call->out.file, "%s\nOpen this file in a browser on this machine within 10 minutes; it works once.\n",
                path);
    return 0;
}

static int give_link(struct call *call, const json_t *answer)
{
    char link[160], path[100];
    const long long port = field_int(answer, "port", 0);
    const bool frame = options_has(&call->options, "frame");
    snprintf(path, sizeof(path), "/%s#token=%.64s", frame ? "frame" : "", field_text(answer, "token"));
    snprintf(link, sizeof(link), "http://127.0.0.1:%lld%s", port, path);
    if (!frame && !options_has(&call->options, "print"))
        return by_file(call, link, port);
    if (call->json)
        output_json(call, json_make("{s:I, s:s, s:s}", "port", (json_int_t)port, "link", link, "path", path));
    else
        fprintf(call->out.file, "%s\n", link);
    return 0;
}

/* The dashboard of a far host: at the same port here, which its header Host has to name. */
static int bring_here(struct call *call, const json_t *answer)
{
    const int port = (int)field_int(answer, "port", 0);
    const int listener = port_forward_listen(port, &call->err);
    if (listener < 0)
        return -1;
    if (give_link(call, answer) < 0) {
        close(listener);
        return -1;
    }
    fprintf(stderr, "The page works until you stop this command with Ctrl-C.\n");
    fflush(call->out.file);
    port_forward_run(listener, port, interrupt_catch());
    return 0;
}

static int run(struct call *call)
{
    struct client *c;
    json_t *answer = NULL;
    const char *site = options_text(&call->options, "frame");
    if (site && (!site[0] || options_has(&call->options, "open")))
        return err_set(&call->err, ERR_USAGE,
                       "--frame needs a SITE, and cannot be combined with --open");
    if (client_open(&c, true, &call->err) < 0)
        return -1;
    json_t *body = json_make("{s:I, s:s*}", "port", (json_int_t)options_count(&call->options, "port", 0),
                             "frame", site);
    int rc = client_post(c, &answer, "/v1/dashboard", body, &call->err);
    json_decref(body);
    client_close(c);
    if (rc == 0)
        rc = far_host_name() ? bring_here(call, answer) : give_link(call, answer);
    json_decref(answer);
    return rc;
}

const struct command cmd_dashboard = {
    .name = "dashboard", .group = GROUP_WATCH, .args = ARGS_NONE,
    .summary = "show jobs, their curves, logs and reasons in a browser",
    .help = "The daemon serves the page on 127.0.0.1 only, from the first call of this command until it ends. The link "
            "works once, within 10 minutes; the browser that opened it stays logged in until the daemon ends. Without "
            "--print the link is in a file that only you can read, so other users of this machine cannot see the link "
            "in a process's arguments. With --frame the page works in a frame of that site, such as a notebook cell: "
            "deploy/colab.ipynb has one. With -H that host's page is forwarded to the same port on this machine, until "
            "Ctrl-C. See docs/MONITORING.md.",
    .options = options, .run = run,
};
