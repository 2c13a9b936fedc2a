/* SPDX-License-Identifier: Apache-2.0 */
/* notifier.c - see notifier.h */
#include "controller/notify/notifier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/notify/notice.h"
#include "controller/notify/notice_message.h"
#include "controller/notify/notify_send.h"
#include "controller/notify/notify_times.h"
#include "controller/spec/config.h"
#include "controller/spec/notify_target.h"
#include "db/notices.h"
#include "db/store.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

/* A target. One that was removed from config.yaml stays until the daemon ends. */
struct target {
    char               name[NOTICES_TARGET];
    struct notice_lane lane;
    bool               busy;
    int64_t            waiting;     /* rows, as last counted */
    int64_t            lost;        /* messages given up */
    char               problem[400];
    struct target     *next;
};

struct notifier {
    struct file_work   *work;
    struct notice_times times;
    char                host[NOTICE_HOST];
    struct target      *targets;
};

/* A message on its way. */
struct sending {
    struct file_task      base;
    char                  target[NOTICES_TARGET];
    struct notice_row    *rows;
    size_t                n;
    struct notice_message message;
    bool                  refused, gone;    /* gone: no such target any more */
    struct err            err;
};

/* ---- in a thread ---- */

static void sending_work(struct file_task *task)
{
    struct sending *s = (struct sending *)task;
    struct config config;
    if (config_load(&config, &s->err) < 0)
        return;
    const json_t *target = notify_target_find(config.notify, s->target);
    s->gone = !target;
    if (target)
        notify_send(target, &s->message, &s->refused, &s->err);
    else
        err_set(&s->err, ERR_NOT_FOUND, "config.yaml no longer has this target");
    config_fini(&config);
}

static void sending_destroy(struct file_task *task)
{
    struct sending *s = (struct sending *)task;
    free(s->rows);
    free(s);
}

/* ---- after it ---- */

static struct target *target_of(struct notifier *n, const char *name)
{
    struct target *t = n->targets;
    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    if (!t && (t = calloc(1, sizeof(*t)))) {
        snprintf(t->name, sizeof(t->name), "%s", name);
        t->next = n->targets;
        n->targets = t;
    }
    return t;
}

/* Logged once, until it works again. */
static void note_problem(struct target *t, const struct err *err)
{
    if (!err->code && t->problem[0])
        log_info(NULL, "notify target %s works again", t->name);
    if (err->code && !t->problem[0])
        log_warn(NULL, "a message cannot be sent to notify target %s: %s; trying again", t->name, err->text);
    snprintf(t->problem, sizeof(t->problem), "%.*s", (int)sizeof(t->problem) - 1, err->code ? err->text : "");
    err_make_printable(t->problem);
}

/* True if the row is gone without having been sent. */
static int settle_row(bool *lost, struct daemon *d, const struct sending *s, const struct notice_row *was,
                      struct err *err)
{
    struct notice_row row;
    const int found = notices_get(&row, d->store, was->job, was->target, err);
    if (found <= 0)
        return found;
    const enum notice_fate fate = s->gone          ? NOTICE_REMOVE
                                  : !s->err.code   ? notice_sent(&row, was, daemon_now_ms(), &d->notifier->times)
                                                   : notice_failed(&row, s->refused, daemon_now_ms());
    *lost = s->err.code && fate == NOTICE_REMOVE;
    return fate == NOTICE_REMOVE ? notices_remove(d->store, row.job, row.target, err)
                                 : notices_put(d->store, &row, err);
}

static int settle(struct daemon *d, const struct sending *s, int64_t *lost, struct err *err)
{
    if (store_begin(d->store, err) < 0)
        return -1;
    for (size_t i = 0; i < s->n; i++) {
        bool gone = false;
        if (settle_row(&gone, d, s, &s->rows[i], err) < 0) {
            store_rollback(d->store);
            return -1;
        }
        *lost += gone;
    }
    return store_commit(d->store, err);
}

static void sending_done(struct file_task *task)
{
    struct sending *s = (struct sending *)task;
    struct daemon *d = task->owner;
    struct target *t = target_of(d->notifier, s->target);
    struct err err = { .code = ERR_NONE };
    int64_t lost = 0;
    if (settle(d, s, &lost, &err) < 0)
        log_error(NULL, "the result of a message was not stored: %s", err.text);
    if (lost > 0)
        log_warn(NULL, "gave up %lld message%s to notify target %s: %s", (long long)lost, lost == 1 ? "" : "s",
                 s->target, s->err.text);
    if (t) {
        t->busy = false;
        t->lost += lost;
        notice_lane_ended(&t->lane, !s->err.code, clock_ms(), &d->notifier->times);
        note_problem(t, &s->err);
    }
    sending_destroy(task);
}

/* ---- what is due ---- */

struct due {
    struct notice_row *rows;
    size_t             n;
    int64_t            now_ms;
};

static int collect(void *ctx, const struct notice_row *row)
{
    struct due *due = ctx;
    if (notice_is_due(row, due->now_ms))
        due->rows[due->n++] = *row;
    return 0;
}

