/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - see server.h */
#include "controller/http/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/buf.h"
#include "agent/os/log.h"
#include "agent/os/unix_socket.h"
#include "controller/base/client.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "engine/contract/err.h"

enum { CONNECTIONS_MAX = 1000, IDLE_S = 300, LISTEN_AGAIN_MS = 1000, NO_JOB = -1 };

struct server {
    struct daemon        *daemon;
    const struct service *service;
    struct MHD_Daemon    *mhd;
    uv_poll_t             poll;
    uv_timer_t            timer;    /* MHD's own time-outs */
    struct request       *asleep;
    int                   requests;
    bool                  closing;
};

struct request {
    struct server         *server;
    struct MHD_Connection *connection;
    const struct route    *route;
    struct buf             body;
    json_t                *json;
    char                   job[128];
    bool                   too_large, no_memory;  /* its body */
    bool                   answered;
    int64_t                memo[2];
    enum MHD_Result        result;
    /* set while it sleeps */
    bool                   asleep;
    int64_t                wake_job;
    int64_t                deadline_ms;     /* 0: none yet */
    struct request        *next;
    uv_timer_t            *timer;
    uv_fs_event_t         *watch;
    struct file_task      *task;            /* it waits for this one; or, once it has ended, the handler's */
    bool                   worked;          /* the task has ended */
    struct err             failed;          /* why it will not wait any longer */
    request_otherwise_fn   otherwise_of;    /* makes the answer then; NULL: the error */
    json_t                *otherwise;
};

static const struct {
    enum err_code code;
    int           status;
    const char   *word;
} codes[] = {
    { ERR_USAGE, 400, "usage" },        { ERR_CONFLICT, 409, "conflict" },
    { ERR_NOT_FOUND, 404, "not_found" }, { ERR_SYSTEM, 503, "system" },
    { ERR_DATA, 400, "usage" },         { ERR_MEMORY, 503, "system" },
    { ERR_BUG, 500, "bug" },
};

/* ---- the loop ---- */

static void timer_fired(uv_timer_t *timer);

static bool settle(struct server *s)
{
    return s->service->settle(s->daemon);
}

static void run(struct server *s)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (s->closing)
        return;
    MHD_run(s->mhd);
    if (settle(s))          /* requests that waited for it are answered at once */
        MHD_run(s->mhd);
    settle(s);
    /* After an accept() that found no free descriptor it listens again only when it is run once more. */
    if (MHD_get_timeout(s->mhd, &ms) != MHD_YES || ms > LISTEN_AGAIN_MS)
        ms = LISTEN_AGAIN_MS;
    uv_timer_start(&s->timer, timer_fired, ms, 0);
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

/* ---- sleeping ---- */

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void bedding_away(struct request *r)
{
    if (r->timer)
        uv_close((uv_handle_t *)r->timer, free_handle);
    if (r->watch)
        uv_close((uv_handle_t *)r->watch, free_handle);
    r->timer = NULL;
    r->watch = NULL;
}

static void wake(struct request *r)
{
    struct server *s = r->server;
    for (struct request **p = &s->asleep; *p; p = &(*p)->next) {
        if (*p == r) {
            *p = r->next;
            break;
        }
    }
    r->asleep = false;
    bedding_away(r);
    MHD_resume_connection(r->connection);
    uv_timer_start(&s->timer, timer_fired, 0, 0);
}

void server_wake(struct server *s, int64_t job)
{
    struct request *next;
    for (struct request *r = s ? s->asleep : NULL; r; r = next) {
        next = r->next;
        if (r->wake_job == job)
            wake(r);
    }
}

static void sleep_over(uv_timer_t *timer)
{
    wake(timer->data);
}

static void file_changed(uv_fs_event_t *watch, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    (void)status;
    wake(watch->data);
}

static void lie_down(struct request *r, int64_t job)
{
    struct server *s = r->server;
    r->wake_job = job;
    r->asleep = true;
    r->next = s->asleep;
    s->asleep = r;
    MHD_suspend_connection(r->connection);
}

