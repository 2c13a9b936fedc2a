/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - see server.h */
#include "controller/http/server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/http/body_check.h"
#include "controller/http/server_internal.h"

enum { LISTEN_AGAIN_MS = 1000 };

/* ---- the loop ---- */

static bool settle(struct listener *l)
{
    return l->service->settle(l->server->daemon);
}

static unsigned most_connections(const struct service *s)
{
    return s->connections ? s->connections : CONNECTIONS_MAX;
}

static void run(struct listener *l)
{
    MHD_UNSIGNED_LONG_LONG ms;
    const unsigned most = most_connections(l->service);
    if (l->server->closing)
        return;
    const bool full = l->connections.count >= most;
    MHD_run(l->mhd);
    if (settle(l))          /* requests that waited for it are answered at once */
        MHD_run(l->mhd);
    settle(l);
    /* After an accept() that found no free descriptor, or when it was full, it listens again only when it is run once
     * more. */
    if (connection_sweep(&l->connections, most) || (full && l->connections.count < most))
        ms = 0;
    else if (MHD_get_timeout(l->mhd, &ms) != MHD_YES || ms > LISTEN_AGAIN_MS)
        ms = LISTEN_AGAIN_MS;
    uv_timer_start(&l->timer, l->run, ms, 0);
}

static void timer_fired(uv_timer_t *timer)
{
    run(timer->data);
}

static void readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

void server_wake(struct server *s, int64_t job)
{
    struct request *next;
    if (s)
        s->changed[s->changes++ % CHANGES_KEPT] = job;
    for (struct request *r = s ? s->asleep : NULL; r; r = next) {
        next = r->next;
        if (r->wake_job == job || r->wake_job == ANY_JOB)
            request_wake(r);
    }
}

int64_t server_changes(const struct server *s)
{
    return s->changes;
}

int64_t server_change(const struct server *s, int64_t n)
{
    return n < 1 || n > s->changes || s->changes - n >= CHANGES_KEPT ? -1 : s->changed[(n - 1) % CHANGES_KEPT];
}

/* ---- incoming requests ---- */

/* Compares with a route's path and copies its JOB part. */
static bool path_matches(const char *pattern, const char *url, char *job, size_t size)
{
    const char *slot = strstr(pattern, "JOB");
    if (!slot)
        return strcmp(pattern, url) == 0;
    size_t head = (size_t)(slot - pattern);
    if (strncmp(pattern, url, head) != 0)
        return false;
    size_t n = strcspn(url + head, "/");
    if (n == 0 || n >= size || strcmp(url + head + n, slot + 3) != 0)
        return false;
    memcpy(job, url + head, n);
    job[n] = 0;
    return true;
}

static void route(struct request *r, const char *method, const char *url)
{
    char others[64] = "";
    for (const struct route *row = r->listener->service->routes; row->method; row++) {
        if (!path_matches(row->path, url, r->job, sizeof(r->job)))
            continue;
        if (strcmp(row->method, method) == 0) {
            r->route = row;
            return;
        }
        snprintf(others + strlen(others), sizeof(others) - strlen(others), " %s", row->method);
    }
    struct err err = { 0 };
    if (others[0])
        err_set(&err, ERR_USAGE, "%s is not allowed for %.200s; use%s", method, url, others);
    else
        err_set(&err, ERR_NOT_FOUND, "unknown path %.200s; docs/API.md lists the paths", url);
    request_fail(r, &err, NULL);
}

static bool body_parse(struct request *r)
{
    json_error_t where;
    struct err err = { 0 };
    r->json = r->body.size ? json_loadb(r->body.data, r->body.size, JSON_REJECT_DUPLICATES, &where)
                           : json_object();
    if (!json_is_object(r->json))
        err_set(&err, ERR_USAGE, "the body is not a JSON object%s%.200s", r->json ? "" : ": ",
                r->json ? "" : where.text);
    else if (body_check(r->json, r->route->body, &err) == 0)
        return true;
    request_fail(r, &err, NULL);
    return false;
}

