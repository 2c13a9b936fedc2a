/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - see ranks.h */
#include "agent/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_core.h"
#include "agent/buf.h"
#include "agent/capture.h"
#include "agent/child.h"
#include "agent/keepsake.h"
#include "agent/kernel_log.h"
#include "agent/launch_env.h"
#include "agent/log.h"
#include "agent/oom.h"
#include "engine/err.h"
#include "engine/flight.h"
#include "engine/progress.h"

extern char **environ;

/* One process and its pipes. */
struct proc {
    struct ranks *owner;
    int rank;
    pid_t pid;    /* 0 once reaped */
    pid_t was;    /* its pid, kept */
    bool watched; /* the poll handles are the loop's */
    uint64_t started_ns;
    int out_fd, event_fd, control_fd; /* our ends; -1 = closed */
    uv_poll_t out_poll, event_poll;
    struct capture *capture;
    struct buf lines; /* of the event pipe, not yet whole */
    struct flight *flight;
};

struct ranks {
    uv_loop_t *loop;
    struct ranks_hooks hooks;
    struct ranks_job job;
    uv_signal_t sigchld;
    int generation;
    int first; /* rank of procs[0] */
    int n;
    struct proc *procs; /* of the generation */
    struct keepsake keep;
    int64_t oom_before;
    struct garbage *garbage; /* processes whose handles the loop still holds */
};

/* Handles must outlive their close: an old generation's memory waits here. */
struct garbage {
    struct garbage *next;
    struct proc *procs;
    int n, open; /* handles not yet closed, and one while they are being listed */
};

static struct proc *proc_of(const struct ranks *r, int rank)
{
    int i = rank - r->first;
    return i >= 0 && i < r->n ? &r->procs[i] : NULL;
}

/* --- listening ------------------------------------------------------------------------- */

/* What a rank says to all others, as a command to each. */
void ranks_relay(struct ranks *r, const json_t *said)
{
    char text[PROGRESS_LINE];
    json_t *line = json_pack("{s:s, s:O?, s:O?}", "cmd", "rendezvous", "key",
                             json_object_get(said, "key"), "value", json_object_get(said, "value"));
    size_t n = line ? json_dumpb(line, text, sizeof(text) - 1, JSON_COMPACT) : 0;
    json_decref(line);
    if (n == 0 || n >= sizeof(text))
        return;
    text[n++] = '\n';
    for (int i = 0; i < r->n; i++)
        if (r->procs[i].control_fd >= 0 && write(r->procs[i].control_fd, text, n) < 0)
            continue; /* gone, or it does not read: its own deadline tells */
}

static void take_line(struct proc *p, const char *text, size_t size)
{
    json_t *line = json_loadb(text, size, 0, NULL);
    const char *ev = json_string_value(json_object_get(line, "ev"));
    struct ranks *r = p->owner;
    if (ev && strcmp(ev, "rendezvous") == 0) {
        ranks_relay(r, line);
        if (r->hooks.relay)
            r->hooks.relay(r->hooks.arg, r->generation, line);
    } else if (json_is_object(line)) {
        r->hooks.line(r->hooks.arg, r->generation, p->rank, line);
    }
    json_decref(line);
}

static void take_events(struct proc *p, const char *bytes, size_t size)
{
    if (buf_append(&p->lines, bytes, size) < 0)
        return;
    size_t at = 0;
    for (char *end; (end = memchr(p->lines.data + at, '\n', p->lines.size - at));) {
        size_t len = (size_t)(end - (p->lines.data + at));
        if (len <= PROGRESS_LINE)
            take_line(p, p->lines.data + at, len);
        at += len + 1;
    }
    buf_consume(&p->lines, at);
    if (p->lines.size > PROGRESS_LINE)
        buf_clear(&p->lines); /* no line of ours is that long */
}

static void take_output(struct proc *p, const char *bytes, size_t size)
{
    capture_write(p->capture, bytes, size);
    if (p->owner->generation > 0 && p->owner->hooks.output)
        p->owner->hooks.output(p->owner->hooks.arg, p->rank, bytes, size);
}

/* Reads what is there, at most `most` bytes: 1 if more may come, 0 at the end. */
static int drain(struct proc *p, int fd, size_t most)
{
    char bytes[65536];
    for (size_t total = 0; total < most;) {
        ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        if (n == 0)
            return 0;
        total += (size_t)n;
        if (fd == p->out_fd)
            take_output(p, bytes, (size_t)n);
        else
            take_events(p, bytes, (size_t)n);
    }
    return 1;
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)events;
    struct proc *p = handle->data;
    int fd = handle == &p->out_poll ? p->out_fd : p->event_fd;
    if (status < 0 || !drain(p, fd, 256 * 1024))
        uv_poll_stop(handle);
}