static void begin(struct daemon *d, struct target *t, struct due *due, size_t count)
{
    struct err err = { .code = ERR_NONE };
    struct sending *s = calloc(1, sizeof(*s));
    char what[NOTICES_TARGET + 40];
    if (!s)
        return;
    s->base = (struct file_task){ .work = sending_work, .done = sending_done, .destroy = sending_destroy, .owner = d };
    snprintf(s->target, sizeof(s->target), "%s", t->name);
    snprintf(what, sizeof(what), "a message to %s", t->name);
    s->rows = due->rows;
    s->n = count;
    due->rows = NULL;
    notice_message_make(&s->message, s->rows, count, d->instance, d->notifier->host);
    t->busy = true;
    if (file_work_begin(d->notifier->work, &s->base, t->name, what, &err) == 0)
        return;
    t->busy = false;
    sending_destroy(&s->base);
}

static int look_at(void *ctx, const char *name, int64_t waiting)
{
    struct daemon *d = ctx;
    struct target *t = target_of(d->notifier, name);
    struct due due = { .now_ms = daemon_now_ms() };
    d->notices = true;
    if (t)
        t->waiting = waiting;
    if (!t || t->busy || clock_ms() < t->lane.next_ms || !(due.rows = calloc(NOTICE_BUNDLE, sizeof(*due.rows))))
        return 0;
    if (notices_each(d->store, name, NOTICE_BUNDLE, collect, &due, NULL) == 0) {
        const size_t count = notice_lane_take(&t->lane, due.n, clock_ms(), &d->notifier->times);
        if (count > 0)
            begin(d, t, &due, count);
    }
    free(due.rows);
    return 0;
}

void notifier_look(struct daemon *d)
{
    if (!d->notifier || !d->notices || d->stopping)
        return;
    d->notices = false;
    for (struct target *t = d->notifier->targets; t; t = t->next)
        t->waiting = 0;
    struct err err = { .code = ERR_NONE };
    if (notices_targets(d->store, look_at, d, &err) < 0)
        d->notices = true;
}

/* ---- questions ---- */

void notifier_problem(char *out, size_t size, const struct daemon *d)
{
    out[0] = '\0';
    for (const struct target *t = d->notifier ? d->notifier->targets : NULL; t; t = t->next)
        if (t->problem[0]) {
            snprintf(out, size, "%s: %s (%lld waiting, %lld given up)", t->name, t->problem, (long long)t->waiting,
                     (long long)t->lost);
            return;
        }
}

static const char *kind_of(const json_t *target)
{
    return json_object_get(target, "webhook") ? "webhook" : json_object_get(target, "email") ? "email" : "command";
}

json_t *notifier_targets(const struct daemon *d, struct err *err)
{
    struct config config;
    size_t i;
    const json_t *one;
    if (config_load(&config, err) < 0)
        return NULL;
    json_t *list = json_array();
    json_array_foreach (config.notify, i, one) {
        const struct target *t = d->notifier->targets;
        while (t && strcmp(t->name, field_text(one, "name")) != 0)
            t = t->next;
        json_array_append_new(list, json_make("{s:s, s:s, s:O, s:I, s:s}", "name", field_text(one, "name"), "kind",
                                              kind_of(one), "on", json_object_get(one, "on"), "waiting",
                                              (json_int_t)(t ? t->waiting : 0), "problem", t ? t->problem : ""));
    }
    config_fini(&config);
    return list;
}

struct file_task *notifier_test(const struct daemon *d, const char *target, struct err *err)
{
    struct sending *s = calloc(1, sizeof(*s));
    if (!s) {
        err_set(err, ERR_MEMORY, "out of memory for a message");
        return NULL;
    }
    s->base = (struct file_task){ .work = sending_work, .destroy = sending_destroy,
                                  .patience_ms = (NOTIFY_SEND_S + 5) * 1000 };
    snprintf(s->target, sizeof(s->target), "%s", target);
    notice_message_test(&s->message, target, daemon_now_ms(), d->instance, d->notifier->host);
    return &s->base;
}

json_t *notifier_tested(const struct file_task *task)
{
    const struct sending *s = (const struct sending *)task;
    return json_make("{s:s, s:b, s:s}", "target", s->target, "ok", s->err.code == ERR_NONE, "text", s->err.text);
}

/* ---- open, close ---- */

int notifier_open(struct daemon *d, struct err *err)
{
    struct notifier *n = calloc(1, sizeof(*n));
    if (!n)
        return err_set(err, ERR_MEMORY, "out of memory for messages");
    n->times = notify_times();
    if (gethostname(n->host, sizeof(n->host) - 1) < 0)
        snprintf(n->host, sizeof(n->host), "this machine");
    if (!(n->work = file_work_open(&d->loop, FILE_WORK_PATIENCE_MS, err))) {
        free(n);
        return -1;
    }
    d->notifier = n;
    d->notices = true;
    return 0;
}

void notifier_close(struct daemon *d)
{
    struct notifier *n = d->notifier;
    if (!n)
        return;
    file_work_close(n->work);
    for (struct target *t; (t = n->targets);) {
        n->targets = t->next;
        free(t);
    }
    free(n);
    d->notifier = NULL;
}