void request_sleep(struct request *r, int64_t job, int64_t ms)
{
    struct server *s = r->server;
    const int64_t now = (int64_t)uv_now(&s->daemon->loop);
    if (!r->deadline_ms)
        r->deadline_ms = now + ms;
    r->timer = calloc(1, sizeof(*r->timer));
    if (!r->timer) {
        request_fail(r, &(struct err){.code = ERR_MEMORY, .text = "out of memory"}, NULL);
        return;
    }
    uv_timer_init(&s->daemon->loop, r->timer);
    r->timer->data = r;
    uv_timer_start(r->timer, sleep_over,
                   (uint64_t)(r->deadline_ms > now ? r->deadline_ms - now : 0), 0);
    lie_down(r, job);
}

void request_watch(struct request *r, const char *dir)
{
    if (!r->asleep || r->watch || !(r->watch = calloc(1, sizeof(*r->watch))))
        return;
    uv_fs_event_init(&r->server->daemon->loop, r->watch);
    r->watch->data = r;
    if (uv_fs_event_start(r->watch, file_changed, dir, 0) != 0) {
        uv_close((uv_handle_t *)r->watch, free_handle);
        r->watch = NULL;
    }
}

bool request_closing(const struct request *r)
{
    return r->server->closing;
}

bool request_over(const struct request *r)
{
    return r->server->closing ||
           (r->deadline_ms && (int64_t)uv_now(&r->server->daemon->loop) >= r->deadline_ms);
}

/* ---- file work ---- */

#define STOPPING "the daemon is stopping"

static void task_done(struct file_task *task)
{
    struct request *r = task->owner;
    r->worked = true;
    wake(r);
}

/* It continues by itself; nobody reads its result. */
static void task_drop(struct request *r)
{
    if (r->task)
        file_work_drop(r->server->daemon->files, r->task);
    r->task = NULL;
}

static void task_late(struct file_task *task)
{
    struct request *r = task->owner;
    file_work_why(r->server->daemon->files, task, &r->failed);
    r->otherwise = r->otherwise_of ? r->otherwise_of(task) : NULL;
    task_drop(r);
    wake(r);
}

/* The answer without the files. */
static void answer_otherwise(struct request *r, const struct err *err)
{
    json_t *answer = r->otherwise;
    r->otherwise = NULL;
    if (!answer) {
        request_fail(r, err, NULL);
        return;
    }
    log_error(NULL, "%s %s: %s", r->route->method, r->route->path, err->text);
    json_object_set_new(answer, "files", json_string(err->text));
    request_answer(r, 200, answer);
}

void request_work_or(struct request *r, struct file_task *task, const char *lane, const char *what,
                     request_otherwise_fn otherwise)
{
    struct file_work *files = r->server->daemon->files;
    struct err err = { 0 };
    task->done = task_done;
    task->late = task_late;
    task->owner = r;
    r->otherwise_of = otherwise;
    if (r->server->closing)
        err_set(&err, ERR_SYSTEM, STOPPING);
    else if (!file_work_stuck(files, lane, &err) && file_work_begin(files, task, lane, what, &err) == 0) {
        r->task = task;
        r->worked = false;
        lie_down(r, NO_JOB);
        return;
    }
    r->otherwise = otherwise ? otherwise(task) : NULL;
    task->destroy(task);
    answer_otherwise(r, &err);
}

void request_work(struct request *r, struct file_task *task, const char *lane, const char *what)
{
    request_work_or(r, task, lane, what, NULL);
}

struct file_task *request_worked(const struct request *r)
{
    return r->worked ? r->task : NULL;
}

/* ---- functions for handlers ---- */

struct daemon *request_daemon(const struct request *r)
{
    return r->server->daemon;
}

const char *request_job(const struct request *r)
{
    return r->job;
}

int64_t *request_memo(struct request *r)
{
    return r->memo;
}

const json_t *request_body(const struct request *r)
{
    return r->json;
}

const char *request_query(const struct request *r, const char *key)
{
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, key);
}

int request_number(int64_t *out, struct request *r, const char *key, int64_t otherwise)
{
    const char *text = request_query(r, key);
    char *end;
    *out = otherwise;
    if (!text)
        return 0;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno == 0 && end != text && !*end) {
        *out = value;
        return 0;
    }
    struct err err = { 0 };
    err_set(&err, ERR_USAGE, "%s=%.60s is not a whole number", key, text);
    request_fail(r, &err, NULL);
    return -1;
}

