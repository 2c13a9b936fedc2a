/* SPDX-License-Identifier: Apache-2.0 */
/* machine_wait.c - see machine_wait.h */
#include "agent/attempt/machine_wait.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/machine/machine_dir.h"
#include "agent/machine/machine_lease.h"
#include "agent/os/lock_bundle.h"
#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "agent/plan/plan.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

enum {
    LOOK_MS = 5000,    /* also for what programs outside jobctl do */
    SOON_MS = 5,       /* another one is looking */
    SETTLE_MS = 10,    /* several changes lead to one look */
    TELL_MS = 10 * 1000,
    STUCK_MS = 3000,   /* after which a held lock `turn` is reported */
    PROBE_MS = 20 * 1000
};

struct machine_wait {
    struct machine_wait_job job;
    struct machine_wait_hooks hooks;
    uv_loop_t *loop;
    struct machine_lease *lease;
    struct machine_ask ask;
    struct subprocess *probe;
    uv_timer_t again;
    uv_poll_t watch;
    int watch_fd;                 /* -1: none */
    bool own;                     /* a directory for this user's jobs only: GPUs only; waits for nobody else */
    bool gone;
    char told[MACHINE_TEXT];
    int64_t began_ms, told_ms, busy_ms; /* told_ms and busy_ms are 0 if never */
    int open;                     /* handles to close before it is freed */
};

/* ---- what the job needs ---- */

static void add_gpu(struct machine_ask *ask, const json_t *gpu, const char *uuid, bool share)
{
    if (ask->ngpus == MACHINE_GPUS || !uuid[0] || strlen(uuid) >= MACHINE_UUID || strchr(uuid, '/'))
        return;
    struct machine_gpu *g = &ask->gpus[ask->ngpus++];
    *g = (struct machine_gpu){.index = (int)field_int(gpu, "index", 0)};
    snprintf(g->uuid, sizeof(g->uuid), "%s", uuid);
    if (share || !plan_gpu_in_use(gpu, g->foreign, sizeof(g->foreign)))
        g->foreign[0] = '\0';
}

/* Whole GPUs, and the slices of those that MIG divides. */
static void list_gpus(struct machine_ask *ask, const json_t *facts, bool share)
{
    const json_t *gpu, *slice;
    size_t i, k;
    ask->ngpus = 0;
    json_array_foreach (json_object_get(facts, "gpus"), i, gpu) {
        if (!field_true(gpu, "mig"))
            add_gpu(ask, gpu, field_text(gpu, "uuid"), share);
        else
            json_array_foreach (json_object_get(gpu, "mig_slices"), k, slice)
                add_gpu(ask, gpu, field_text(slice, "uuid"), true);
    }
}

static int gpu_of(const struct machine_ask *ask, const char *uuid)
{
    for (int i = 0; i < ask->ngpus; i++)
        if (strcmp(ask->gpus[i].uuid, uuid) == 0)
            return i;
    return -1;
}

/* The GPUs of a plan. */
static struct machine_set gpus_of(const struct machine_ask *ask, const json_t *plan)
{
    struct machine_set out = {{0}};
    const json_t *row;
    size_t i;
    json_array_foreach (json_object_get(plan, "ranks"), i, row) {
        const int gpu = gpu_of(ask, field_text(row, "gpu"));
        if (gpu >= 0)
            machine_set_add(&out, gpu);
    }
    return out;
}

static void see_cpus(struct machine_ask *ask)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
        return;
    for (int i = 0; i < MACHINE_CPUS && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cpus))
            machine_set_add(&ask->cpus, MACHINE_GPUS + i);
}

/* Counts slots as the controller does (controller/job/job.c), but training on some of the GPUs takes only their
 * share. */
static int slots(const struct machine_ask *ask, const json_t *spec, const json_t *plan)
{
    const int all = machine_set_cpus(&ask->cpus);
    const json_t *resources = json_object_get(spec, "resources");
    const bool trains = json_is_object(json_object_get(spec, "train"));
    int64_t n = field_int(resources, "cpus", -1);
    if (n < 0 && trains)
        n = ask->need_gpus > 0 ? (int64_t)all * ask->need_gpus / ask->ngpus : all;
    else if (n < 0)
        n = field_int(resources, "ranks", field_int(plan, "np", 1));
    return n > all ? all : n < 1 && trains ? 1 : (int)n;
}