/* --- the end of a process -------------------------------------------------------------- */

/* What its flight page says of where its time went. */
static void add_phases(struct agent_exit *e, const struct proc *p)
{
    static struct flight_page page; /* 16 KiB; one thread */
    if (!p->flight)
        return;
    flight_read(p->flight, &page);
    if (!page.pid)
        return;
    const uint64_t now = uv_hrtime();
    e->init_ms = (int64_t)(flight_spent_ns(&page, PHASE_INIT, now) / 1000000);
    e->data_ms = (int64_t)(flight_spent_ns(&page, PHASE_DATA, now) / 1000000);
    e->checkpoint_ms = (int64_t)(flight_spent_ns(&page, PHASE_CHECKPOINT, now) / 1000000);
    /* The page does not know how long the process took to get to it. */
    if (page.attached_ns > p->started_ns)
        e->init_ms += (int64_t)((page.attached_ns - p->started_ns) / 1000000);
}

static void tell_exit(struct ranks *r, struct proc *p, int status)
{
    /* The last words, before the news; bounded, for a grandchild may go on writing. */
    drain(p, p->out_fd, 4 * 1024 * 1024);
    drain(p, p->event_fd, 1024 * 1024);
    p->pid = 0;
    struct agent_exit e = {
        .generation = r->generation,
        .rank = p->rank,
        .pid = p->was,
        .signalled = WIFSIGNALED(status),
        .signo = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
        .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
        .after_ms = (int64_t)((uv_hrtime() - p->started_ns) / 1000000),
        .last_lines = capture_tail(p->capture),
    };
    if (e.signalled && e.signo == SIGKILL) {
        int64_t now = oom_kills();
        e.oom_killed = now > r->oom_before && r->oom_before >= 0;
        r->oom_before = now;
    }
    if (status != 0)
        e.kernel = kernel_log_recent(e.signo == SIGKILL || e.exit_code == 128 + SIGKILL);
    add_phases(&e, p);
    r->hooks.exited(r->hooks.arg, &e);
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
        /* Others are orphans that we have adopted. */
        for (int i = 0; i < r->n; i++)
            if (r->procs[i].pid == pid) {
                tell_exit(r, &r->procs[i], status);
                break;
            }
    }
}

/* --- life of the table ----------------------------------------------------------------- */

int ranks_create(struct ranks **out, uv_loop_t *loop, const struct ranks_hooks *hooks,
                 struct err *err)
{
    struct ranks *r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_MEMORY, "no memory for the ranks");
    r->loop = loop;
    r->hooks = *hooks;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    uv_signal_init(loop, &r->sigchld);
    r->sigchld.data = r;
    int rc = uv_signal_start(&r->sigchld, on_sigchld, SIGCHLD);
    if (rc < 0) {
        free(r);
        return err_set(err, ERR_SYSTEM, "cannot watch for the end of processes: %s",
                       uv_strerror(rc));
    }
    *out = r;
    return 0;
}

void ranks_set_job(struct ranks *r, const struct ranks_job *job)
{
    r->job = *job;
}

static void free_garbage(struct ranks *r, struct garbage *g)
{
    struct garbage **at = &r->garbage;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    free(g->procs);
    free(g);
}

