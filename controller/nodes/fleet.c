/* SPDX-License-Identifier: Apache-2.0 */
/* fleet.c - see fleet.h */
#include "controller/nodes/fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/plan/plan.h"
#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_env.h"
#include "controller/job/job_apply.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_file.h"
#include "controller/job/sweep.h"
#include "controller/nodes/fleet_probe.h"
#include "controller/nodes/placement.h"
#include "controller/nodes/shared_dir.h"
#include "controller/remote/remote.h"
#include "db/nodes.h"
#include "engine/base/clock.h"
#include "engine/base/dir_identity.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/text_append.h"

enum { AGAIN_MS = 1000 };   /* retry a failed store: the disk may have space again */

static void read_boot_id(char *out, size_t size)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    out[0] = 0;
    if (f && fgets(out, (int)size, f))
        out[strcspn(out, "\n")] = 0;
    if (f)
        fclose(f);
}

/* Where agents wait for GPUs that others use (docs/SHARED-BOX.md), those count: they are free some day. */
static void count_used_gpus(const json_t *facts)
{
    json_t *gpu;
    size_t i;
    if (field_text(json_object_get(facts, "machine"), "dir")[0])
        json_array_foreach (json_object_get(facts, "gpus"), i, gpu)
            json_object_del(gpu, "processes");
}

static void take_facts(struct daemon *d, json_t *facts)
{
    struct fleet *f = d->fleet;
    f->probe = NULL;
    json_decref(f->facts);
    f->facts = facts;
    count_used_gpus(facts);
    d->machine.gpus = plan_count_gpus(facts);
    char *text = json_dumps(facts, JSON_COMPACT);
    struct err err = { 0 };
    const struct node_row row = { .name = f->node, .boot_id = f->boot_id, .cpus = d->machine.cpus,
                                  .facts = text ? text : "{}", .last_seen_ms = daemon_now_ms() };
    if (nodes_put(d->store, &row, &err) < 0)
        log_warn(NULL, "%s", err.text);
    free(text);
    fleet_dirty(d);
}

int fleet_open(struct daemon *d, struct err *err)
{
    struct fleet *f = d->fleet;
    cpu_set_t set;
    if (gethostname(f->node, sizeof(f->node)) < 0)
        return err_set(err, ERR_SYSTEM, "cannot read the hostname: %m");
    f->node[sizeof(f->node) - 1] = 0;
    read_boot_id(f->boot_id, sizeof(f->boot_id));
    d->machine.boot = job_core_boot(f->boot_id);
    d->machine.cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    uv_timer_init(&d->loop, &f->soon);
    uv_timer_init(&d->loop, &f->wake);
    f->soon.data = d;
    f->wake.data = d;
    f->probe = fleet_probe_open(d, take_facts);
    return 0;
}

void fleet_close(struct daemon *d)
{
    struct fleet *f = d->fleet;
    fleet_probe_close(f->probe);
    uv_close((uv_handle_t *)&f->soon, NULL);
    uv_close((uv_handle_t *)&f->wake, NULL);
    json_decref(f->facts);
    sched_queue_fini(&f->queue);
    job_order_fini(&f->after);
    job_order_fini(&f->named);
    job_order_fini(&f->writers);
    f->probe = NULL;
    f->facts = NULL;
}

bool fleet_lacks_nvml(const struct daemon *d)
{
    const json_t *facts = d->fleet->facts;
    return facts && json_array_size(json_object_get(facts, "gpus")) == 0 &&
           json_is_null(json_object_get(facts, "gpu_note"));
}

void fleet_free(const struct daemon *d, int64_t *cpus, int64_t *gpus)
{
    *cpus = d->machine.cpus;
    *gpus = d->machine.gpus;
    for (size_t i = 0; i < d->active_jobs->begun.count; i++) {
        *cpus -= active_jobs_begun(d->active_jobs, i)->core.cpus;
        *gpus -= active_jobs_begun(d->active_jobs, i)->core.gpus;
    }
    if (*cpus < 0)
        *cpus = 0;
    if (*gpus < 0)
        *gpus = 0;
}

static int64_t held_by(const struct job *job, bool gpus)
{
    return gpus ? job->core.gpus : job->core.cpus;
}