/* The facts as they would be if these GPUs were free, and the others held. With a lease: who holds them; if `spare`,
 * those that nobody holds are marked. */
static json_t *facts_with(const json_t *now, const struct machine_ask *ask, const struct machine_set *mine,
                          const struct machine_lease *lease, bool spare)
{
    json_t *facts = json_deep_copy(now), *gpu, *slice;
    char text[200] = "held by another job";
    bool held = true;
    size_t i, k;
    json_array_foreach (json_object_get(facts, "gpus"), i, gpu) {
        json_t *slices = json_object_get(gpu, "mig_slices");
        const int whole = gpu_of(ask, field_text(gpu, "uuid"));
        for (k = json_array_size(slices); k-- > 0;) {
            slice = json_array_get(slices, k);
            const int part = gpu_of(ask, field_text(slice, "uuid"));
            if (part >= 0 && !machine_set_has(mine, part))
                json_array_remove(slices, k);
        }
        json_object_del(gpu, "held");
        json_object_del(gpu, "spare");
        if (whole < 0 || machine_set_has(mine, whole))
            continue;
        if (lease)
            held = machine_lease_other(text, sizeof(text), lease, whole);
        if (held)
            json_object_set_new(gpu, "held", json_text(text));
        else if (spare)
            json_object_set_new(gpu, "spare", json_true());
    }
    return facts;
}

static const json_t *spec_of(const struct machine_wait *m)
{
    return json_object_get(m->job.launch, "spec");
}

/* A plan for these GPUs alone; NULL: there is none. */
static json_t *plan_for(const struct machine_wait *m, const struct machine_set *mine)
{
    json_t *facts = facts_with(m->job.facts, &m->ask, mine, NULL, false), *gpu, *plan = NULL;
    size_t i;
    json_array_foreach (json_object_get(facts, "gpus"), i, gpu)
        if (!m->own)
            json_object_del(gpu, "processes"); /* the job waits for their end */
    if (plan_make(&plan, facts, spec_of(m), NULL) < 0)
        plan = NULL;
    json_decref(facts);
    return plan;
}

/* True if the job names its GPUs: then it can use no others. */
static bool names_gpus(const json_t *spec)
{
    return json_is_string(json_object_get(json_object_get(spec, "env"), "CUDA_VISIBLE_DEVICES"));
}

/* False: the job needs no lease, or cannot run even with the whole machine, which the plan will report. */
static bool ask_for(struct machine_wait *m)
{
    const json_t *spec = spec_of(m), *resources = json_object_get(spec, "resources");
    struct machine_ask *ask = &m->ask;
    struct machine_set all = {{0}}, planned;
    *ask = (struct machine_ask){.job = m->job.job, .name = field_text(m->job.launch, "name"),
                                .names_to = field_text(m->job.launch, "names_to")};
    list_gpus(ask, m->job.facts, field_true(resources, "share_gpus"));
    for (int i = 0; i < ask->ngpus; i++)
        machine_set_add(&all, i);
    json_t *plan = plan_for(m, &all);
    if (!plan)
        return false;
    planned = gpus_of(ask, plan);
    ask->need_gpus = machine_set_gpus(&planned);
    for (int i = 0; i < ask->ngpus; i++)
        ask->gpus[i].would_do = names_gpus(spec) ? machine_set_has(&planned, i) : ask->need_gpus > 0;
    if (m->own) { /* the controller counts slots, and starts `auto` when it has the machine */
        json_decref(plan);
        return ask->need_gpus > 0;
    }
    if (ask->need_gpus > 1 && !names_gpus(spec) && !json_is_integer(json_object_get(resources, "gpus")))
        ask->need_gpus = 1; /* `auto`: all that are free, and at least one */
    see_cpus(ask);
    ask->need_cpus = slots(ask, spec, plan) * (m->job.nodes > 1 ? m->job.nodes : 1);
    if (ask->need_cpus > machine_set_cpus(&ask->cpus))
        ask->need_cpus = machine_set_cpus(&ask->cpus);
    json_decref(plan);
    return true;
}

/* Which of the remaining GPUs the plan would take. */
static bool choose(void *arg, const struct machine_set *left, struct machine_set *take)
{
    const struct machine_wait *m = arg;
    json_t *plan = plan_for(m, left);
    const struct machine_set picked = gpus_of(&m->ask, plan);
    json_decref(plan);
    if (machine_set_gpus(&picked) < m->ask.need_gpus)
        return false;
    for (int i = 0; i < m->ask.ngpus; i++)
        if (machine_set_has(&picked, i) && !machine_set_has(left, i))
            return false;
    *take = picked;
    return true;
}

