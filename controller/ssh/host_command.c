/* SPDX-License-Identifier: Apache-2.0 */
/* host_command.c - see host_command.h */
#include "controller/ssh/host_command.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/ssh/host_terminal.h"
#include "controller/ssh/login.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/write_all.h"

enum { PIECE = 64 * 1024, WAIT_MS = 1000 };

static ssh_channel start_in(ssh_session s, const char *command, bool terminal, struct err *err)
{
    ssh_channel c = ssh_channel_new(s);
    const bool open = c && ssh_channel_open_session(c) == SSH_OK;
    if (open && terminal)
        host_terminal_open(c);
    if (open && ssh_channel_request_exec(c, command) == SSH_OK)
        return c;
    err_set(err, ERR_SYSTEM, "cannot run a command: %s", ssh_get_error(s));
    if (c)
        ssh_channel_free(c);
    return NULL;
}

static ssh_channel start(ssh_session s, const char *command, struct err *err)
{
    return start_in(s, command, false, err);
}

/* Appends as much as fits. */
static void keep(char *text, size_t size, const char *bytes, int n)
{
    size_t at = strlen(text);
    size_t room = size - 1 - at, take = (size_t)n < room ? (size_t)n : room;
    memcpy(text + at, bytes, take);
    text[at + take] = '\0';
}

static void one_line(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    err_make_printable(text);
}

static int finish(ssh_channel c, int *status)
{
    *status = ssh_channel_get_exit_status(c);
    ssh_channel_close(c);
    ssh_channel_free(c);
    return 0;
}

int host_command_run(ssh_session s, const char *command, char *out, size_t out_size, char *wrong,
                     size_t wrong_size, int *status, struct err *err)
{
    char bytes[4096];
    int n;
    out[0] = wrong[0] = '\0';
    ssh_channel c = start(s, command, err);
    if (!c)
        return -1;
    while ((n = ssh_channel_read(c, bytes, sizeof(bytes), 0)) > 0)
        keep(out, out_size, bytes, n);
    while ((n = ssh_channel_read(c, bytes, sizeof(bytes), 1)) > 0)
        keep(wrong, wrong_size, bytes, n);
    one_line(wrong);
    return finish(c, status);
}

/* Skips the login's output up to the line. *n: bytes left after it. */
struct opening {
    const char *ready;
    size_t      matched;
    bool        began;
};

static const char *await_ready(struct opening *o, const char *bytes, int *n)
{
    const char *end = bytes + *n;
    while (!o->began && bytes < end) {
        o->matched = *bytes == o->ready[o->matched] ? o->matched + 1 : *bytes == o->ready[0];
        o->began = !o->ready[o->matched];
        bytes++;
    }
    *n = (int)(end - bytes);
    return bytes;
}

enum flow { QUIET, FLOWED, ENDED, BROKEN };

static enum flow from_host(ssh_channel c, struct opening *o, char *wrong, size_t wrong_size)
{
    static char bytes[PIECE];
    enum flow flow = QUIET;
    int n = ssh_channel_read_nonblocking(c, bytes, sizeof(bytes), 1);
    if (n > 0) {
        keep(wrong, wrong_size, bytes, n);
        flow = FLOWED;
    }
    n = ssh_channel_read_nonblocking(c, bytes, sizeof(bytes), 0);
    if (n == SSH_EOF || (n <= 0 && ssh_channel_is_eof(c)))
        return flow == FLOWED ? FLOWED : ENDED;
    if (n < 0)
        return BROKEN;
    if (n == 0)
        return flow;
    const char *rest = await_ready(o, bytes, &n);
    if (o->began)
        login_deadline("", 0);
    return write_all(STDOUT_FILENO, rest, (size_t)n) == 0 ? FLOWED : ENDED;
}

static enum flow to_host(ssh_channel c)
{
    static char bytes[PIECE];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n < 0 && errno == EINTR)
        return QUIET;
    if (n <= 0)
        return ENDED;
    for (ssize_t at = 0; at < n;) {
        int m = ssh_channel_write(c, bytes + at, (uint32_t)(n - at));
        if (m <= 0)
            return BROKEN;
        at += m;
    }
    return FLOWED;
}

static enum flow pass(ssh_session s, ssh_channel c, struct opening *o, char *wrong, size_t wrong_size)
{
    for (;;) {
        enum flow flow = from_host(c, o, wrong, wrong_size);
        if (flow == ENDED || flow == BROKEN)
            return flow;
        if (flow == FLOWED)
            continue;
        struct pollfd fds[2] = {{.fd = ssh_get_fd(s), .events = POLLIN},
                                {.fd = o->began ? STDIN_FILENO : -1, .events = POLLIN}};
        if (poll(fds, 2, WAIT_MS) > 0 && fds[1].revents) {
            flow = to_host(c);
            if (flow == ENDED || flow == BROKEN)
                return flow;
        }
    }
}

int host_command_pass(ssh_session s, const char *host, const char *command, const char *ready,
                      bool *began, char *wrong, size_t wrong_size, int *status, struct err *err)
{
    struct opening o = {.ready = ready};
    wrong[0] = '\0';
    login_deadline(host, LOGIN_STEP_S);
    ssh_channel c = start(s, command, err);
    if (!c)
        return -1;
    enum flow flow = pass(s, c, &o, wrong, wrong_size);
    *began = o.began;
    if (flow == BROKEN || !ssh_is_connected(s)) {
        const char *why = ssh_get_error(s);
        err_set(err, ERR_SYSTEM, "lost the connection to %s: %s", host, why[0] ? why : "closed");
        ssh_channel_free(c);
        return -1;
    }
    if (!ssh_channel_is_eof(c)) { /* our own input ended */
        *status = 0;
        ssh_channel_close(c);
        ssh_channel_free(c);
        return 0;
    }
    return finish(c, status);
}

