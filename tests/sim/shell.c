/* SPDX-License-Identifier: Apache-2.0 */
/* shell.c - see shell.h */
#include "tests/sim/shell.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "controller/base/daemon.h"
#include "controller/daemon/replay.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/nodes/fleet.h"
#include "controller/nodes/fleet_probe.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "tests/sim/virtual_disk.h"
#include "tests/sim/virtual_process.h"
#include "tests/sim/world.h"

enum { MS = 1000000, FDS = 1024, CHECK_TURNS = 16 };

static struct {
    struct world       *world;
    struct sim_process *process;
    struct daemon      *daemon;
    char                home[64];
    int64_t             began_ns;
    int                 first_fd;
    int64_t             jumped, slept;  /* ms, of the virtual clock */
    bool                kept[FDS];
    bool                dying;
} shell;

struct world *shell_world(void)
{
    return shell.world;
}

const char *shell_home(void)
{
    return shell.home;
}

struct daemon *shell_daemon(void)
{
    return shell.daemon;
}

void shell_keep(int fd, bool keep)
{
    if (fd >= 0 && fd < FDS)
        shell.kept[fd] = keep;
}

int64_t shell_ms(int64_t clock_at_ms)
{
    return clock_at_ms - shell.began_ns / MS;
}

void shell_sync(struct world *w)
{
    w->now = shell_ms(sim_now() / MS);
}

/* ---- the process ---- */

static void is_gone(struct world *w)
{
    shell.daemon = NULL;
    w->up = false;
    w->life++;
    shell_store_forget();
    shell_link_forget();
    for (int j = 0; j < w->jobs; j++)
        for (int n = 1; n < ATTEMPTS; n++)
            w->agents[j][n].conn = 0;
}

static void close_all(void)
{
    for (int fd = shell.first_fd, to; fd < FDS; fd = to + 1) {
        for (to = fd; to + 1 < FDS && !shell.kept[to + 1]; to++)
            ;
        if (!shell.kept[fd])
            close_range((unsigned)fd, (unsigned)to, 0);
    }
}

/* By itself or killed. */
static void ended(struct sim_process *p)
{
    virtual_disk_left(p);
    if (p != shell.process)
        return;
    shell.process = NULL;
    is_gone(shell.world);
    close_all();
    plan(shell.world, between(shell.world, 1, 8000), HUB_START, 0, 0, 0);
}

static void run(void *arg)
{
    const struct daemon_options options = { .detach = false, .ready_fd = -1 };
    struct err err = { 0 };
    struct world *w = arg;
    const long failures = w->cover.harms[HARM_STORE_FAILS];
    if (daemon_run(&options, &err) < 0 && !w->full && w->cover.harms[HARM_STORE_FAILS] == failures)
        broke(w, "the controller ends: %s", err.text);
}

static void start(struct world *w)
{
    if (shell.process)
        return;
    say(w, "the controller starts");
    w->life++;
    shell.process = sim_start("daemon", run, w);
    if (!shell.process)
        abort();
}

void hub_crash(struct world *w)
{
    (void)w;
    if (shell.process)
        sim_kill(shell.process);
}

void shell_die(void)
{
    sim_kill(shell.process);
}

/* ---- the replaced parts ---- */

struct fleet_probe {
    uv_timer_t     timer;
    struct daemon *daemon;
    fleet_probe_fn told;
};

static void probe_closed(uv_handle_t *h)
{
    free(h);
}

static void probed(uv_timer_t *t)
{
    struct fleet_probe *p = (struct fleet_probe *)(void *)t;
    uv_close((uv_handle_t *)t, probe_closed);
    p->told(p->daemon, json_object());
}

struct fleet_probe *fleet_probe_open(struct daemon *d, fleet_probe_fn told)
{
    struct fleet_probe *p = calloc(1, sizeof(*p));
    if (!p)
        abort();
    shell.daemon = d;
    snprintf(d->fleet->boot_id, sizeof(d->fleet->boot_id), "boot-%d", shell.world->boots);
    d->machine.boot = job_core_boot(d->fleet->boot_id);
    p->daemon = d;
    p->told = told;
    uv_timer_init(&d->loop, &p->timer);
    uv_timer_start(&p->timer, probed, (uint64_t)sim_between(1, 300), 0);
    return p;
}

