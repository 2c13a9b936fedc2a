/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - see ranks.h */
#include "agent/ranks/ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/agent_core.h"
#include "agent/os/kernel_log.h"
#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "agent/probe/oom.h"
#include "agent/ranks/capture.h"
#include "agent/ranks/control_group.h"
#include "agent/ranks/graceful_stop.h"
#include "agent/ranks/launch_env.h"
#include "agent/ranks/runner.h"
#include "agent/ranks/snapshot_memfds.h"
#include "agent/ranks/stack_dump.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "engine/base/json_make.h"
#include "engine/contract/progress.h"

struct ranks {
    uv_loop_t *loop;
    struct ranks_hooks hooks;
    struct ranks_job job;
    uv_signal_t sigchld;
    int generation;
    int first; /* rank of all[0] */
    int n;
    struct runner **all; /* of the generation; an entry is NULL if its start failed early */
    struct snapshot_memfds keep;
    int ras_port;
    int group; /* control_group.h; -1: none */
    int64_t oom_before;
    bool aborted; /* ranks of this generation were asked for their stacks */
    struct graceful_stop *stops; /* per rank, of a command that is being stopped */
    uv_timer_t stop_timer;
};

static struct runner *runner_of(const struct ranks *r, int rank)
{
    int i = rank - r->first;
    return i >= 0 && i < r->n ? r->all[i] : NULL;
}

static bool lives(const struct runner *one)
{
    return one && one->pid > 0;
}

/* --- input from ranks ------------------------------------------------------------------ */

/* A rank's rendezvous line, as a command to every other rank. */
void ranks_broadcast(struct ranks *r, const json_t *said)
{
    char text[PROGRESS_LINE];
    json_t *line = json_make("{s:s, s:O?, s:O?}", "cmd", "rendezvous", "key",
                             json_object_get(said, "key"), "value", json_object_get(said, "value"));
    size_t n = line ? json_dumpb(line, text, sizeof(text) - 1, JSON_COMPACT) : 0;
    json_decref(line);
    if (n == 0 || n >= sizeof(text))
        return;
    text[n++] = '\n';
    for (int i = 0; i < r->n; i++)
        if (r->all[i])
            runner_say(r->all[i], text, n);
}

static void on_line(void *arg, int rank, const json_t *line)
{
    struct ranks *r = arg;
    const char *ev = json_string_value(json_object_get(line, "ev"));
    if (!ev || strcmp(ev, "rendezvous") != 0) {
        r->hooks.line(r->hooks.arg, r->generation, rank, line);
        return;
    }
    ranks_broadcast(r, line);
    if (r->hooks.broadcast)
        r->hooks.broadcast(r->hooks.arg, r->generation, line);
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct ranks *r = arg;
    if (r->generation > 0 && r->hooks.output)
        r->hooks.output(r->hooks.arg, rank, bytes, size);
}

/* --- process exit ---------------------------------------------------------------------- */

static void tell_exit(struct ranks *r, struct runner *one, int status)
{
    struct agent_exit e;
    runner_reaped(one, status, &e);
    e.generation = r->generation;
    if (e.signalled && e.signo == SIGKILL) {
        int64_t now = oom_kills();
        e.oom_killed = now > r->oom_before && r->oom_before >= 0;
        r->oom_before = now;
    }
    if (status != 0)
        e.kernel = kernel_log_recent(e.signo == SIGKILL || e.exit_code == 128 + SIGKILL);
    r->hooks.exited(r->hooks.arg, &e);
}

/* The shell above a program that still saves may end before it: its exit is reported when nothing of its session is
 * left. */
static bool is_held(struct ranks *r, int i, int status)
{
    struct runner *one = r->all[i];
    if (!r->stops[i].root || !graceful_stop_look(&r->stops[i], clock_ms()))
        return false;
    one->held = true;
    one->status = status;
    return true;
}

static void on_stop_timer(uv_timer_t *timer)
{
    struct ranks *r = timer->data;
    int going = 0;
    for (int i = 0; i < r->n; i++) {
        if (!r->stops[i].root || !lives(r->all[i]))
            continue;
        const bool left = graceful_stop_look(&r->stops[i], clock_ms());
        if (!left && r->all[i]->held)
            tell_exit(r, r->all[i], r->all[i]->status);
        else
            going++;
    }
    if (!going)
        uv_timer_stop(timer);
}

static void on_sigchld(uv_signal_t *handle, int signo)
{
    (void)signo;
    struct ranks *r = handle->data;
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return;
        /* Other pids are adopted orphans. */
        for (int i = 0; i < r->n; i++)
            if (r->all[i] && r->all[i]->pid == pid) {
                if (!is_held(r, i, status))
                    tell_exit(r, r->all[i], status);
                break;
            }
    }
}

/* --- creation and release -------------------------------------------------------------- */