_Static_assert(API_SCHEMA == 2, "the text below says it");
static const char no_memory[] =
    "{\"schema\":2,\"error\":{\"code\":\"system\",\"text\":\"out of memory\"}}";

void request_answer(struct request *r, int status, json_t *document)
{
    char *text = NULL;
    if (document && json_object_set_new(document, "schema", json_integer(API_SCHEMA)) == 0)
        text = json_dumps(document, JSON_COMPACT);
    json_decref(document);
    if (!text) {
        status = 503;
        text = strdup(no_memory);
    }
    size_t size = text ? strlen(text) : 0;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    r->answered = true;
    r->result = MHD_NO;
    if (!response) {
        free(text);
        return;
    }
    MHD_add_response_header(response, "Content-Type", "application/json");
    r->result = MHD_queue_response(r->connection, (unsigned)status, response);
    MHD_destroy_response(response);
}

static void answer_error(struct request *r, int status, const char *word, const char *text,
                         json_t *more)
{
    json_t *answer = json_pack("{s:{s:s, s:s}}", "error", "code", word, "text", text);
    if (answer && more)
        json_object_update_recursive(answer, more);
    json_decref(more);
    request_answer(r, status, answer);
}

void request_fail(struct request *r, const struct err *err, json_t *more)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (codes[i].code == err->code) {
            if (codes[i].status >= 500)
                log_error(NULL, "%s %s: %s", r->route ? r->route->method : "",
                          r->route ? r->route->path : "", err->text);
            answer_error(r, codes[i].status, codes[i].word, err->text, more);
            return;
        }
    }
    answer_error(r, 500, "bug", err->text[0] ? err->text : "failed for an unknown reason", more);
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

static bool peer_ok(struct request *r)
{
    struct err err = { 0 };
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info && unix_socket_check_peer(info->connect_fd, &err) == 0)
        return true;
    answer_error(r, 403, "usage", "only root and the owner of this socket may connect", NULL);
    return false;
}

