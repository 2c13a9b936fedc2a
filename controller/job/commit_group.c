/* SPDX-License-Identifier: Apache-2.0 */
/* commit_group.c - see commit_group.h */
#include "controller/job/commit_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_file.h"
#include "controller/job/job_store.h"
#include "db/store.h"
#include "engine/base/err.h"

/* A job of the group, and what it was before. */
struct member {
    struct member        *next;
    struct job           *job;
    struct job_past       was;
    struct attempt_row   *attempt;      /* a copy; NULL: it had none */
    struct event_source   told;         /* the newest event to acknowledge; seq 0: none */
    int                   hooks;        /* calls of daemon_test_hook() */
    bool                  matters, durable; /* job.json is to be written, and synced */
};

struct commit_group {
    uv_prepare_t    before_waiting;     /* commits what timers caused */
    uv_check_t      after_events;       /* commits what sockets caused */
    struct member  *first, **end;
};

static void settle(void *arg)
{
    commit_group_flush(arg, NULL, NULL);
}

static void turn_over(uv_check_t *handle)
{
    settle(handle->data);
}

static void before_waiting(uv_prepare_t *handle)
{
    settle(handle->data);
}

int commit_group_open(struct daemon *d, struct err *err)
{
    struct commit_group *g = calloc(1, sizeof(*g));
    if (!g)
        return err_set(err, ERR_MEMORY, "out of memory for the daemon");
    g->end = &g->first;
    uv_prepare_init(&d->loop, &g->before_waiting);
    uv_check_init(&d->loop, &g->after_events);
    g->before_waiting.data = g->after_events.data = d;
    uv_prepare_start(&g->before_waiting, before_waiting);
    uv_check_start(&g->after_events, turn_over);
    d->commit_group = g;
    store_on_settle(d->store, settle, d);
    return 0;
}

static void half_closed(uv_handle_t *handle)
{
    struct commit_group *g = (struct commit_group *)(void *)handle;
    free(g);
}

static void check_closed(uv_handle_t *handle)
{
    struct daemon *d = handle->data;
    struct commit_group *g = d->commit_group;
    d->commit_group = NULL;
    uv_close((uv_handle_t *)&g->before_waiting, half_closed);
}

void commit_group_close(struct daemon *d)
{
    struct commit_group *g = d->commit_group;
    if (!g)
        return;
    settle(d);
    store_on_settle(d->store, NULL, NULL);
    uv_close((uv_handle_t *)&g->after_events, check_closed);
}

static struct member *member_of(const struct job *job)
{
    struct member *m = job->daemon->commit_group->first;
    while (m && m->job != job)
        m = m->next;
    return m;
}

int commit_group_keep(struct job *job, const struct job_past *was, struct err *err)
{
    struct commit_group *g = job->daemon->commit_group;
    if (member_of(job))
        return 0;
    struct member *m = calloc(1, sizeof(*m));
    if (m && job->attempt && (m->attempt = malloc(sizeof(*m->attempt))))
        *m->attempt = *job->attempt;
    if (!m || (job->attempt && !m->attempt)) {
        free(m);
        return err_set(err, ERR_MEMORY, "out of memory for job %lld", (long long)job->core.id);
    }
    m->job = job;
    m->was = *was;
    *g->end = m;
    g->end = &m->next;
    return 0;
}

void commit_group_add(struct job *job, const struct core_output *out, const struct event_source *told)
{
    struct member *m = member_of(job);
    if (told)
        m->told = *told;
    m->hooks += out->events[0].keep;
    for (int i = 0; i < out->count; i++) {
        m->matters |= job_file_matters(out->events[i].kind);
        m->durable |= job_file_durable(out->events[i].kind);
    }
}

static void log_change(const struct job *job, const struct job_core *was)
{
    const struct job_core *c = &job->core;
    char tag[48];
    if (c->state == was->state)
        return;
    snprintf(tag, sizeof(tag), "%lld.%lld", (long long)c->id, (long long)c->attempt);
    if (c->state == JOB_DONE)
        log_info(tag, "%s: %s", job_result_name(c->result), c->reason);
    else
        log_info(tag, "%s%s%s", job_state_name(c->state), c->reason[0] ? ": " : "", c->reason);
}

/* The store has all of it, so a failure is only logged, and the next event tries again. */
static void write_file(const struct member *m)
{
    struct err err = { 0 };
    char tag[24];
    if (job_file_write(m->job, m->durable, &err) == 0)
        return;
    snprintf(tag, sizeof(tag), "%lld", (long long)m->job->core.id);
    log_warn(tag, "%s", err.text);
}

static void member_free(struct member *m)
{
    free(m->attempt);
    free(m);
}

static void stored(struct member *m, const struct job *but)
{
    struct job *job = m->job;
    if (m->matters)
        write_file(m);
    for (int i = 0; i < m->hooks; i++)
        daemon_test_hook(job->daemon);
    log_change(job, &m->was.core);
    if (job != but && m->told.seq)
        job->daemon->active_jobs->applied(job, &m->told, DO_NOTHING);
}

static void restore(struct member *m)
{
    struct job *job = m->job;
    job_take_back(job, &m->was);
    free(job->attempt);
    job->attempt = m->attempt;
    m->attempt = NULL;
}

static struct member *take_all(struct commit_group *g)
{
    struct member *all = g->first;
    g->first = NULL;
    g->end = &g->first;
    return all;
}

/* Restores all jobs first, because `lost` may look at other jobs. */
static void fail(struct member *all, const struct err *why)
{
    struct member *next;
    for (struct member *m = all; m; m = m->next)
        restore(m);
    for (struct member *m = all; m; m = next) {
        char tag[24];
        next = m->next;
        snprintf(tag, sizeof(tag), "%lld", (long long)m->job->core.id);
        if (m->told.seq) {
            log_error(tag, "%s", why->text);
            m->job->daemon->active_jobs->lost(m->job);
        }
        member_free(m);
    }
}

int commit_group_flush(struct daemon *d, const struct job *but, struct err *err)
{
    struct err why = { 0 };
    if (!d->commit_group || !d->commit_group->first)
        return 0;
    struct member *next, *all = take_all(d->commit_group);
    if (store_commit_group(d->store, &why) < 0) {
        d->store_state.errnum = why.errnum;
        fail(all, &why);
        if (err && err->code == ERR_NONE)
            *err = why;
        return -1;
    }
    d->store_state.errnum = 0;
    for (struct member *m = all; m; m = next) {
        next = m->next;
        stored(m, but);
        member_free(m);
    }
    return 0;
}