int ranks_create(struct ranks **out, uv_loop_t *loop, const struct ranks_hooks *hooks, struct err *err)
{
    struct ranks *r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_MEMORY, "no memory for the ranks");
    r->loop = loop;
    r->hooks = *hooks;
    r->group = -1;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    uv_signal_init(loop, &r->sigchld);
    uv_timer_init(loop, &r->stop_timer);
    r->sigchld.data = r->stop_timer.data = r;
    int rc = uv_signal_start(&r->sigchld, on_sigchld, SIGCHLD);
    if (rc < 0) {
        free(r);
        return err_set(err, ERR_SYSTEM, "cannot watch for process exits: %s", uv_strerror(rc));
    }
    *out = r;
    return 0;
}

void ranks_set_job(struct ranks *r, const struct ranks_job *job)
{
    r->job = *job;
    if (r->group < 0)
        r->group = control_group_open(job->run_dir);
}

void ranks_set_container(struct ranks *r, const struct container_job *container)
{
    r->job.container = container;
}

/* Releases the present generation: all of its processes are dead. */
static void forget_all(struct ranks *r)
{
    for (int i = 0; i < r->n; i++) {
        runner_forget(r->all[i]);
        graceful_stop_end(&r->stops[i]);
    }
    free(r->all);
    free(r->stops);
    r->all = NULL;
    r->stops = NULL;
    r->n = 0;
}

void ranks_close(struct ranks *r)
{
    forget_all(r);
    uv_close((uv_handle_t *)&r->stop_timer, NULL);
    uv_close((uv_handle_t *)&r->sigchld, NULL);
}

void ranks_destroy(struct ranks *r)
{
    if (r && r->group >= 0) {
        close(r->group);
        control_group_remove(r->job.run_dir);
    }
    if (r)
        snapshot_memfds_fini(&r->keep);
    free(r);
}

/* --- starting ---------------------------------------------------------------------------*/

/* They are reaped by on_sigchld(): one that is stuck in the kernel must not stop the event loop. */
static void kill_living(const struct ranks *r)
{
    for (int i = 0; i < r->n; i++)
        if (lives(r->all[i]))
            kill(-r->all[i]->pid, SIGKILL);
}

/* Snapshot memory for this generation, and that of an earlier one; without memory files the
 * ranks run without snapshots. */
static void give_snapshots(struct ranks *r, struct launch_env *e)
{
    struct err err = {0};
    e->snapshot_fd = 0;
    if (!r->job.snapshots || e->generation == 0)
        return;
    if (snapshot_memfds_begin(&r->keep, e->generation, e->from, launch_env_local(e), e->world_size, &err) < 0)
        log_warn(e->name, "%s", err.text);
    else
        e->snapshot_fd = SUBPROCESS_FIRST_FD + 2;
    e->old_fd = SUBPROCESS_FIRST_FD + 2 + (e->snapshot_fd > 0);
    e->old_fds = r->keep.last.n;
}

int ranks_claims(const struct ranks *r, struct snapshot_memfds_claim *out)
{
    return r->job.snapshots ? snapshot_memfds_claims(&r->keep, out) : 0;
}

static int give_ports(struct ranks *r, struct launch_env *e, struct err *err)
{
    if (e->generation && e->master_port == 0)
        e->master_port = launch_env_free_port(err);
    /* A rank that is kept keeps its flight page. */
    if (e->generation && json_is_string(json_object_get(launch_env_row(e, e->first_rank), "gpu")))
        r->ras_port = e->ras_port = e->keep && r->ras_port > 0 ? r->ras_port : launch_env_free_port(NULL);
    return e->master_port < 0 ? -1 : 0;
}

/* One rank of the generation: a live process that continues, or a new one. */
static int begin(struct ranks *r, int i, const struct launch_env *e, struct err *err)
{
    const struct runner_hooks hooks = {.line = on_line, .output = on_output, .arg = r};
    const struct runner_role role = {
        .env = e, .job = &r->job, .rank = r->first + i, .group = r->group,
        .snapshot = e->snapshot_fd > 0 ? r->keep.now.fd[i] : -1,
        .old = r->keep.last.fd, .n_old = e->old_fds,
    };
    if (lives(r->all[i]))
        return runner_join(r->all[i], &role, err);
    runner_forget(r->all[i]);
    return runner_start(&r->all[i], r->loop, &role, &hooks, err);
}