static void on_closed(uv_handle_t *handle)
{
    struct garbage *g = handle->data;
    struct ranks *r = g->procs[0].owner;
    if (--g->open == 0)
        free_garbage(r, g);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Lets go of the present generation: all of its processes are dead. */
static void forget_procs(struct ranks *r)
{
    if (r->n == 0)
        return;
    struct garbage *g = calloc(1, sizeof(*g));
    if (!g)
        abort(); /* nothing sensible can go on without a few bytes */
    *g = (struct garbage){.next = r->garbage, .procs = r->procs, .n = r->n, .open = 1};
    r->garbage = g;
    for (int i = 0; i < r->n; i++) {
        struct proc *p = &r->procs[i];
        if (p->watched) {
            g->open += 2;
            p->out_poll.data = p->event_poll.data = g;
            uv_close((uv_handle_t *)&p->out_poll, on_closed);
            uv_close((uv_handle_t *)&p->event_poll, on_closed);
        }
        close_fd(&p->out_fd);
        close_fd(&p->event_fd);
        close_fd(&p->control_fd);
        capture_close(p->capture);
        flight_close(p->flight);
        buf_fini(&p->lines);
    }
    r->procs = NULL;
    r->n = 0;
    if (--g->open == 0)
        free_garbage(r, g);
}

void ranks_close(struct ranks *r)
{
    forget_procs(r);
    uv_close((uv_handle_t *)&r->sigchld, NULL);
}

void ranks_destroy(struct ranks *r)
{
    if (r)
        keepsake_fini(&r->keep);
    free(r);
}

/* --- starting ---------------------------------------------------------------------------*/

/* A pipe whose end for us never blocks. */
static int make_pipe(int fds[2], int ours, struct err *err)
{
    if (pipe2(fds, O_CLOEXEC) < 0 || fcntl(fds[ours], F_SETFL, O_NONBLOCK) < 0)
        return err_set(err, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    return 0;
}

static int open_capture(struct ranks *r, struct proc *p, const struct launch_env *e,
                        struct err *err)
{
    char path[4096], mark[120];
    if (e->generation == 0 && e->node_rank > 0)
        snprintf(path, sizeof(path), "%s/setup.node%d.log", r->job.run_dir, e->node_rank);
    else if (e->generation == 0)
        snprintf(path, sizeof(path), "%s/setup.log", r->job.run_dir);
    else
        snprintf(path, sizeof(path), "%s/rank%d.log", r->job.run_dir, p->rank);
    if (capture_open(&p->capture, path, CAPTURE_BYTES, err) < 0)
        return -1;
    if (e->generation > 1) {
        if (e->snapshot_step > 0)
            snprintf(mark, sizeof(mark), "generation %d, from memory of step %lld", e->generation,
                     (long long)e->snapshot_step);
        else if (e->resume_step >= 0)
            snprintf(mark, sizeof(mark), "generation %d, from the checkpoint of step %lld",
                     e->generation, (long long)e->resume_step);
        else
            snprintf(mark, sizeof(mark), "generation %d", e->generation);
        capture_mark(p->capture, mark);
    }
    return 0;
}

static int open_flight(struct ranks *r, struct proc *p, const struct launch_env *e, struct err *err)
{
    char path[4096];
    if (e->generation == 0)
        return 0;
    snprintf(path, sizeof(path), "%s/rank%d.flight", r->job.run_dir, p->rank);
    if (flight_create(path, (uint64_t)p->rank, (uint64_t)e->world_size, (uint64_t)e->generation,
                      err) < 0)
        return -1;
    return flight_open(&p->flight, path, err);
}

/* A rank's row in the plan, be it of this node or of all. */
static const json_t *plan_row(const struct launch_env *e, int rank)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(e->plan, "ranks"), i, row)
    {
        if (json_integer_value(json_object_get(row, "rank")) == rank)
            return row;
    }
    return NULL;
}

/* Those that the plan binds a rank to, or NULL. */
static const char *rank_cpus(const struct launch_env *e, int rank)
{
    if (e->generation == 0)
        return NULL;
    return json_string_value(json_object_get(plan_row(e, rank), "cpus"));
}

/* Starts one process; what it made is let go by forget_procs(), also after a failure. */
static int start_one(struct ranks *r, struct proc *p, const struct launch_env *e, struct err *err)
{
    int out[2] = {-1, -1}, event[2] = {-1, -1}, control[2] = {-1, -1}, rc = -1;
    char **env = NULL;
    if (open_capture(r, p, e, err) < 0 || open_flight(r, p, e, err) < 0 ||
        make_pipe(out, 0, err) < 0 || make_pipe(event, 0, err) < 0 ||
        make_pipe(control, 1, err) < 0)
        goto out;
    env = launch_env_make(e, p->rank, environ, err);
    if (!env)
        goto out;
    p->started_ns = uv_hrtime();
    struct child c = {.argv = e->generation ? r->job.argv : r->job.setup_argv,
                      .envp = env,
                      .cwd = r->job.workdir,
                      .cpus = rank_cpus(e, p->rank),
                      .out = out[1],
                      .extra = {event[1], control[0]},
                      .n_extra = 2};
    if (e->snapshot_fd > 0)
        c.extra[c.n_extra++] = r->keep.now.fd[p->rank - r->first];
    for (int i = 0; i < e->old_fds; i++)
        c.extra[c.n_extra++] = r->keep.last.fd[i];
    pid_t pid = child_start(&c, err);
    if (pid < 0)
        goto out;
    p->pid = p->was = pid;
    rc = 0;
out:
    free(env);
    close_fd(&out[1]);
    close_fd(&event[1]);
    close_fd(&control[0]);
    p->out_fd = out[0];
    p->event_fd = event[0];
    p->control_fd = control[1];
    return rc;
}

static void kill_started(struct ranks *r)
{
    for (int i = 0; i < r->n; i++) {
        struct proc *p = &r->procs[i];
        if (p->pid <= 0)
            continue;
        kill(-p->pid, SIGKILL);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        p->pid = 0;
    }
}

