/* SPDX-License-Identifier: Apache-2.0 */
/* shell_store.c - see shell.h: the decisions of the daemon enter the history (history.c) when sqlite has committed them
 *
 * The linker sends its calls of the store through here (--wrap).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/job/job.h"
#include "controller/job/job_store.h"
#include "db/attempts.h"
#include "db/jobs.h"
#include "db/store.h"
#include "engine/base/err.h"
#include "tests/sim/shell.h"
#include "tests/sim/virtual_process.h"
#include "tests/sim/world.h"

enum { STAGED = 256, TICK_MS = 2 };

int __real_job_core_step(struct job_core *core, const struct core_input *in, struct core_output *out, struct err *err);
int __wrap_job_core_step(struct job_core *core, const struct core_input *in, struct core_output *out, struct err *err);
int __real_job_store_write(struct job *job, const struct job_core *was, const struct core_output *out,
                           const struct event_source *told, struct err *err);
int __wrap_job_store_write(struct job *job, const struct job_core *was, const struct core_output *out,
                           const struct event_source *told, struct err *err);
int __real_job_store_submit(struct job *job, const struct core_output *out, const char *yaml, const char *canonical,
                            struct err *err);
int __wrap_job_store_submit(struct job *job, const struct core_output *out, const char *yaml, const char *canonical,
                            struct err *err);
int __real_job_store_heard(struct job *job, const struct event_source *told, struct err *err);
int __wrap_job_store_heard(struct job *job, const struct event_source *told, struct err *err);
int __real_store_commit(struct store *s, struct err *err);
int __wrap_store_commit(struct store *s, struct err *err);
int __real_store_commit_group(struct store *s, struct err *err);
int __wrap_store_commit_group(struct store *s, struct err *err);
void __real_store_rollback(struct store *s);
void __wrap_store_rollback(struct store *s);

/* Written, and not committed. */
struct staged {
    int64_t            id;
    int                job;
    bool               submit;
    bool               unsure;          /* its commit has failed, or was not finished: it may be on the disk */
    struct job_core    core;
    struct core_output out;
    struct core_input  in;              /* texts and body are ours */
    int64_t            seq, at_ms;      /* on w->now */
};

static struct {
    struct staged list[STAGED];
    int           count;
    struct core_input in;               /* of the newest step; borrowed */
    int64_t       ids[JOBS];
} shell_store;

int shell_job(int64_t id)
{
    for (int j = 0; j < JOBS; j++)
        if (id > 0 && shell_store.ids[j] == id)
            return j;
    return -1;
}

int64_t shell_id(int job)
{
    return shell_store.ids[job];
}

/* ---- staging ---- */

static char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

static struct core_input in_copy(const struct core_input *in)
{
    struct core_input out = *in;
    out.nonce = copy(in->nonce);
    out.event = copy(in->event);
    out.text = copy(in->text);
    out.body = json_incref((json_t *)(uintptr_t)in->body);
    return out;
}

static void release(struct staged *s)
{
    free((char *)(uintptr_t)s->in.nonce);
    free((char *)(uintptr_t)s->in.event);
    free((char *)(uintptr_t)s->in.text);
    json_decref((json_t *)(uintptr_t)s->in.body);
    core_output_fini(&s->out);
}

static void stage(const struct job *job, const struct core_output *out, const struct event_source *told, bool submit)
{
    struct staged *s = &shell_store.list[shell_store.count++];
    shell_sync(shell_world());
    if (shell_store.count > STAGED)
        abort();
    *s = (struct staged){ .id = job->core.id, .job = atoi(job->spec.name + 1), .submit = submit, .core = job->core,
                          .out = *out, .in = in_copy(&shell_store.in), .seq = told ? told->seq : 0,
                          .at_ms = shell_world()->now };
    for (int i = 0; i < out->count; i++) {
        json_incref(s->out.events[i].body);
        s->out.events[i].name = copy(out->events[i].name);      /* the history keeps it */
    }
}

static bool is_of(const struct staged *s, bool submit)
{
    return !s->unsure && s->submit == submit;
}

static void forget(bool submit, bool unsure)
{
    int kept = 0;
    for (int i = 0; i < shell_store.count; i++) {
        struct staged *s = &shell_store.list[i];
        if (unsure ? s->unsure : is_of(s, submit))
            release(s);
        else
            shell_store.list[kept++] = *s;
    }
    shell_store.count = kept;
}

void shell_store_forget(void)
{
    forget(true, false);
    forget(false, false);
}