int ranks_start(struct ranks *r, struct launch_env *e, int64_t *pids, struct err *err)
{
    const int n = e->generation ? launch_env_local(e) : 1;
    if (!e->keep)
        forget_all(r);
    e->event_fd = SUBPROCESS_FIRST_FD;
    e->control_fd = SUBPROCESS_FIRST_FD + 1;
    give_snapshots(r, e);
    if (give_ports(r, e, err) < 0)
        return -1;
    if (!r->all) {
        r->all = calloc((size_t)n, sizeof(struct runner *));
        r->stops = calloc((size_t)n, sizeof(*r->stops));
    }
    if (!r->all || !r->stops)
        return err_set(err, ERR_MEMORY, "no memory for %d ranks", n);
    r->n = n;
    r->first = e->generation ? e->first_rank : 0;
    r->generation = e->generation;
    r->oom_before = oom_kills();
    r->aborted = false;
    int rc = 0;
    for (int i = 0; i < n; i++) {
        if (rc == 0)
            rc = begin(r, i, e, err);
        pids[i] = r->all[i] ? r->all[i]->pid : 0;
    }
    if (rc < 0)
        kill_living(r);
    return rc;
}

void ranks_phases(const struct ranks *r, int rank, struct agent_exit *e)
{
    const struct runner *one = runner_of(r, rank);
    if (one)
        runner_phases(one, e);
}

/* --- output to ranks ------------------------------------------------------------------- */

void ranks_control(struct ranks *r, const char *command)
{
    char line[64];
    int n = snprintf(line, sizeof(line), "{\"cmd\":\"%s\"}\n", command);
    for (int i = 0; i < r->n; i++)
        if (lives(r->all[i]))
            runner_say(r->all[i], line, (size_t)n);
    if (strcmp(command, "checkpoint") == 0 && r->job.checkpoint_signal)
        for (int i = 0; i < r->n; i++)
            if (lives(r->all[i]))
                graceful_stop_signal_programs(runner_root(r->all[i]), r->job.checkpoint_signal);
}

/* The main programs of a command first. */
static void stop_gracefully(struct ranks *r)
{
    for (int i = 0; i < r->n; i++)
        if (lives(r->all[i]) && !r->stops[i].root)
            graceful_stop_begin(&r->stops[i], runner_root(r->all[i]), r->job.stop_signal, r->job.stop_session);
    uv_timer_start(&r->stop_timer, on_stop_timer, GRACEFUL_STOP_LOOK_MS, GRACEFUL_STOP_LOOK_MS);
}

static void end_with_stacks(struct ranks *r)
{
    for (int i = 0; i < r->n; i++)
        if (lives(r->all[i]))
            stack_dump_end(runner_root(r->all[i]), r->aborted);
    r->aborted = true;
}

/* In a container also the process outside, which ends with it; SIGTERM would reach it twice. */
static void signal_group(struct runner *one, int signo)
{
    const pid_t root = runner_root(one);
    kill(-root, signo);
    if (signo != SIGKILL)
        kill(-root, SIGCONT); /* a stopped process cannot react to the signal */
    else if (root != one->pid)
        kill(-one->pid, signo);
}

void ranks_signal(struct ranks *r, int signo)
{
    if (signo == SIGABRT) {
        end_with_stacks(r);
        return;
    }
    if (signo == SIGTERM && r->job.stop_signal && r->generation > 0) {
        stop_gracefully(r);
        return;
    }
    for (int i = 0; i < r->n; i++)
        if (lives(r->all[i]))
            signal_group(r->all[i], signo);
}

int64_t ranks_look(const struct ranks *r, int rank, struct flight_page *page)
{
    struct runner *p = runner_of(r, rank);
    page->pid = 0;
    if (!p || !p->flight)
        return 0;
    flight_read(p->flight, page);
    return runner_root(p);
}

int64_t ranks_pid(const struct ranks *r, int rank)
{
    struct runner *p = runner_of(r, rank);
    return p ? runner_root(p) : 0;
}

uint64_t ranks_output_bytes(const struct ranks *r, int rank)
{
    const struct runner *p = runner_of(r, rank);
    return p ? p->out_bytes : 0;
}

int ranks_first(const struct ranks *r)
{
    return r->first;
}

int ranks_count(const struct ranks *r)
{
    return r->n;
}

int ranks_living(const struct ranks *r)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        n += lives(r->all[i]);
    return n;
}

static int64_t worker_of(struct runner *p)
{
    static struct flight_page page; /* 16 KiB; one thread */
    if (p->flight)
        flight_read(p->flight, &page);
    return p->flight && page.pid ? (int64_t)page.pid : runner_root(p);
}

int64_t *ranks_workers(const struct ranks *r, int first)
{
    int64_t *pids = calloc((size_t)r->n + 1, sizeof(*pids));
    struct runner *one = runner_of(r, first);
    if (!pids)
        return NULL;
    int n = 0;
    if (one)
        pids[n++] = worker_of(one);
    for (int i = 0; i < r->n; i++)
        if (r->all[i] && r->all[i] != one)
            pids[n++] = worker_of(r->all[i]);
    return pids;
}

const char *ranks_last_lines(const struct ranks *r, int rank)
{
    const struct runner *p = runner_of(r, rank);
    return p && p->capture ? capture_tail(p->capture) : "";
}