/* ---- looking ---- */

static void tell(struct machine_wait *m, bool over, const char *text)
{
    const int64_t now = clock_ms();
    if (!over && (strcmp(text, m->told) == 0 || (m->told_ms && now - m->told_ms < TELL_MS)))
        return;
    snprintf(m->told, sizeof(m->told), "%s", text);
    m->told_ms = now;
    log_info(m->job.tag, "%s", text);
    m->hooks.tell(m->hooks.arg, over, now - m->began_ms, text);
}

static void on_closed(uv_handle_t *handle)
{
    struct machine_wait *m = handle->data;
    if (--m->open > 0)
        return;
    if (m->watch_fd >= 0)
        close(m->watch_fd);
    free(m);
}

/* Stops looking; the lease stays. */
static void stop_looking(struct machine_wait *m)
{
    uv_timer_stop(&m->again);
    if (m->watch_fd >= 0)
        uv_poll_stop(&m->watch);
    subprocess_close(&m->probe, SIGKILL);
}

/* Does a plan for these facts use exactly these GPUs? */
static bool would_take(const struct machine_wait *m, const json_t *facts, const struct machine_set *mine)
{
    json_t *plan = NULL;
    const bool made = plan_make(&plan, facts, spec_of(m), NULL) == 0;
    const struct machine_set planned = gpus_of(&m->ask, plan);
    json_decref(plan);
    return made && memcmp(&planned, mine, sizeof(planned)) == 0;
}

static void have(struct machine_wait *m)
{
    char text[160], gpus[40] = "", slots[40] = "";
    const int cpus = machine_lease_cpus(m->lease);
    struct machine_set mine = {{0}};
    for (int i = 0; i < m->ask.ngpus; i++)
        if (machine_lease_has(m->lease, i))
            machine_set_add(&mine, i);
    json_t *facts = facts_with(m->job.facts, &m->ask, &mine, m->lease, false);
    if (!would_take(m, facts, &mine)) {
        json_decref(facts);
        facts = facts_with(m->job.facts, &m->ask, &mine, m->lease, true);
    }
    json_object_set(m->job.facts, "gpus", json_object_get(facts, "gpus"));
    json_decref(facts);
    if (m->ask.need_gpus > 0)
        snprintf(gpus, sizeof(gpus), "%d GPU%s", machine_set_gpus(&mine), machine_set_gpus(&mine) == 1 ? "" : "s");
    if (!m->own)
        snprintf(slots, sizeof(slots), "%s%d CPU slot%s", gpus[0] ? " and " : "", cpus, cpus == 1 ? "" : "s");
    snprintf(text, sizeof(text), "acquired %s%s on this machine after %.0f s", gpus, slots,
             (double)(clock_ms() - m->began_ms) / 1000);
    if (m->told_ms)
        tell(m, true, text);
    stop_looking(m);
    m->hooks.ready(m->hooks.arg);
}

static void on_again(uv_timer_t *timer);

static void look_after(struct machine_wait *m, int ms)
{
    uv_timer_start(&m->again, on_again, (uint64_t)ms, 0);
}

void machine_wait_look(struct machine_wait *m)
{
    char text[MACHINE_TEXT];
    if (!m->hooks.waits(m->hooks.arg)) {
        stop_looking(m); /* stopped meanwhile */
        return;
    }
    if (m->watch_fd >= 0)
        machine_dir_watched(m->watch_fd);
    const enum machine_lease_state state = machine_lease_try(m->lease, choose, m, text);
    if (state == MACHINE_HOLDS) {
        have(m);
        return;
    }
    const int64_t now = clock_ms();
    m->busy_ms = state != MACHINE_BUSY ? 0 : m->busy_ms ? m->busy_ms : now;
    const bool stuck = m->busy_ms && now - m->busy_ms > STUCK_MS;
    if (state == MACHINE_WAITS || stuck)
        tell(m, false, text);
    look_after(m, state == MACHINE_WAITS ? LOOK_MS : stuck ? 1000 : SOON_MS + (int)(uv_hrtime() / 1000 % SOON_MS));
}

/* ---- programs outside of jobctl ---- */