static void route(struct request *r, const char *method, const char *url)
{
    char others[64] = "";
    for (const struct route *row = r->server->service->routes; row->method; row++) {
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

static bool all_texts(const json_t *value)
{
    const char *key;
    json_t *entry;
    size_t i;
    json_array_foreach ((json_t *)(uintptr_t)value, i, entry)
        if (!json_is_string(entry))
            return false;
    json_object_foreach ((json_t *)(uintptr_t)value, key, entry)
        if (!json_is_string(entry))
            return false;
    return true;
}

/* The name of the expected type, or NULL if the value has it. */
static const char *type_wanted(const json_t *value, char type)
{
    switch (type) {
    case 's':
        return json_is_string(value) ? NULL : "a text";
    case 'b':
        return json_is_boolean(value) ? NULL : "true or false";
    case 'l':
        return json_is_array(value) && all_texts(value) ? NULL : "a list of texts";
    case 'o':
        return json_is_object(value) ? NULL : "an object";
    default:
        return json_is_object(value) && all_texts(value) ? NULL : "a map of texts";
    }
}

/* Checks that all fields are known and of their type, and that none is missing. */
static int body_check(const json_t *body, const char *fields, struct err *err)
{
    size_t known = 0;
    for (const char *f = fields ? fields : ""; *f; f += strcspn(f, " "), f += strspn(f, " ")) {
        char name[32];
        size_t n = strcspn(f, ":");
        snprintf(name, sizeof(name), "%.*s", (int)n, f);
        const json_t *value = json_object_get(body, name);
        const char *wanted = value ? type_wanted(value, f[n + 1]) : NULL;
        if (wanted)
            return err_set(err, ERR_USAGE, "'%s' in the body is not %s", name, wanted);
        if (!value && f[n + 2] == '!')
            return err_set(err, ERR_USAGE, "the body lacks '%s'", name);
        known += value != NULL;
    }
    if (known == json_object_size(body))
        return 0;
    return err_set(err, ERR_USAGE, "the body has a field that is not one of:%s%s",
                   fields ? " " : " (it has none)", fields ? fields : "");
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

static enum MHD_Result request_begin(struct server *s, struct MHD_Connection *connection,
                                     void **state)
{
    struct request *r = calloc(1, sizeof(*r));
    if (!r)
        return MHD_NO;
    r->server = s;
    r->connection = connection;
    s->requests++;
    *state = r;
    return MHD_YES;
}

/* A task that has ended is the handler's while it runs; the handler may begin another. */
static void call_handler(struct request *r)
{
    struct file_task *ended = request_worked(r);
    if (r->task && !ended) {
        task_drop(r);
        err_set(&r->failed, ERR_SYSTEM, STOPPING);
    }
    if (r->failed.code) {
        answer_otherwise(r, &r->failed);
        return;
    }
    r->route->handle(r);
    if (!ended)
        return;
    if (r->task == ended)
        r->task = NULL;
    r->worked = false;
    ended->destroy(ended);
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct server *s = arg;
    struct request *r = *state;
    (void)version;
    if (!r)
        return request_begin(s, connection, state);
    if (*upload_size > 0) {
        if (r->body.size + *upload_size > BODY_MAX)
            r->too_large = true;
        else if (buf_append(&r->body, upload, *upload_size) < 0)
            r->no_memory = true;
        *upload_size = 0;
        return MHD_YES;
    }
    r->answered = false;
    if (!r->route) {
        if (!peer_ok(r))
            return r->result;
        if (r->too_large) {
            answer_error(r, 413, "too_large", "the body is larger than 4 MiB", NULL);
            return r->result;
        }
        if (r->no_memory) {
            answer_error(r, 503, "system", "out of memory for the body of a request", NULL);
            return r->result;
        }
        route(r, method, url);
        if (!r->answered && strcmp(method, "GET") != 0 && !daemon_home_is_here(s->daemon))
            answer_error(r, 503, "system", "the directory of this daemon (JOBCTL_HOME) was moved or removed; the "
                         "daemon stops. Run the command again", NULL);
        if (r->answered || !body_parse(r))
            return r->answered ? r->result : MHD_NO;
    }
    if (r->route->handle != s->service->gathers)
        settle(s);
    call_handler(r);
    if (r->answered)
        return r->result;
    return r->asleep ? MHD_YES : MHD_NO;
}

static void completed(void *arg, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode why)
{
    struct request *r = *state;
    (void)arg;
    (void)connection;
    (void)why;
    if (!r)
        return;
    bedding_away(r);
    task_drop(r);
    r->server->requests--;
    json_decref(r->json);
    json_decref(r->otherwise);
    buf_fini(&r->body);
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

int server_open(struct server **out, struct daemon *d, const struct service *service, int listen_fd,
                struct err *err)
{
    struct server *s = calloc(1, sizeof(*s));
    if (!s) {
        close(listen_fd);
        return err_set(err, ERR_MEMORY, "out of memory for the server");
    }
    s->daemon = d;
    s->service = service;
    s->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, s,
        MHD_OPTION_EXTERNAL_LOGGER, mhd_says, NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        s->mhd ? MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info) {
        if (s->mhd)
            MHD_stop_daemon(s->mhd);
        else
            close(listen_fd);
        free(s);
        return err_set(err, ERR_SYSTEM, "cannot start the HTTP server");
    }
    uv_poll_init(&d->loop, &s->poll, info->epoll_fd);
    s->poll.data = s;
    uv_timer_init(&d->loop, &s->timer);
    s->timer.data = s;
    uv_poll_start(&s->poll, UV_READABLE, readable);
    *out = s;
    return 0;
}

static void server_free(uv_handle_t *timer)
{
    free(timer->data);
}

void server_close(struct server *s)
{
    if (!s)
        return;
    s->closing = true;
    while (s->asleep)
        wake(s->asleep);
    settle(s);
    for (int i = 0; i < 3; i++)         /* lets woken requests send their answers */
        MHD_run(s->mhd);
    MHD_stop_daemon(s->mhd);
    uv_close((uv_handle_t *)&s->poll, NULL);
    uv_close((uv_handle_t *)&s->timer, server_free);
}