void fleet_probe_close(struct fleet_probe *p)
{
    if (p)
        uv_close((uv_handle_t *)&p->timer, probe_closed);
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    memset(set, 0, size);
    for (int i = 0; i < shell.world->cpus; i++)
        CPU_SET(i, set);
    return 0;
}

/* ---- its memory is what it has committed ---- */

static void compare_all(struct world *w, const struct daemon *d)
{
    for (int j = 0; j < w->jobs; j++) {
        const struct stored *s = &w->store[j];
        const struct job *job = shell_id(j) ? active_jobs_find(d->active_jobs, shell_id(j)) : NULL;
        if (s->count > 0 && !s->done && !job)
            broke(w, "job %d is lost: the controller started and does not know it", j);
        if (s->done && job)
            broke(w, "job %d was done, and the controller started again with it", j);
        if (job)
            history_compare(w, j, &job->core);
    }
}

int __real_replay_all(struct daemon *d, struct err *err);
int __wrap_replay_all(struct daemon *d, struct err *err);
int __wrap_replay_all(struct daemon *d, struct err *err)
{
    shell.daemon = d;
    shell_store_settle(shell.world, d->store);
    const int rc = __real_replay_all(d, err);
    if (rc == 0) {
        compare_all(shell.world, d);
        shell.world->up = true;
        say(shell.world, "the controller is up");
    }
    return rc;
}

/* ---- what the rules ask ---- */

static enum dep_state dep_of(const struct world *w, int job)
{
    int on = w->after[job];
    if (on < 0)
        return DEP_SUCCEEDED;
    if (!w->store[on].done)
        return DEP_OPEN;
    return w->store[on].latest.result == RESULT_SUCCEEDED ? DEP_SUCCEEDED : DEP_FAILED;
}

size_t hub_queue(const struct world *w, struct sched_job *queue, struct sched_node *node)
{
    const struct daemon *d = shell.daemon;
    size_t n = 0;
    *node = (struct sched_node){ .cpus = w->cpus, .cpus_free = w->cpus };
    for (int j = 0; j < w->jobs && d; j++) {
        const struct job *job = shell_id(j) ? active_jobs_find(d->active_jobs, shell_id(j)) : NULL;
        if (!job)
            continue;
        node->cpus_free -= job->core.cpus;
        if (job_core_waits(&job->core))
            queue[n++] = (struct sched_job){
                .id = shell_id(j), .priority = job->core.priority, .held = job->core.held,
                .not_before_ms = shell_ms(job->times.ready_ms), .cpus = w->truth[j].np,
                .dep = dep_of(w, j), .dep_id = w->after[j] < 0 ? 0 : shell_id(w->after[j]) };
    }
    return n;
}

int64_t hub_pass(const struct world *w)
{
    const struct fleet *f = shell.daemon->fleet;
    int64_t due = INT64_MAX;
    const uv_timer_t *timers[2] = { &f->soon, &f->wake };
    for (int i = 0; i < 2; i++)
        if (uv_is_active((const uv_handle_t *)timers[i]) && (int64_t)timers[i]->timeout < due)
            due = (int64_t)timers[i]->timeout;
    if (due == INT64_MAX)
        return due;
    due = shell_ms(due);
    return due > w->now ? due : w->now;
}

static void check(struct world *w)
{
    shell_sync(w);
    rules_check(w);
}

/* ---- the world ---- */