bool host_command_lacks_home(int status)
{
    return status == err_exit_code(ERR_USAGE) || status == EXIT_DISK_FULL;
}

/* ---- in turn ---- */

/* 1: a byte; 0: it ended. */
static int next_byte(const struct host_talk *t, char *byte)
{
    return ssh_channel_read(t->channel, byte, 1, 0) == 1;
}

int host_talk_open(struct host_talk *t, ssh_session s, const char *host, const char *command, const char *ready,
                   bool *began, struct err *err)
{
    struct opening o = {.ready = ready};
    char byte;
    *t = (struct host_talk){.host = host};
    login_deadline(host, LOGIN_STEP_S);
    if (!(t->channel = start(s, command, err)))
        return -1;
    char before[sizeof(t->noise)] = "";
    while (!o.began && next_byte(t, &byte)) {
        int n = 1;
        await_ready(&o, &byte, &n);
        keep(before, sizeof(before), &byte, 1);
    }
    const size_t n = strcspn(before, "\r\n");
    if (strncmp(before, ready, n) != 0)
        snprintf(t->noise, sizeof(t->noise), "%.*s", (int)n, before);
    err_make_printable(t->noise);
    *began = o.began;
    return 0;
}

int host_talk_send(struct host_talk *t, const char *bytes, size_t size, struct err *err)
{
    while (size > 0) {
        login_deadline(t->host, LOGIN_STEP_S);
        const int n = ssh_channel_write(t->channel, bytes, (uint32_t)(size < PIECE ? size : PIECE));
        if (n <= 0)
            return err_set(err, ERR_SYSTEM, "%s stopped accepting data", t->host);
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

int host_talk_line(struct host_talk *t, char *line, size_t size, struct err *err)
{
    size_t n = 0;
    while (n + 1 < size && next_byte(t, line + n)) {
        if (line[n] == '\n') {
            line[n] = '\0';
            login_deadline(t->host, LOGIN_STEP_S);
            return 0;
        }
        n++;
    }
    return err_set(err, ERR_SYSTEM, "%s did not answer", t->host);
}

void host_talk_close(struct host_talk *t, char *wrong, size_t wrong_size, int *status)
{
    char bytes[4096];
    wrong[0] = '\0';
    ssh_channel_send_eof(t->channel);
    for (int n; (n = ssh_channel_read(t->channel, bytes, sizeof(bytes), 1)) > 0;)
        keep(wrong, wrong_size, bytes, n);
    while (ssh_channel_read(t->channel, bytes, sizeof(bytes), 0) > 0)
        ;
    one_line(wrong);
    finish(t->channel, status);
}

/* ---- our own streams ---- */

/* One of its two streams, as much as there is. */
static enum flow carry_from(ssh_channel c, struct opening *o, bool errors)
{
    static char bytes[PIECE];
    int n = ssh_channel_read_nonblocking(c, bytes, sizeof(bytes), errors);
    const char *rest = bytes;
    if (n == SSH_EOF || n == 0)
        return QUIET;
    if (n < 0)
        return BROKEN;
    if (!errors)
        rest = await_ready(o, bytes, &n);
    if (o->began)
        login_deadline("", 0);
    return write_all(errors ? STDERR_FILENO : STDOUT_FILENO, rest, (size_t)n) == 0 ? FLOWED : ENDED;
}

static enum flow carry_out(ssh_channel c, struct opening *o)
{
    const enum flow out = carry_from(c, o, false), wrong = carry_from(c, o, true);
    if (out == BROKEN || wrong == BROKEN || out == ENDED)
        return out == ENDED ? ENDED : BROKEN;
    if (out == FLOWED || wrong == FLOWED)
        return FLOWED;
    return ssh_channel_is_eof(c) || ssh_channel_is_closed(c) ? ENDED : QUIET;
}

static enum flow carry(ssh_session s, ssh_channel c, struct opening *o)
{
    bool input = true;
    for (;;) {
        enum flow flow = carry_out(c, o);
        host_terminal_resize(c);
        if (flow == ENDED || flow == BROKEN)
            return flow;
        if (flow == FLOWED)
            continue;
        struct pollfd fds[2] = {{.fd = ssh_get_fd(s), .events = POLLIN},
                                {.fd = input && o->began ? STDIN_FILENO : -1, .events = POLLIN}};
        if (poll(fds, 2, WAIT_MS) <= 0 || !fds[1].revents)
            continue;
        flow = to_host(c);
        if (flow == BROKEN)
            return flow;
        if (flow == ENDED) {
            input = false;
            ssh_channel_send_eof(c);
        }
    }
}

int host_command_carry(ssh_session s, const char *host, const char *command, const char *ready, bool *began,
                       int *status, struct err *err)
{
    char line[64];
    const bool terminal = host_terminal_wanted();
    snprintf(line, sizeof(line), "%.*s%s\n", (int)strcspn(ready, "\n"), ready, terminal ? "\r" : "");
    struct opening o = {.ready = line};
    login_deadline(host, LOGIN_STEP_S);
    ssh_channel c = start_in(s, command, terminal, err);
    if (!c)
        return -1;
    const enum flow flow = carry(s, c, &o);
    host_terminal_close();
    *began = o.began;
    if (flow != BROKEN && ssh_is_connected(s))
        return finish(c, status);
    const char *why = ssh_get_error(s);
    ssh_channel_free(c);
    return err_set(err, ERR_SYSTEM, "lost the connection to %s: %s", host, why[0] ? why : "closed");
}