void fleet_users(char *out, size_t size, const struct daemon *d, bool gpus)
{
    int64_t held = 0, first = 0, last = 0;
    size_t jobs = 0;
    char ids[160] = "";
    for (size_t i = 0; i <= d->active_jobs->begun.count; i++) {     /* by id; the last turn ends the last range */
        const struct job *job = i < d->active_jobs->begun.count ? active_jobs_begun(d->active_jobs, i) : NULL;
        if (job && held_by(job, gpus) == 0)
            continue;
        if (first && (!job || job->core.id != last + 1)) {
            text_append(ids, sizeof(ids), "%s%lld", ids[0] ? ", " : "", (long long)first);
            if (last > first)
                text_append(ids, sizeof(ids), "-%lld", (long long)last);
            first = 0;
        }
        first = job && !first ? job->core.id : first;
        last = job ? job->core.id : last;
        held += job ? held_by(job, gpus) : 0;
        jobs += job != NULL;
    }
    out[0] = '\0';
    if (jobs > 0)
        snprintf(out, size, "%lld in use by job%s %s", (long long)held, jobs == 1 ? "" : "s", ids);
}

/* ---- the queue ---- */

/* The worst state of its dependencies; final states are cached. */
static void judge_after(struct sched_job *s, struct job *job)
{
    struct daemon *d = job->daemon;
    s->dep = DEP_SUCCEEDED;
    for (size_t i = 0; i < job->spec.nafter; i++) {
        struct job_after *a = &job->spec.after[i];
        struct job_row row;
        if (!a->settled && !active_jobs_find(d->active_jobs, a->id)) {
            a->settled = true;
            a->succeeded = jobs_get(&row, d->store, a->id, NULL) == 0 &&
                           strcmp(row.result, "succeeded") == 0;
        }
        const enum dep_state done = spec_after_met(a->kind, a->succeeded) ? DEP_SUCCEEDED : DEP_FAILED;
        const enum dep_state dep = a->settled ? done : DEP_OPEN;
        if (dep > s->dep) {
            s->dep = dep;
            s->dep_id = a->id;
            s->dep_kind = a->kind;
        }
    }
}

static void judge_dir(struct sched_job *s, struct job *job)
{
    const struct job *writer = shared_dir_writer(job, &job->daemon->fleet->writers);
    s->writer = writer ? writer->core.id : 0;
    if (writer)
        shared_dir_text(job, writer);
    else if (job->filed.verdict.writer)
        job->texts->unplaced[0] = 0;
}

static bool same_wait(const struct sched_job *a, const struct sched_job *b)
{
    return a->priority == b->priority && a->held == b->held && a->not_before_ms == b->not_before_ms &&
           a->cpus == b->cpus && a->gpus == b->gpus && a->dep == b->dep && a->dep_id == b->dep_id &&
           a->dep_kind == b->dep_kind &&
           a->writer == b->writer;
}

static struct job *sweep_of(const struct job *member)
{
    const int64_t id = job_sweep_of(member);
    struct job *sweep = id > 0 ? active_jobs_find(member->daemon->active_jobs, id) : NULL;
    return sweep && sweep->sweep ? sweep : NULL;
}

/* Does it wait for others of its sweep: for the end of a member, or for a place beside them? */
static bool waits_for_members(struct job *job)
{
    const struct job *sweep = sweep_of(job);
    if (job->sweep)
        return !sweep_may_start(job->sweep) && !sweep_is_over(job->sweep);
    if (!sweep || sweep_has_place(sweep->sweep))
        return false;
    snprintf(job_texts(job)->unplaced, sizeof(job->texts->unplaced), "waiting for a place in Slurm: max_parallel is "
             "%lld in sweep %lld", (long long)sweep->sweep->max_parallel, (long long)sweep->core.id);
    job->filed.verdict.word = SCHED_HOST;
    return true;
}

static int file(struct fleet *f, struct job *job)
{
    const int index = job->member ? job->member->index : 0;
    struct sched_job now = { .id = job->core.id, .priority = job->core.priority, .held = job->core.held,
                             .not_before_ms = job->times.ready_ms, .cpus = job->need.want_cpus,
                             .gpus = job->need.want_gpus,
                             .order = sched_order(job->core.id, job_sweep_of(job), index), .owner = job };
    if (waits_for_members(job)) {
        sched_queue_drop(&f->queue, &job->filed.verdict);
        return 0;
    }
    judge_after(&now, job);
    judge_dir(&now, job);
    if (job->filed.verdict.shelf != SHELF_NONE && same_wait(&now, &job->filed.verdict))
        return 0;
    sched_queue_drop(&f->queue, &job->filed.verdict);
    job->filed.verdict = now;
    f->explained = false;
    for (size_t i = 0; i < job->spec.nafter; i++)
        if (job_order_put(&f->after, job->spec.after[i].id, job->core.id, job) < 0)
            return -1;
    return sched_queue_put(&f->queue, &job->filed.verdict);
}

