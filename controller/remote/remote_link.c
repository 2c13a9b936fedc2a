/* SPDX-License-Identifier: Apache-2.0 */
/* remote_link.c - see remote_link.h */
#include "controller/remote/remote_link.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/spool.h"
#include "agent/os/log.h"
#include "agent/os/run_dir.h"
#include "controller/remote/agent_stream.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum { UNREADABLE_PAUSE_MS = 3000 };   /* it stays of its version, but it may end */

struct remote_link *remote_link_create(size_t size, uv_loop_t *loop, const struct remote_link_spec *spec,
                                       const struct remote_link_hooks *hooks, struct err *err)
{
    struct remote_link *link = calloc(1, size);
    if (!link || !(link->run_dir = strdup(spec->run_dir))) {
        free(link);
        err_set(err, ERR_MEMORY, "out of memory for a link to an agent");
        return NULL;
    }
    link->loop = loop;
    link->files = spec->files;
    link->hooks = *hooks;
    link->may_start = spec->may_start;
    link->dismiss = spec->dismiss;
    link->forget = spec->forget;
    link->job = spec->job;
    link->attempt = spec->attempt;
    snprintf(link->nonce, sizeof(link->nonce), "%s", spec->nonce);
    snprintf(link->origin, sizeof(link->origin), "%s", spec->origin ? spec->origin : "");
    snprintf(link->tag, sizeof(link->tag), "%lld.%lld", (long long)spec->job, (long long)spec->attempt);
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    return link;
}

static void timer_fired(uv_timer_t *timer)
{
    struct remote_link *link = timer->data;
    if (!link->closed)
        link->step(link);
}

void remote_link_later(struct remote_link *link, uint64_t ms, remote_link_step step)
{
    if (link->closed)
        return;
    link->step = step;
    uv_timer_start(&link->timer, timer_fired, ms, 0);
}

struct wire_id remote_link_id(const struct remote_link *link)
{
    return (struct wire_id){ link->job, link->attempt, link->nonce };
}

void remote_link_send(struct remote_link *link, enum wire_message number, json_t *body)
{
    if (link->stream)
        agent_stream_send(link->stream, number, body);
    json_decref(body);
}

void remote_link_hang_up(struct remote_link *link)
{
    agent_stream_close(link->stream);
    link->stream = NULL;
}

void remote_link_unreadable(struct remote_link *link, const char *text)
{
    char told[sizeof(link->unreadable) + 40];
    const bool news = strncmp(link->unreadable, text, sizeof(link->unreadable) - 1) != 0;
    snprintf(link->unreadable, sizeof(link->unreadable), "%s", text);
    snprintf(told, sizeof(told), "cannot understand the agent: %s", link->unreadable);
    if (link->hooks.waiting)
        link->hooks.waiting(link->hooks.arg, told); /* which logs it if it changed */
    else if (news)
        log_error(link->tag, "%s", told);
}

uint64_t remote_link_pause_ms(const struct remote_link *link, uint64_t ms)
{
    return link->unreadable[0] && ms < UNREADABLE_PAUSE_MS ? UNREADABLE_PAUSE_MS : ms;
}

static void timer_closed(uv_handle_t *handle)
{
    struct remote_link *link = handle->data;
    free(link->run_dir);
    free(link);
}

void remote_link_close(struct remote_link *link)
{
    link->closed = true;
    if (link->task)
        file_work_drop(link->files, link->task);
    link->task = NULL;
    remote_link_hang_up(link);
    uv_close((uv_handle_t *)&link->timer, timer_closed);
}

/* ---- files of the run directory ---- */

static void access_done(struct file_task *task)
{
    struct remote_link *link = task->owner;
    struct remote_link_task *t = (struct remote_link_task *)task;
    link->task = NULL;
    t->then(link, t);
    task->destroy(task);
}

static void access_late(struct file_task *task)
{
    struct remote_link *link = task->owner;
    struct err err = { 0 };
    file_work_why(link->files, task, &err);
    if (link->hooks.waiting)
        link->hooks.waiting(link->hooks.arg, err.text);
    else
        log_warn(link->tag, "%s", err.text);
}

void remote_link_access(struct remote_link *link, struct remote_link_task *task, const char *what)
{
    char whole[PATH_MAX + 80];
    task->base.done = access_done;
    task->base.late = access_late;
    task->base.owner = link;
    snprintf(whole, sizeof(whole), "%s in %s", what, link->run_dir);
    if (link->files && file_work_begin(link->files, &task->base, link->run_dir, whole, NULL) == 0) {
        link->task = &task->base;
        return;
    }
    task->base.work(&task->base);
    access_done(&task->base);
}

struct spool_task {
    struct remote_link_task base;
    char                    path[PATH_MAX];
    int64_t                 acked;
    json_t                 *events;
    struct err              err;
};

static int keep_event(void *arg, const json_t *event)
{
    struct spool_task *t = arg;
    return json_array_append_new(t->events, json_deep_copy(event));
}

static void spool_work(struct file_task *task)
{
    struct spool_task *t = (struct spool_task *)task;
    if (access(t->path, R_OK) == 0)
        spool_read(t->path, t->acked, keep_event, t, &t->err);
}

static void spool_destroy(struct file_task *task)
{
    json_decref(((struct spool_task *)task)->events);
    free(task);
}

/* Spooled events carry no owner: the directory is the attempt's. */
static int give_spooled(struct remote_link *link, const json_t *event)
{
    struct err err = { 0 };
    json_t *body = json_make("{s:I, s:I, s:s}", "job", (json_int_t)link->job, "attempt",
                             (json_int_t)link->attempt, "nonce", link->nonce);
    json_object_update_missing(body, (json_t *)(uintptr_t)event);
    const bool good = wire_check(wire_find(WIRE_EVENT, TO_CONTROLLER), body, &err) == 0;
    if (good)
        link->hooks.message(link->hooks.arg, WIRE_EVENT, body);
    else
        log_error(link->tag, "the spool contains invalid data: %s", err.text);
    json_decref(body);
    return !good || link->closed;
}

static void tell_lost(const struct remote_link *link)
{
    const struct remote_link_hooks *h = &link->hooks;
    if (link->cause != CAUSE_NONE && h->not_started)
        h->not_started(h->arg, link->cause, link->text);
    else
        h->lost(h->arg, link->text);
}

static void give_all(struct remote_link *link, struct remote_link_task *task)
{
    const struct spool_task *t = (const struct spool_task *)task;
    size_t i;
    json_t *event;
    json_array_foreach (t->events, i, event)
        if (give_spooled(link, event) != 0)
            break;
    if (t->err.code)
        log_error(link->tag, "%s", t->err.text);
    if (!link->closed)
        tell_lost(link);
}

void remote_link_read_spool(struct remote_link *link)
{
    struct spool_task *t = calloc(1, sizeof(*t));
    if (!t || !(t->events = json_array())) {
        free(t);
        log_error(link->tag, "out of memory for the spool");
        tell_lost(link);
        return;
    }
    t->base = (struct remote_link_task){ { .work = spool_work, .destroy = spool_destroy }, give_all };
    t->acked = link->hooks.acked(link->hooks.arg);
    snprintf(t->path, sizeof(t->path), "%s/" RUN_DIR_SPOOL, link->run_dir);
    remote_link_access(link, &t->base, "reading the spool");
}