static struct connection *connection_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void opened_or_closed(void *arg, struct MHD_Connection *connection, void **state,
                             enum MHD_ConnectionNotificationCode what)
{
    struct listener *l = arg;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *state = connection_open(&l->connections,
                                 MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    else
        connection_close(&l->connections, *state);
}

static enum MHD_Result request_begin(struct listener *l, struct MHD_Connection *connection, void **state)
{
    struct request *r = connection_of(connection) ? calloc(1, sizeof(*r)) : NULL;
    if (!r)
        return MHD_NO;
    connection_enter(connection_of(connection), CONNECTION_ASKING);
    r->listener = l;
    r->connection = connection;
    *state = r;
    return MHD_YES;
}

static size_t body_max(const struct request *r)
{
    const size_t most = r->listener->service->body_max;
    return most ? most : BODY_MAX;
}

static void take_upload(struct request *r, const char *upload, size_t size)
{
    if (r->body.size + size > body_max(r))
        r->too_large = true;
    else if (buf_append(&r->body, upload, size) < 0)
        r->no_memory = true;
}

static void refuse_body(struct request *r)
{
    char text[80];
    snprintf(text, sizeof(text), "the body is larger than %zu KiB", body_max(r) / 1024);
    request_refuse(r, 413, "too_large", text, NULL);
}

/* The request is whole: finds its handler and reads its body. False: it has been answered. */
static bool prepare(struct request *r, const char *method, const char *url)
{
    const struct service *l = r->listener->service;
    if (!l->admit(r))
        return false;
    if (r->too_large)
        refuse_body(r);
    else if (r->no_memory)
        request_refuse(r, 503, "system", "out of memory for the body of a request", NULL);
    else
        route(r, method, url);
    if (!r->answered && l->permit && !l->permit(r, r->route))
        return false;
    if (!r->answered && strcmp(method, "GET") != 0 && !home_is_here(&r->listener->server->daemon->home))
        request_refuse(r, 503, "system", "the directory of this daemon (JOBCTL_HOME) was moved or removed; the "
                       "daemon stops. Run the command again", NULL);
    return !r->answered && body_parse(r);
}

/* A task that has ended is the handler's while it runs; the handler may begin another. */
static void call_handler(struct request *r)
{
    struct file_task *ended = request_worked(r);
    if (!request_resume(r))
        return;
    r->route->handle(r);
    if (!ended)
        return;
    if (r->task == ended)
        r->task = NULL;
    r->worked = false;
    ended->destroy(ended);
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **state)
{
    struct listener *l = arg;
    struct request *r = *state;
    (void)version;
    if (!r)
        return request_begin(l, connection, state);
    if (*upload_size > 0) {
        connection_enter(connection_of(connection), CONNECTION_ASKING);
        take_upload(r, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    connection_enter(connection_of(connection), CONNECTION_BUSY);
    r->answered = false;
    if (!r->route && !prepare(r, method, url))
        return r->answered ? r->result : MHD_NO;
    if (r->route->handle != l->service->gathers)
        settle(l);
    call_handler(r);
    if (r->answered)
        return r->result;
    return r->asleep ? MHD_YES : MHD_NO;
}

static void completed(void *arg, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why)
{
    struct request *r = *state;
    (void)arg;
    (void)why;
    if (connection_of(connection))
        connection_enter(connection_of(connection), CONNECTION_KEPT);
    if (r)
        request_fini(r);
    free(r);
    *state = NULL;
}

__attribute__((format(printf, 2, 0))) static void mhd_says(void *arg, const char *fmt, va_list ap)
{
    char text[400];
    (void)arg;
    vsnprintf(text, sizeof(text), fmt, ap);
    text[strcspn(text, "\n")] = 0;
    log_warn(NULL, "http: %s", text);
}

/* ---- listeners ---- */

/* MHD's epoll descriptor, or -1. */
static int start_mhd(struct listener *l, int listen_fd)
{
    l->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, l,
        MHD_OPTION_EXTERNAL_LOGGER, mhd_says, NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_CONNECTION_LIMIT, most_connections(l->service), MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_NOTIFY_CONNECTION, opened_or_closed, l, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL,
        MHD_OPTION_END);
    const union MHD_DaemonInfo *info = l->mhd ? MHD_get_daemon_info(l->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (info)
        return info->epoll_fd;
    if (l->mhd)
        MHD_stop_daemon(l->mhd);
    else
        close(listen_fd);
    return -1;
}

int server_listen(struct server *s, const struct service *service, int listen_fd, struct err *err)
{
    struct listener *l = calloc(1, sizeof(*l));
    if (!l) {
        close(listen_fd);
        return err_set(err, ERR_MEMORY, "out of memory for the server");
    }
    l->server = s;
    l->service = service;
    const int epoll_fd = start_mhd(l, listen_fd);
    if (epoll_fd < 0) {
        free(l);
        return err_set(err, ERR_SYSTEM, "cannot start the HTTP server");
    }
    uv_poll_init(&s->daemon->loop, &l->poll, epoll_fd);
    uv_timer_init(&s->daemon->loop, &l->timer);
    l->poll.data = l->timer.data = l;
    l->run = timer_fired;
    uv_poll_start(&l->poll, UV_READABLE, readable);
    l->next = s->listeners;
    s->listeners = l;
    return 0;
}

static void listener_free(uv_handle_t *timer)
{
    free(timer->data);
}

/* One after the other: libuv calls back for the last closed handle first, and both are in one allocation. */
static void poll_closed(uv_handle_t *poll)
{
    struct listener *l = poll->data;
    uv_close((uv_handle_t *)&l->timer, listener_free);
}

/* Lets woken requests send their answers. */
static void listener_close(struct listener *l)
{
    settle(l);
    for (int i = 0; i < 3; i++)
        MHD_run(l->mhd);
    MHD_stop_daemon(l->mhd);
    uv_timer_stop(&l->timer);
    uv_close((uv_handle_t *)&l->poll, poll_closed);
}

int server_open(struct server **out, struct daemon *d, struct err *err)
{
    struct server *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "out of memory for the server");
    s->daemon = d;
    *out = s;
    return 0;
}

void server_close(struct server *s)
{
    if (!s)
        return;
    s->closing = true;
    while (s->asleep)
        request_wake(s->asleep);
    while (s->listeners) {
        struct listener *l = s->listeners;
        s->listeners = l->next;
        listener_close(l);
    }
    free(s);
}