/* Killed, asked to stop, or without a processor for a while. */
static void crash(struct world *w)
{
    const uint64_t how = chance(w) % 4;
    if (!shell.process)
        return;
    if (how == 0) {
        say(w, "! the controller gets SIGTERM");
        w->cover.harms[HARM_HUB_STOP]++;
        sim_signal(shell.process, SIGTERM);
    } else if (how == 1) {
        const int64_t ms = between(w, 100, 20000);
        say(w, "! the controller gets no processor for %lld ms", (long long)ms);
        w->cover.harms[HARM_HUB_STALL]++;
        sim_stall(shell.process, sim_now() + ms * MS);
    } else {
        say(w, "! the controller dies");
        w->cover.harms[HARM_HUB_CRASH] += w->up;
        hub_crash(w);
    }
}

static void power_cut(struct world *w)
{
    say(w, "! the machine loses its power");
    w->cover.harms[HARM_POWER]++;
    w->boots++;
    hub_crash(w);
    agents_power_cut(w);
    virtual_disk_power_cut();
}

void hub_happens(struct world *w, const struct happening *h)
{
    switch (h->what) {
    case HUB_START:
        start(w);
        return;
    case HUB_CRASH:
        crash(w);
        return;
    case POWER_CUT:
        power_cut(w);
        return;
    case HUB_HEARS:
        shell_link_hears(w, h);
        return;
    case LINK_CUT:
        shell_link_cut(w, h);
        return;
    case PERSON:
        shell_person(w, h);
        return;
    case DISK_FULL:
    case DISK_FREE:
        w->full = h->what == DISK_FULL;
        say(w, "! the store's disk %s", w->full ? "is full" : "has room again");
        w->cover.harms[HARM_STORE_FULL] += w->full;
        if (w->full)
            plan(w, between(w, 500, 20000), DISK_FREE, 0, 0, 0);
        return;
    default:
        return;
    }
}

/* The world's clocks were set. */
static void follow_clocks(const struct world *w)
{
    const int64_t jumped = w->skew - w->asleep;
    sim_wall_jump((jumped - shell.jumped) * MS);
    sim_suspend((w->asleep - shell.slept) * MS);
    shell.jumped = jumped;
    shell.slept = w->asleep;
}

bool hub_next(struct world *w, struct happening *out)
{
    follow_clocks(w);
    for (int turns = 0; !w->broken[0];) {
        shell_sync(w);
        const int64_t at = w->count ? w->heap[0].at : INT64_MAX;
        if (at <= w->now) {
            next(w, out);
            shell_sync(w);
            return true;
        }
        if (sim_turn()) {
            if (++turns % CHECK_TURNS == 0)
                check(w);
            if (w->now > ALL_DONE_BY_MS)
                broke(w, "a job is lost: not all are done after %d minutes", ALL_DONE_BY_MS / 60000);
            continue;
        }
        const int64_t due = sim_due(), world = at == INT64_MAX ? at : shell.began_ns + at * MS;
        if (due == INT64_MAX && world == INT64_MAX)
            return false;
        sim_clock_to(due < world ? due : world);
    }
    return false;
}

static enum disk_answer ask(enum disk_call call)
{
    struct world *w = shell.world;
    if (call == DISK_WRITE && w->full)
        return DISK_NO_ROOM;
    if (fault(w, 2000, HARM_STORE_FAILS))
        return DISK_FAILS;
    return fault(w, 4000, HARM_STORE_TORN) ? DISK_DIES : DISK_WORKS;
}

void hub_open(struct world *w)
{
    shell.world = w;
    const char *const dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(shell.home, sizeof(shell.home), "%s/jobctl-sim-XXXXXX", dir);
    if (!mkdtemp(shell.home))
        abort();
    if (!w->verbose && (shell.first_fd = open("/dev/null", O_WRONLY | O_CLOEXEC)) >= 0) {
        dup2(shell.first_fd, STDERR_FILENO);    /* its log */
        close(shell.first_fd);
    }
    setenv("JOBCTL_HOME", shell.home, 1);
    json_object_seed(1);
    sim_open(w->seed);
    sim_on_end(ended);
    shell.began_ns = sim_now();
    virtual_disk_open(ask, shell_die);
    shell.first_fd = dup(0);
    close(shell.first_fd);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

void hub_close(struct world *w)
{
    (void)w;
    sim_on_end(NULL);
    nftw(shell.home, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