/* Among those that wait for a directory, or that write there. */
static int file_dir(struct fleet *f, struct job *job)
{
    const int64_t key = shared_dir_key(job);
    const bool writes = shared_dir_writes(job), waits = job_core_waits(&job->core);
    if (!waits)
        job_order_drop(&f->named, key, job->core.id);
    if (waits && job_order_put(&f->named, key, job->core.id, job) < 0)
        return -1;
    return writes ? job_order_put(&f->writers, key, job->core.id, job) : 0;
}

static void say_no_memory(const struct job *job)
{
    log_error(NULL, "out of memory for the queue: job %lld may wait until the daemon restarts",
              (long long)job->core.id);
}

/* A job has begun to write its directory, or has stopped: who waits for that? */
static void judge_again(struct fleet *f, int64_t key)
{
    for (size_t i = job_order_find(&f->named, key, 0); i < f->named.count && job_order_at(&f->named, i)->a == key;
         i++)
        if (file(f, job_order_at(&f->named, i)->of) < 0)
            say_no_memory(job_order_at(&f->named, i)->of);
}

/* An attempt of a member lives, or has ended: who of its sweep waits for that? */
static void note_attempt(struct job *job)
{
    struct job *sweep = job->filed.live != job->core.live ? sweep_of(job) : NULL;
    if (!sweep || !sweep->sweep->in_waves)
        return;
    sweep_attempt(sweep->sweep, job->core.live ? 1 : -1);
    for (size_t i = 0; i < job->daemon->active_jobs->count; i++) {
        struct job *other = job->daemon->active_jobs->jobs[i];
        if (other != job && (other == sweep || sweep_of(other) == sweep) && job_core_waits(&other->core) &&
            file(job->daemon->fleet, other) < 0)
            say_no_memory(other);
    }
}

void fleet_note(struct job *job)
{
    struct daemon *d = job->daemon;
    struct fleet *f = d->fleet;
    int rc = active_jobs_note(d->active_jobs, job);
    note_attempt(job);
    if (job->spec.dir && file_dir(f, job) < 0)
        rc = -1;
    if (!job_core_waits(&job->core)) {
        f->explained &= job->filed.verdict.shelf == SHELF_NONE;
        sched_queue_drop(&f->queue, &job->filed.verdict);
    } else if (file(f, job) < 0) {
        rc = -1;
    }
    if (rc < 0)
        say_no_memory(job);
    const bool changed = job->filed.attempt != job->core.attempt || job->filed.live != job->core.live;
    job->filed.attempt = job->core.attempt;
    job->filed.live = job->core.live;
    if (changed && job->core.attempt > 0)
        judge_again(f, shared_dir_key(job));
}

/* The dependency of some is done. */
static void settle(struct fleet *f, const struct job *done)
{
    const int64_t id = done->core.id;
    for (size_t i = job_order_find(&f->after, id, 0); i < f->after.count && job_order_at(&f->after, i)->a == id;
         i++) {
        struct job *next = job_order_at(&f->after, i)->of;
        for (size_t k = 0; k < next->spec.nafter; k++)
            if (next->spec.after[k].id == id) {
                next->spec.after[k].settled = true;
                next->spec.after[k].succeeded = done->core.result == RESULT_SUCCEEDED;
            }
        fleet_note(next);
    }
}

void fleet_take_out(struct job *job)
{
    struct fleet *f = job->daemon->fleet;
    const int64_t id = job->core.id, key = shared_dir_key(job);
    sched_queue_drop(&f->queue, &job->filed.verdict);
    f->explained = false;
    for (size_t i = 0; i < job->spec.nafter; i++)
        job_order_drop(&f->after, job->spec.after[i].id, id);
    job_order_drop(&f->named, key, id);
    job_order_drop(&f->writers, key, id);
}

void fleet_forget(struct job *job)
{
    struct fleet *f = job->daemon->fleet;
    const int64_t key = shared_dir_key(job);
    fleet_take_out(job);
    settle(f, job);
    judge_again(f, key);
}

const struct job *fleet_dependent(const struct daemon *d, int64_t id)
{
    const struct job_order *after = &d->fleet->after;
    const size_t i = job_order_find(after, id, 0);
    return i < after->count && job_order_at(after, i)->a == id ? job_order_at(after, i)->of : NULL;
}