/* ---- the commit ---- */

static void take(struct world *w, struct staged *s)
{
    struct stored *stored = &w->store[s->job];
    if (s->submit && stored->count > 0)
        broke(w, "job %d was submitted once, and is job %lld and %lld", s->job, (long long)shell_store.ids[s->job],
              (long long)s->id);
    if (s->submit)
        shell_store.ids[s->job] = s->id;
    w->hub[s->job].core = s->core;
    for (int i = 0; i < s->out.count; i++)
        if (s->out.events[i].kind == EVENT_RETRY)
            w->hub[s->job].ready_ms = s->at_ms + s->core.backoff_ms - TICK_MS;
    history_commit(w, s->job, &s->core, &s->out, &s->in, s->seq);
}

static bool staged(bool submit)
{
    int i = 0;
    while (i < shell_store.count && !is_of(&shell_store.list[i], submit))
        i++;
    return i < shell_store.count;
}

/* All that the commit is about; those of an earlier one that failed are overwritten when this one succeeds. */
static void set_unsure(bool submit)
{
    for (int i = 0; i < shell_store.count; i++)
        if (is_of(&shell_store.list[i], submit))
            shell_store.list[i].unsure = true;
}

static void take_all(struct world *w)
{
    shell_sync(w);
    for (int i = 0; i < shell_store.count; i++)
        if (shell_store.list[i].unsure)
            take(w, &shell_store.list[i]);
    forget(false, true);
}

/* Some input only moves the acknowledged number. */
static bool is_there(const struct staged *s, struct store *store, const struct stored *known)
{
    struct job_row row;
    struct attempt_row attempt;
    if (jobs_get(&row, store, s->id, NULL) == 0 && row.last_seq > known->count)
        return true;
    return s->seq > 0 && attempts_get(&attempt, store, s->id, s->core.attempt, NULL) == 0 && attempt.acked >= s->seq;
}

void shell_store_settle(struct world *w, struct store *store)
{
    const struct staged *s = shell_store.list;
    while (s < shell_store.list + shell_store.count && !s->unsure)
        s++;
    if (s < shell_store.list + shell_store.count && is_there(s, store, &w->store[s->job]))
        take_all(w);
    else
        forget(false, true);
}

/* Before or after a commit that decides something. */
static void may_die(int odds)
{
    if (fault(shell_world(), odds, HARM_HUB_CRASH))
        shell_die();
}

static int finish(int (*commit)(struct store *s, struct err *err), struct store *s, bool submit, struct err *err)
{
    const bool matters = staged(submit);
    if (!matters)
        return commit(s, err);
    may_die(400);
    forget(false, true);
    set_unsure(submit);
    const int rc = commit(s, err);
    if (rc == 0)
        take_all(shell_world());
    if (rc == 0)
        may_die(200);
    return rc;
}

int __wrap_store_commit_group(struct store *s, struct err *err)
{
    return finish(__real_store_commit_group, s, false, err);
}

int __wrap_store_commit(struct store *s, struct err *err)
{
    return finish(__real_store_commit, s, true, err);
}

void __wrap_store_rollback(struct store *s)
{
    forget(true, false);
    __real_store_rollback(s);
}

/* ---- decisions ---- */

int __wrap_job_core_step(struct job_core *core, const struct core_input *in, struct core_output *out, struct err *err)
{
    struct world *w = shell_world();
    shell_store.in = *in;
    w->cover.inputs++;
    cover_arrows(&w->cover);
    const int rc = __real_job_core_step(core, in, out, err);
    cover_arrows(NULL);
    return rc;
}

int __wrap_job_store_write(struct job *job, const struct job_core *was, const struct core_output *out,
                           const struct event_source *told, struct err *err)
{
    const int rc = __real_job_store_write(job, was, out, told, err);
    if (rc == 0)
        stage(job, out, told, false);
    return rc;
}

int __wrap_job_store_submit(struct job *job, const struct core_output *out, const char *yaml, const char *canonical,
                            struct err *err)
{
    const int rc = __real_job_store_submit(job, out, yaml, canonical, err);
    if (rc == 0)
        stage(job, out, NULL, true);
    return rc;
}

int __wrap_job_store_heard(struct job *job, const struct event_source *told, struct err *err)
{
    struct world *w = shell_world();
    const int rc = __real_job_store_heard(job, told, err);
    if (rc == 0)
        broke(w, "job %lld does not understand event %lld of its agent", (long long)job->core.id, (long long)told->seq);
    return rc;
}
