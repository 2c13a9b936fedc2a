/* SPDX-License-Identifier: Apache-2.0 */
/* request_wait.c - requests that sleep until their job changes, or until a thread has done their file work */
#include "controller/http/request.h"

#include <stdlib.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/http/server_internal.h"
#include "engine/base/json_text.h"

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

void request_wake(struct request *r)
{
    struct server *s = r->listener->server;
    for (struct request **p = &s->asleep; *p; p = &(*p)->next) {
        if (*p == r) {
            *p = r->next;
            break;
        }
    }
    r->asleep = false;
    bedding_away(r);
    MHD_resume_connection(r->connection);
    uv_timer_start(&r->listener->timer, r->listener->run, 0, 0);
}

static void sleep_over(uv_timer_t *timer)
{
    request_wake(timer->data);
}

static void file_changed(uv_fs_event_t *watch, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    (void)status;
    request_wake(watch->data);
}

static void lie_down(struct request *r, int64_t job)
{
    struct server *s = r->listener->server;
    r->wake_job = job;
    r->asleep = true;
    r->next = s->asleep;
    s->asleep = r;
    MHD_suspend_connection(r->connection);
}

int request_rest(struct request *r, int64_t job, int64_t ms)
{
    r->timer = calloc(1, sizeof(*r->timer));
    if (!r->timer)
        return -1;
    uv_timer_init(&request_daemon(r)->loop, r->timer);
    r->timer->data = r;
    uv_timer_start(r->timer, sleep_over, (uint64_t)(ms > 0 ? ms : 0), 0);
    lie_down(r, job);
    return 0;
}

void request_sleep(struct request *r, int64_t job, int64_t ms)
{
    const int64_t now = (int64_t)uv_now(&request_daemon(r)->loop);
    if (!r->deadline_ms)
        r->deadline_ms = now + ms;
    if (request_rest(r, job, r->deadline_ms - now) < 0)
        request_fail(r, &(struct err){.code = ERR_MEMORY, .text = "out of memory"}, NULL);
}

void request_watch(struct request *r, const char *dir)
{
    if (!r->asleep || r->watch || !(r->watch = calloc(1, sizeof(*r->watch))))
        return;
    uv_fs_event_init(&request_daemon(r)->loop, r->watch);
    r->watch->data = r;
    if (uv_fs_event_start(r->watch, file_changed, dir, 0) != 0) {
        uv_close((uv_handle_t *)r->watch, free_handle);
        r->watch = NULL;
    }
}

bool request_closing(const struct request *r)
{
    return r->listener->server->closing;
}

bool request_over(const struct request *r)
{
    return r->listener->server->closing ||
           (r->deadline_ms && (int64_t)uv_now(&request_daemon(r)->loop) >= r->deadline_ms);
}

/* ---- file work ---- */


static void task_done(struct file_task *task)
{
    struct request *r = task->owner;
    r->worked = true;
    request_wake(r);
}

/* Nobody reads its result: one that runs continues by itself, one that has ended is the request's. */
static void task_drop(struct request *r)
{
    if (r->task && r->worked)
        r->task->destroy(r->task);
    else if (r->task)
        file_work_drop(request_daemon(r)->files, r->task);
    r->task = NULL;
}

static void task_late(struct file_task *task)
{
    struct request *r = task->owner;
    file_work_why(request_daemon(r)->files, task, &r->failed);
    r->otherwise = r->otherwise_of ? r->otherwise_of(task) : NULL;
    task_drop(r);
    request_wake(r);
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
    json_object_set_new(answer, "files", json_text(err->text));
    request_answer(r, 200, answer);
}

void request_work_or(struct request *r, struct file_task *task, const char *lane, const char *what,
                     request_otherwise_fn otherwise)
{
    struct file_work *files = request_daemon(r)->files;
    struct err err = { 0 };
    task->done = task_done;
    task->late = task_late;
    task->owner = r;
    r->otherwise_of = otherwise;
    if (r->listener->server->closing)
        err_set(&err, ERR_SYSTEM, SERVER_STOPPING);
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

/* A task that has not ended is left alone: the daemon stops. */
bool request_resume(struct request *r)
{
    if (r->task && !r->worked) {
        task_drop(r);
        err_set(&r->failed, ERR_SYSTEM, SERVER_STOPPING);
    }
    if (r->failed.code)
        answer_otherwise(r, &r->failed);
    return !r->failed.code;
}

static void free_headers(struct answer_header *h)
{
    while (h) {
        struct answer_header *next = h->next;
        free(h->value);
        free(h);
        h = next;
    }
}

void request_fini(struct request *r)
{
    bedding_away(r);
    task_drop(r);
    json_decref(r->json);
    json_decref(r->otherwise);
    free_headers(r->headers);
    if (r->stream_fini)
        r->stream_fini(r);
    buf_fini(&r->body);
}