/* The results of the whole queue: O(n log n). */
static void explain_all(struct daemon *d, struct sched_job *queue)
{
    struct sched_node node = { .cpus = d->machine.cpus, .gpus = d->machine.gpus };
    size_t n = 0;
    for (size_t i = 0; i < d->active_jobs->count; i++)
        if (d->active_jobs->jobs[i]->filed.verdict.shelf != SHELF_NONE)
            queue[n++] = d->active_jobs->jobs[i]->filed.verdict;
    fleet_free(d, &node.cpus_free, &node.gpus_free);
    sched_run(queue, n, &node, clock_ms());
    for (size_t i = 0; i < n; i++) {
        struct job *job = queue[i].owner;
        job->filed.verdict.word = queue[i].word == SCHED_PLACE && job->texts->unplaced[0] ? SCHED_HOST : queue[i].word;
        job->filed.verdict.other = queue[i].other;
        job->filed.verdict.place = queue[i].place;
    }
}

void fleet_explain(struct daemon *d)
{
    if (d->fleet->explained || !d->fleet->facts)
        return;
    struct sched_job *queue = calloc(d->active_jobs->count + 1, sizeof(*queue));
    if (queue)
        explain_all(d, queue);
    d->fleet->explained = queue != NULL;
    free(queue);
}

/* ---- a pass ---- */

static void nonce_make(char out[CORE_NONCE])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (unsigned char)daemon_random();
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static int refuse(struct job *job, const char *text, struct err *err)
{
    const struct core_input in = { .kind = CORE_REFUSE, .at_ms = daemon_now_ms(), .text = text };
    return job_apply(job, &in, NULL, err);
}

/* Was the directory of a job that has run moved or removed, with what it has reached? */
static bool lost_directory(char *out, size_t size, const struct job *job)
{
    char dir[PATH_MAX];
    job_dir(dir, sizeof(dir), job->daemon, job->core.id);
    if (job->core.attempt == 0)
        return false;
    const int fd = job_dir_open_file(job->daemon->home.path, job->core.id, "spec.json", O_RDONLY, NULL), why = errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 || why != ENOENT)
        return false;
    snprintf(out, size, "its directory was moved or removed while it ran: put it back as %s, then `jobctl retry "
             "%lld`", dir, (long long)job->core.id);
    return true;
}

/* Is it the directory of another job? So it is where an older store was restored. */
static bool strange_directory(char *out, size_t size, const struct job *job)
{
    char dir[PATH_MAX];
    job_dir(dir, sizeof(dir), job->daemon, job->core.id);
    json_t *spec = job_dir_spec(job->daemon->home.path, job->core.id);
    const bool strange = job_file_of_another(job->daemon->home.path, job->core.id, spec, job->spec.origin);
    if (strange)
        snprintf(out, size, "its directory %s belongs to another job (%.60s): the store is older than the directory; "
                 "`jobctl retry %lld` runs it in a new one", dir, field_text(spec, "name"), (long long)job->core.id);
    json_decref(spec);
    return strange;
}

/* A member that can never run, say after a change of this machine, ends its sweep. */
static struct job *start_member(struct job *sweep, struct err *err)
{
    struct job *member = sweep->daemon->fleet->member(sweep, err);
    if (member || err->code != ERR_USAGE)
        return member;
    const struct err why = *err;
    *err = (struct err){ .code = ERR_NONE };
    refuse(sweep, why.text, err);
    return NULL;
}

static int place(struct job *job, const struct sched_job *s, struct err *err)
{
    const struct daemon *d = job->daemon;
    char nonce[CORE_NONCE], text[PATH_MAX + 240];
    if (!home_is_here(&job->daemon->home))
        return err_set(err, ERR_SYSTEM, "no job starts while JOBCTL_HOME is missing from its path");
    if (lost_directory(text, sizeof(text), job) || strange_directory(text, sizeof(text), job))
        return refuse(job, text, err);
    if (!job_env_complete(job)) {
        snprintf(text, sizeof(text), "the values of its secrets are missing from %.3000s/jobs/%lld/secrets.env; set "
                 "them and run `jobctl retry %lld`", d->home.path, (long long)job->core.id, (long long)job->core.id);
        return refuse(job, text, err);
    }
    if (job->sweep && sweep_is_over(job->sweep))
        return d->fleet->settle(job, err);
    if (waits_for_members(job))
        return file(d->fleet, job);     /* another one of this pass has taken the place */
    json_t *where = placement_make(job);
    if (!where)
        return 0;           /* job->texts->unplaced says why */
    if (job->sweep && !(job = start_member(job, err))) {
        json_decref(where);
        return err->code ? -1 : 0;
    }
    nonce_make(nonce);
    if (job_apply_clock(job, err) < 0) {
        json_decref(where);
        return -1;
    }
    json_t *body = json_make("{s:s, s:I, s:I, s:o}", "nonce", nonce, "cpus", (json_int_t)s->take_cpus,
                             "gpus", (json_int_t)s->take_gpus, "clock",
                             job_core_clock(d->machine.boot, &job->times.clock));
    if (body)
        json_object_update(body, where);
    json_decref(where);
    const struct core_input in = { .kind = CORE_PLACE, .at_ms = daemon_now_ms(), .body = body };
    int rc = body ? job_apply(job, &in, NULL, err) : err_set(err, ERR_MEMORY, "out of memory");
    json_decref(body);
    return rc;
}