static void watch(struct ranks *r, struct proc *p)
{
    uv_poll_init(r->loop, &p->out_poll, p->out_fd);
    uv_poll_init(r->loop, &p->event_poll, p->event_fd);
    p->out_poll.data = p->event_poll.data = p;
    uv_poll_start(&p->out_poll, UV_READABLE, on_readable);
    uv_poll_start(&p->event_poll, UV_READABLE, on_readable);
    p->watched = true;
}

/* Memory for this generation and from the last one; a machine that has none does without. Of several
 * nodes each has only its own ranks' memory: what another one lost is nowhere, so none is kept. */
static void give_snapshots(struct ranks *r, struct launch_env *e)
{
    struct err err = {0};
    e->snapshot_fd = 0;
    e->snapshot_step = 0;
    if (!r->job.snapshots || e->generation == 0 || e->nodes > 1)
        return;
    if (keepsake_begin(&r->keep, e->world_size, &err) < 0)
        log_warn(e->name, "%s", err.text);
    else
        e->snapshot_fd = CHILD_FIRST_FD + 2;
    e->old_fd = CHILD_FIRST_FD + 2 + (e->snapshot_fd > 0);
    e->old_fds = r->keep.last.n;
    int64_t step = keepsake_step(&r->keep);
    e->snapshot_step = step > 0 && step >= e->resume_step && !e->forget ? step : 0;
}

int ranks_start(struct ranks *r, struct launch_env *e, int64_t *pids, struct err *err)
{
    forget_procs(r);
    e->event_fd = CHILD_FIRST_FD;
    e->control_fd = CHILD_FIRST_FD + 1;
    give_snapshots(r, e);
    if (e->generation && e->master_port == 0)
        e->master_port = launch_env_free_port(err);
    if (e->generation && json_is_string(json_object_get(plan_row(e, e->first_rank), "gpu")))
        e->ras_port = launch_env_free_port(NULL);
    if (e->master_port < 0)
        return -1;
    int n = e->generation ? launch_env_local(e) : 1, rc = 0;
    r->procs = calloc((size_t)n, sizeof(*r->procs));
    if (!r->procs)
        return err_set(err, ERR_MEMORY, "no memory for %d ranks", n);
    r->n = n;
    r->first = e->generation ? e->first_rank : 0;
    r->generation = e->generation;
    r->oom_before = oom_kills();
    for (int i = 0; i < n; i++) {
        struct proc *p = &r->procs[i];
        *p = (struct proc){.owner = r, .rank = r->first + i, .out_fd = -1, .event_fd = -1, .control_fd = -1};
        if (rc == 0)
            rc = start_one(r, p, e, err);
        if (p->pid > 0)
            watch(r, p);
        pids[i] = p->pid;
    }
    if (rc < 0)
        kill_started(r);
    return rc;
}

/* --- telling ---------------------------------------------------------------------------*/

void ranks_control(struct ranks *r, const char *command)
{
    char line[64];
    int n = snprintf(line, sizeof(line), "{\"cmd\":\"%s\"}\n", command);
    for (int i = 0; i < r->n; i++)
        if (r->procs[i].pid > 0 && r->procs[i].control_fd >= 0 &&
            write(r->procs[i].control_fd, line, (size_t)n) < 0)
            continue; /* full or closed: it does not listen, and signals follow */
}

void ranks_signal(struct ranks *r, int signo)
{
    for (int i = 0; i < r->n; i++)
        if (r->procs[i].pid > 0) {
            kill(-r->procs[i].pid, signo);
            if (signo != SIGKILL)
                kill(-r->procs[i].pid, SIGCONT); /* a stopped one could not act on it */
        }
}

int64_t ranks_look(const struct ranks *r, int rank, struct flight_page *page)
{
    const struct proc *p = proc_of(r, rank);
    page->pid = 0;
    if (!p || !p->flight)
        return 0;
    flight_read(p->flight, page);
    return p->pid;
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
        n += r->procs[i].pid > 0;
    return n;
}

static int64_t worker_of(const struct proc *p)
{
    static struct flight_page page; /* 16 KiB; one thread */
    if (p->flight)
        flight_read(p->flight, &page);
    return p->flight && page.pid ? (int64_t)page.pid : p->pid;
}

int64_t *ranks_workers(const struct ranks *r, int first)
{
    int64_t *pids = calloc((size_t)r->n + 1, sizeof(*pids));
    const struct proc *one = proc_of(r, first);
    if (!pids)
        return NULL;
    int n = 0;
    if (one)
        pids[n++] = worker_of(one);
    for (int i = 0; i < r->n; i++)
        if (&r->procs[i] != one)
            pids[n++] = worker_of(&r->procs[i]);
    return pids;
}

const char *ranks_last_lines(const struct ranks *r, int rank)
{
    const struct proc *p = proc_of(r, rank);
    return p && p->capture ? capture_tail(p->capture) : "";
}
