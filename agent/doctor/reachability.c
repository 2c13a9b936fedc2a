/* SPDX-License-Identifier: Apache-2.0 */
/* reachability.c - see reachability.h */
#include "agent/doctor/reachability.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/plan/plan_internal.h"
#include "agent/wire/tls_listener.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { WORD = 32, BACKLOG = 256, TRIES = 1024, PATIENCE_MS = 3000, MORE_MS = 200 };

/* --- listener --------------------------------------------------------------------------------- */

static struct {
    int         fd;
    char word[WORD + 1]; /* "" = closed */
    atomic_bool closing;
    pthread_t   thread;
} listener = {.fd = -1};

/* Runs in a thread: two nodes that connect to each other at the same time would both wait. */
static void *answer(void *arg)
{
    char word[WORD + 1];
    const int own_fd = listener.fd;
    (void)arg;
    memcpy(word, listener.word, sizeof(word));
    while (!atomic_load(&listener.closing)) {
        int fd = accept4(own_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        (void)!send(fd, word, WORD, MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static int open_listener(struct err *err)
{
    unsigned char drawn[WORD / 2];
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    if (getrandom(drawn, sizeof(drawn), 0) != sizeof(drawn))
        return err_set(err, ERR_SYSTEM, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(drawn); i++)
        snprintf(listener.word + 2 * i, 3, "%02x", drawn[i]);
    listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener.fd < 0 || bind(listener.fd, (struct sockaddr *)&any, sizeof(any)) < 0 ||
        listen(listener.fd, BACKLOG) < 0)
        return err_set(err, ERR_SYSTEM, "cannot open a port: %s", strerror(errno));
    atomic_store(&listener.closing, false);
    return pthread_create(&listener.thread, NULL, answer, NULL) == 0
               ? 0
               : err_set(err, ERR_SYSTEM, "cannot start a thread");
}

static void shut(void)
{
    listener.word[0] = '\0';
    if (listener.fd >= 0)
        close(listener.fd);
    listener.fd = -1;
}

void reachability_close(void)
{
    if (!listener.word[0])
        return;
    atomic_store(&listener.closing, true);
    shutdown(listener.fd, SHUT_RDWR); /* wakes the thread in accept() */
    pthread_join(listener.thread, NULL);
    shut();
}

json_t *reachability_listen(struct err *err)
{
    struct sockaddr_in in;
    socklen_t size = sizeof(in);
    if (!listener.word[0] && open_listener(err) < 0) {
        shut();
        return NULL;
    }
    getsockname(listener.fd, (struct sockaddr *)&in, &size);
    return json_make("{s:o, s:i, s:s}", "addresses", tls_listener_addresses(), "port",
                     (int)ntohs(in.sin_port), "word", listener.word);
}

/* --- connections -------------------------------------------------------------------------------
 */

/* A connection to one address of one host. */
struct try {
    size_t      host;
    const char *address, *word;
    char        said[WORD + 1];
    size_t      heard;
    double      began, ms; /* began: in seconds */
    int error; /* errno of the connection, 0: none so far */
    bool        good;
};

struct round {
    struct try    *tries;
    struct pollfd *fds; /* -1: finished */
    int            n;
};

static void end_try(struct round *r, int i, int error)
{
    struct try *t = &r->tries[i];
    t->ms = 1e3 * (clock_s() - t->began);
    t->good = error == 0 && t->heard == WORD && strncmp(t->said, t->word, WORD) == 0;
    t->error = t->good ? 0 : error ? error : EPROTO;
    close(r->fds[i].fd);
    r->fds[i].fd = -1;
}

static void add_try(struct round *r, size_t host, const char *address, int port, const char *word)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (r->n == TRIES || inet_pton(AF_INET, address, &to.sin_addr) != 1)
        return;
    const int i = r->n++;
    r->tries[i] = (struct try){.host = host, .address = address, .word = word, .began = clock_s()};
    r->fds[i] = (struct pollfd){
        .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), .events = POLLIN};
    if (r->fds[i].fd >= 0 && connect(r->fds[i].fd, (struct sockaddr *)&to, sizeof(to)) < 0 &&
        errno != EINPROGRESS)
        end_try(r, i, errno);
}

static void hear(struct round *r, int i)
{
    struct try *t = &r->tries[i];
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(r->fds[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
    ssize_t n = error ? -1 : recv(r->fds[i].fd, t->said + t->heard, WORD - t->heard, 0);
    if (n < 0 && !error && (errno == EAGAIN || errno == EINTR))
        return;
    t->heard += n > 0 ? (size_t)n : 0;
    if (n <= 0 || t->heard == WORD)
        end_try(r, i, error ? error : n < 0 ? errno : 0);
}

/* The first reachable address of a host; NULL: none. */
static const struct try *best_of(const struct round *r, size_t host)
{
    for (int i = 0; i < r->n; i++)
        if (r->tries[i].host == host && r->tries[i].good)
            return &r->tries[i];
    return NULL;
}

static bool all_reached(const struct round *r, size_t hosts)
{
    for (size_t h = 0; h < hosts; h++)
        if (!best_of(r, h))
            return false;
    return true;
}

static void await(struct round *r, size_t hosts)
{
    int64_t end = clock_ms() + PATIENCE_MS;
    for (bool cut = false; clock_ms() < end;) {
        int open = 0;
        if (!cut && all_reached(r, hosts)) { /* an earlier address may also succeed */
            end = clock_ms() + MORE_MS;
            cut = true;
        }
        for (int i = 0; i < r->n; i++)
            open += r->fds[i].fd >= 0;
        if (!open || poll(r->fds, (nfds_t)r->n, (int)(end - clock_ms()) + 1) <= 0)
            break;
        for (int i = 0; i < r->n; i++)
            if (r->fds[i].fd >= 0 && r->fds[i].revents)
                hear(r, i);
    }
    for (int i = 0; i < r->n; i++)
        if (r->fds[i].fd >= 0)
            end_try(r, i, ETIMEDOUT);
}

/* A host that was not reached: the error of its first address. */
static json_t *tell_failure(const struct round *r, size_t host, const char *name, int port)
{
    for (int i = 0; i < r->n; i++)
        if (r->tries[i].host == host)
            return json_make("{s:s, s:o}", "host", name, "error",
                             json_text_f("%s, port %d: %s", r->tries[i].address, port,
                                         r->tries[i].error == EPROTO
                                             ? "another program answers"
                                             : strerror(r->tries[i].error)));
    return json_make("{s:s, s:s}", "host", name, "error", "the host has no IPv4 address");
}

json_t *reachability_at(const json_t *endpoints)
{
    struct round r = {calloc(TRIES, sizeof(*r.tries)), calloc(TRIES, sizeof(*r.fds)), 0};
    const size_t hosts = json_array_size(endpoints);
    json_t *out = json_array(), *address;
    const json_t *d;
    size_t h, a;
    json_array_foreach(endpoints, h, d)
    {
        json_array_foreach(json_object_get(d, "addresses"), a, address)
        {
            if (r.tries && r.fds)
                add_try(&r, h, json_string_value(address),
                        (int)json_integer_value(json_object_get(d, "port")), field_text(d, "word"));
        }
    }
    await(&r, hosts);
    json_array_foreach(endpoints, h, d)
    {
        const struct try *t = best_of(&r, h);
        const char *name = field_text(d, "host");
        const int port = (int)json_integer_value(json_object_get(d, "port"));
        json_array_append_new(
            out, t ? json_make("{s:s, s:s, s:f}", "host", name, "address", t->address, "ms", t->ms)
                   : tell_failure(&r, h, name, port));
    }
    free(r.tries);
    free(r.fds);
    return out;
}