/* False: the store failed; the caller tries again. */
static bool act(struct daemon *d, const struct sched_job *s, int64_t now_ms)
{
    struct err err = { 0 };
    struct job *job = active_jobs_find(d->active_jobs, s->id);
    char text[160], tag[24];
    int rc = 0;
    if (!job || !job_core_waits(&job->core))
        return true;
    if (s->word == SCHED_PLACE && job->filed.verdict.shelf != SHELF_LINE) {
        fleet_dirty(d);         /* an earlier job of this pass writes its directory: others get its slots */
        return true;
    }
    if (s->word == SCHED_AFTER_FAILED) {
        sched_text(text, sizeof(text), s, now_ms);
        rc = refuse(job, text, &err);
    } else if (s->word == SCHED_PLACE) {
        rc = place(job, s, &err);
    }
    snprintf(tag, sizeof(tag), "%lld", (long long)s->id);
    if (rc < 0)
        log_error(tag, "%s; trying again", err.text);
    return rc == 0;
}

/* Stops jobs beyond max_duration; returns in how many milliseconds the next one reaches it, or -1. */
static int64_t limits(struct daemon *d)
{
    int64_t next = -1;
    const int64_t now_ms = clock_boot_ms();
    for (size_t i = d->active_jobs->begun.count; i-- > 0;) {
        struct job *job = active_jobs_begun(d->active_jobs, i);
        const struct job_core *c = &job->core;
        if (!job->spec.max_duration_ms || !job->times.limit_ms || c->state == JOB_STOPPING)
            continue;
        const int64_t left = job->times.limit_ms - now_ms;
        if (left > 0) {
            next = next < 0 || left < next ? left : next;
            continue;
        }
        if (job->texts->lease[0] || (job->member && job->member->placed_ms)) {
            next = next < 0 || next > AGAIN_MS ? AGAIN_MS : next; /* it waits for other users */
            continue;
        }
        struct err err = { 0 };
        char reason[96];
        snprintf(reason, sizeof(reason), "max_duration (%.0f s) reached", (double)job->spec.max_duration_ms / 1000);
        json_t *body = json_make("{s:s, s:b, s:b}", "reason", reason, "limit", 1, "now", 0);
        const struct core_input in = { .kind = CORE_STOP, .at_ms = daemon_now_ms(), .body = body };
        if (body && job_apply(job, &in, NULL, &err) < 0) {
            log_error(NULL, "job %lld: %s; trying again", (long long)c->id, err.text);
            next = AGAIN_MS;
        }
        json_decref(body);
    }
    return next;
}

static void pass(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    struct fleet *f = d->fleet;
    const uint64_t began = uv_hrtime();
    const int64_t now_ms = clock_ms();
    struct sched_node node = { .cpus = d->machine.cpus, .gpus = d->machine.gpus };
    int64_t wake;
    if (!f->facts)
        return;             /* the probe's answer requests another pass */
    fleet_free(d, &node.cpus_free, &node.gpus_free);
    f->explained = false;
    if (sched_queue_pass(&f->queue, &node, now_ms, &wake) < 0) {
        log_error(NULL, "out of memory for a queue of %zu jobs", d->active_jobs->count);
        wake = now_ms + AGAIN_MS;
    }
    f->cost_us = (uv_hrtime() - began) / 1000;
    for (size_t i = 0; i < f->queue.nstarts; i++)
        if (!act(d, &f->queue.starts[i], now_ms) && (wake < 0 || wake > now_ms + AGAIN_MS))
            wake = now_ms + AGAIN_MS;
    int64_t wait = limits(d);              /* includes jobs just placed */
    if (wake >= 0 && (wait < 0 || wake - now_ms < wait))
        wait = wake > now_ms ? wake - now_ms : 0;
    if (wait >= 0)
        uv_timer_start(&f->wake, pass, (uint64_t)wait + 1, 0);
}

void fleet_dirty(struct daemon *d)
{
    struct fleet *f = d->fleet;
    f->explained = false;
    if (!d->stopping && !uv_is_active((uv_handle_t *)&f->soon))
        uv_timer_start(&f->soon, pass, f->cost_us < 33000 ? f->cost_us * 30 / 1000 : 1000, 0);
}