static void on_probe(void *arg, const struct subprocess_end *e)
{
    struct machine_wait *m = arg;
    struct machine_ask now = {.ngpus = 0};
    json_t *facts = json_loadb(subprocess_text(e->out), e->out->size, 0, NULL), *gpus = json_object_get(facts, "gpus");
    m->probe = NULL;
    if (json_array_size(gpus) > 0) {
        list_gpus(&now, facts, field_true(json_object_get(spec_of(m), "resources"), "share_gpus"));
        machine_lease_set_gpus(m->lease, now.gpus, now.ngpus);
        json_object_set(m->job.facts, "gpus", gpus);
    }
    json_decref(facts);
    machine_wait_look(m);
}

/* The facts are as old as the wait: before each look, updates which programs use the GPUs. */
static void on_again(uv_timer_t *timer)
{
    struct machine_wait *m = timer->data;
    struct err err = {0};
    const struct subprocess_spec s = {
        .argv = (const char *const[]){"/proc/self/exe", "probe", m->job.run_dir, NULL}, .out = SUBPROCESS_PIPE};
    const struct subprocess_hooks hooks = {.ended = on_probe, .arg = m};
    if (m->probe)
        return;
    if (m->ask.need_gpus == 0 || m->busy_ms || !m->hooks.waits(m->hooks.arg) ||
        subprocess_open(&m->probe, m->loop, &s, PROBE_MS, &hooks, &err) < 0)
        machine_wait_look(m);
}

static void on_watch(uv_poll_t *handle, int status, int events)
{
    struct machine_wait *m = handle->data;
    (void)status;
    (void)events;
    machine_dir_watched(m->watch_fd);
    look_after(m, SETTLE_MS);
}

/* ---- begin and end ---- */

static void start_looking(struct machine_wait *m, const char *dir)
{
    m->watch_fd = machine_dir_watch(dir);
    uv_timer_init(m->loop, &m->again);
    m->again.data = m->watch.data = m;
    m->open = 1;
    if (m->watch_fd >= 0 && uv_poll_init(m->loop, &m->watch, m->watch_fd) == 0) {
        m->open = 2;
        uv_poll_start(&m->watch, UV_READABLE, on_watch);
    }
}

/* Slurm gives each job exclusive devices. */
static bool may_lease(const struct machine_wait_job *job)
{
    return job->bundle->hold >= 0 && !getenv("SLURM_JOB_ID");
}

bool machine_wait_dir(const struct machine_wait_job *job, char *dir, size_t size)
{
    struct err err = {0};
    char found[MACHINE_DIR_PATH];
    if (!may_lease(job))
        return false;
    if (machine_dir_find(found, &err) == 0) {
        snprintf(dir, size, "%s", found);
        return true;
    }
    if (err.code != ERR_NOT_FOUND)
        log_warn(job->tag, "jobctl does not wait for jobs of other users: %s", err.text);
    return false;
}

struct machine_wait *machine_wait_open(uv_loop_t *loop, const struct machine_wait_job *job,
                                       const struct machine_wait_hooks *hooks)
{
    char dir[MACHINE_DIR_PATH];
    struct err err = {0};
    const bool shared = machine_wait_dir(job, dir, sizeof(dir));
    struct machine_wait *m = may_lease(job) ? calloc(1, sizeof(*m)) : NULL;
    if (!m)
        return NULL;
    *m = (struct machine_wait){.job = *job, .hooks = *hooks, .loop = loop, .watch_fd = -1, .own = !shared,
                               .began_ms = clock_ms()};
    if (ask_for(m) && (shared || machine_dir_own(dir, job->state, &err) == 0) &&
        machine_lease_open(&m->lease, dir, &m->ask, job->bundle, &err) == 0) {
        start_looking(m, dir);
        return m;
    }
    if (err.text[0])
        log_warn(job->tag, "jobctl does not wait for other jobs: %s", err.text);
    free(m);
    return NULL;
}

void machine_wait_release(struct machine_wait *m)
{
    if (!m || m->gone)
        return;
    stop_looking(m);
    machine_lease_release(m->lease);
    m->lease = NULL;
    m->gone = true;
}

void machine_wait_close(struct machine_wait *m)
{
    if (!m)
        return;
    stop_looking(m);
    machine_lease_close(m->lease);
    m->lease = NULL;
    uv_close((uv_handle_t *)&m->again, on_closed);
    if (m->open == 2)
        uv_close((uv_handle_t *)&m->watch, on_closed);
}
