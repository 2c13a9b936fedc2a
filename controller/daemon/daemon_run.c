/* SPDX-License-Identifier: Apache-2.0 */
/* daemon_run.c - daemon_run() of daemon.h: start, loop and stop of the daemon */
#include "controller/base/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "agent/core/redact.h"
#include "agent/os/event_loop.h"
#include "agent/os/log.h"
#include "agent/os/unix_socket.h"
#include "controller/attempt/job_attempt.h"
#include "controller/base/file_work.h"
#include "controller/base/home.h"
#include "controller/job/job.h"
#include "controller/job/job_apply.h"
#include "controller/lifecycle/effects.h"
#include "controller/daemon/home_lock.h"
#include "controller/lifecycle/reserve.h"
#include "controller/notify/notifier.h"
#include "controller/lifecycle/removal.h"
#include "controller/daemon/replay.h"
#include "controller/requests/requests.h"
#include "controller/daemon/snapshots.h"
#include "controller/daemon/store_upkeep.h"
#include "controller/lifecycle/submit_batch.h"
#include "controller/dashboard/dashboard.h"
#include "controller/http/server.h"
#include "agent/os/tcp_listen.h"
#include "controller/metrics/tally.h"
#include "controller/spec/config.h"
#include "controller/job/active_jobs.h"
#include "controller/job/commit_group.h"
#include "controller/job/job_code.h"
#include "controller/job/job_env.h"
#include "controller/nodes/fleet.h"
#include "controller/nodes/gpu_figures.h"
#include "controller/nodes/hosts.h"
#include "controller/nodes/copy_removal.h"
#include "controller/nodes/orphan.h"
#include "controller/notify/notify_send.h"
#include "db/store.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { LOG_BYTES = 10 * 1024 * 1024 };

/* A user who can write here could make the daemon run commands. */
static int check_private(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(err, ERR_SYSTEM, "%s is not a directory", path);
    if (st.st_uid != geteuid())
        return err_set(err, ERR_SYSTEM, "%s belongs to another user; set JOBCTL_HOME to a directory "
                       "of your own", path);
    if (st.st_mode & 022)
        return err_set(err, ERR_SYSTEM, "other users can write to %s: run `chmod 700 %s`", path, path);
    if ((st.st_mode & 077) && chmod(path, 0700) < 0)
        return err_set(err, ERR_SYSTEM, "cannot make %s private: %m", path);
    return 0;
}

static int home_open(struct home *h, struct err *err)
{
    char jobs[PATH_MAX + 8];
    if (home_dir(h->path, sizeof(h->path), err) < 0 || scratch_mkdirs(h->path, err) < 0 ||
        check_private(h->path, err) < 0 || dir_identity_open(&h->id, h->path, err) < 0)
        return -1;
    snprintf(jobs, sizeof(jobs), "%s/jobs", h->path);
    return scratch_mkdirs(jobs, err);
}

static int log_to_file(const char *home, struct err *err)
{
    char path[PATH_MAX + 16], old[PATH_MAX + 32];
    struct stat st;
    snprintf(path, sizeof(path), "%s/" HOME_DAEMON_LOG, home);
    snprintf(old, sizeof(old), "%s.1", path);
    if (stat(path, &st) == 0 && st.st_size > LOG_BYTES)
        rename(path, old);
    int fd = safe_open(path, O_WRONLY | O_CREAT | O_APPEND, err);
    if (fd < 0)
        return -1;
    if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        return err_set(err, ERR_SYSTEM, "cannot write %s: %m", path);
    close(fd);
    return 0;
}

static void signal_came(uv_signal_t *handle, int signo)
{
    log_info(NULL, "stopping on signal %d", signo);
    daemon_stop(handle->data);
}

/* Needs one link per running job and one connection per client. */
static void many_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void say_ready(int fd)
{
    if (fd < 0)
        return;
    if (write(fd, "ready\n", 6) != 6)
        log_warn(NULL, "cannot report that the daemon is ready: --ready-fd is closed");
    close(fd);
}

enum { BEAT_MS = 1000 };

/* A daemon whose home was removed, renamed or replaced would write, by path, into the directory of another daemon. It
 * checks once a second (engine/base/dir_identity.h), reports where the home is now in daemon.log (whose descriptor
 * follows the home), on stderr and, if the log was removed too, in syslog, and exits with an error. It stops no job.
 * -1 and the error, if that has happened. */
static int home_result(const struct home *h, struct err *err)
{
    char where[PATH_MAX + 64], now[PATH_MAX];
    if (!h->gone)
        return 0;
    dir_identity_text(where, sizeof(where), &h->id, h->path);
    if (dir_identity_path(now, sizeof(now), &h->id) == 0)
        return err_set(err, ERR_SYSTEM, "%s (JOBCTL_HOME) %s; its jobs continue once the directory is back", h->path,
                       where);
    return err_set(err, ERR_SYSTEM, "%s (JOBCTL_HOME) %s; the jobs in it are lost unless the directory is restored",
                   h->path, where);
}

/* True: the daemon has to stop. */
static bool home_lost(struct home *h)
{
    struct err err = {0};
    char now[PATH_MAX];
    if (!dir_identity_gone(&h->id, h->path))
        return false;
    h->gone = true;
    home_result(h, &err);
    log_error(NULL, "stopping: %s", err.text);
    if (dir_identity_path(now, sizeof(now), &h->id) < 0)
        syslog(LOG_USER | LOG_ERR, "jobctl daemon: stopping: %s", err.text);
    return true;
}

static void tell_log(struct daemon *d)
{
    const struct clock_reading now = clock_read();
    struct clock_change change;
    char text[400];
    if (!clock_jump_look(&d->clock.seen, &now, &change))
        return;
    d->clock.suspended_ms += change.suspended_ms;
    clock_jump_text(text, sizeof(text), &change);
    log_warn(NULL, "%s", text);
    hosts_clock_set(d, change.jump_ms);
}

/* A store that fails now is tried again at the next beat. */
static void tell_jobs(struct daemon *d)
{
    for (size_t i = d->active_jobs->count; i-- > 0;) {
        struct err err = {0};
        struct job *job = d->active_jobs->jobs[i];
        if (job->core.attempt > 0 && job_apply_clock(job, &err) < 0)
            log_error(NULL, "job %lld: %s; trying again", (long long)job->core.id, err.text);
    }
}

/* Once a second: is the home still in its place, and were the clocks set? A wall clock that was set, or a suspended
 * machine, is reported once: in daemon.log, and to each job that has begun (job_apply_clock(); a waiting job gets the
 * report with its next event). */
static void beat(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    if (home_lost(&d->home))
        daemon_stop(d);
    if (d->stopping)
        return;
    tell_log(d);
    tell_jobs(d);
    reserve_keep(&d->home);
    notifier_look(d);
}

static void beat_open(struct daemon *d)
{
    const struct clock_reading now = clock_read();
    d->clock.seen = clock_jump_of(&now);
    uv_timer_init(&d->loop, &d->clock.beat);
    d->clock.beat.data = d;
    reserve_keep(&d->home);
    uv_timer_start(&d->clock.beat, beat, BEAT_MS, BEAT_MS);
}

static void beat_close(struct daemon *d)
{
    uv_close((uv_handle_t *)&d->clock.beat, NULL);
}

/* What is opened once clients can connect, in this order; a part may be closed that was not opened. */
static const struct {
    int  (*open)(struct daemon *d, struct err *err);
    void (*close)(struct daemon *d);
} parts[] = {
    {notifier_open, notifier_close},
    {hosts_open, hosts_close},
    {replay_all, NULL},
    {snapshots_open, snapshots_close},
    {store_upkeep_open, store_upkeep_close},
    {removal_open, removal_close},
    {orphan_open, orphan_close},
    {copy_removal_open, copy_removal_close},
};

/* Reverses the start; agents keep running. */
static void shut(struct daemon *d, uv_signal_t signals[2])
{
    d->stopping = true;
    commit_group_flush(d, NULL, NULL);
    server_close(d->server);
    d->server = NULL;
    dashboard_close(d);
    gpu_figures_close(d);
    for (size_t i = 0; i < d->active_jobs->count; i++)
        job_attempt_close(d->active_jobs->jobs[i]);
    active_jobs_fini(d->active_jobs);
    for (size_t i = ARRAY_LEN(parts); i-- > 0;)
        if (parts[i].close)
            parts[i].close(d);
    fleet_close(d);
    beat_close(d);
    file_work_close(d->files);
    commit_group_close(d);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_loop_close(&d->loop);
}

/* Without this listener the daemon still runs: jobs matter more than their metrics. */
static void listen_for_metrics(struct daemon *d)
{
    char at[TCP_LISTEN_TEXT], bound[TCP_LISTEN_TEXT];
    struct err err = { 0 };
    config_metrics_listen(at);
    if (!at[0])
        return;
    const int fd = tcp_listen(bound, at, &err);
    if (fd < 0 || server_listen(d->server, &requests_metrics, fd, &err) < 0)
        log_error(NULL, "metrics: %s; change metrics.listen in config.yaml and run `jobctl daemon restart`", err.text);
    else
        log_info(NULL, "metrics for Prometheus: http://%s/metrics", bound);
}

/* Starts everything that needs the loop. */
static int serve(struct daemon *d, int listen_fd, int ready_fd, struct err *err)
{
    uv_signal_t signals[2];
    static const int numbers[2] = { SIGTERM, SIGINT };
    if (event_loop_open(&d->loop, err) < 0) {
        close(listen_fd);
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        uv_signal_init(&d->loop, &signals[i]);
        signals[i].data = d;
        uv_signal_start(&signals[i], signal_came, numbers[i]);
    }
    beat_open(d);
    d->files = file_work_open(&d->loop, FILE_WORK_PATIENCE_MS, err);
    int rc = d->files && commit_group_open(d, err) == 0 ? fleet_open(d, err) : -1;
    while (rc == 0 && !d->fleet->facts && !d->stopping)
        uv_run(&d->loop, UV_RUN_ONCE);      /* until the node is probed; clients wait */
    if (rc == 0)
        rc = server_open(&d->server, d, err);
    if (rc == 0)
        rc = server_listen(d->server, &requests, listen_fd, err);
    else
        close(listen_fd);
    if (rc == 0)
        listen_for_metrics(d);
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(parts); i++)
        rc = parts[i].open(d, err);
    if (rc == 0) {
        log_info(NULL, "jobctl %s, pid %d, serves %s", JOBCTL_VERSION, (int)getpid(), d->home.path);
        say_ready(ready_fd);
        if (!d->stopping)
            uv_run(&d->loop, UV_RUN_DEFAULT);
    }
    shut(d, signals);
    return rc < 0 ? rc : home_result(&d->home, err);
}

/* The daemon and the parts that daemon.h points to, in one allocation. */
struct whole {
    struct daemon       daemon;
    struct active_jobs  active_jobs;
    struct fleet        fleet;
    struct submit_batch submit_batch;
    struct tally        tally;
};

static struct daemon *whole_create(void)
{
    struct whole *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->daemon.home.id = DIR_IDENTITY_NONE;
    w->daemon.active_jobs = &w->active_jobs;
    w->daemon.fleet = &w->fleet;
    w->daemon.submit_batch = &w->submit_batch;
    w->active_jobs.applied = effect_applied;
    w->active_jobs.lost = job_attempt_repeat;
    w->active_jobs.noted = tally_note;
    w->daemon.tally = &w->tally;
    tally_init(&w->tally);
    return &w->daemon;
}

/* The daemon does not run on a damaged store: the store stops it, and the next start checks all of it. */
static void store_damaged(void *arg, const char *text)
{
    struct daemon *d = arg;
    if (!d->store_state.damaged)
        log_error(NULL, "stopping: %s", text);
    d->store_state.damaged = true;
    daemon_stop(d);
}

/* Checks the store only when its last user may not have finished with it: a quick check, which finds what a crash
 * of the machine or a foreign write leaves; after damage that it may miss, the full one. */
static int open_checked(struct daemon *d, const char *path, enum home_end before, struct err *err)
{
    static const enum integrity depths[] = { [HOME_CLEAN] = INTEGRITY_UNCHECKED, [HOME_UNCLEAN] = INTEGRITY_QUICK,
                                             [HOME_DAMAGED] = INTEGRITY_FULL };
    if (access(path, F_OK) < 0)
        return err_set_errno(err, EUCLEAN, "there is no store %s", path);
    if (before != HOME_CLEAN)
        log_info(NULL, "the previous daemon did not stop cleanly; checking %s", path);
    return store_open_checked(&d->store, path, depths[before], err);
}

static int open_store(struct daemon *d, enum home_end before, struct err *err)
{
    char path[PATH_MAX + 16];
    struct err why = { 0 };
    snprintf(path, sizeof(path), "%s/jobs.db", d->home.path);
    if (open_checked(d, path, before, &why) < 0) {
        if (why.errnum != EUCLEAN)
            return err_set(err, why.code, "%s", why.text);
        if (access(path, F_OK) == 0)
            log_warn(NULL, "%s", why.text);
        if (snapshots_restore(&d->store_state, d->home.path, err) < 0 ||
            store_open(&d->store, path, err) < 0)
            return -1;
    }
    integrity_hook(store_damaged, d);
    return 0;
}

int daemon_run(const struct daemon_options *options, struct err *err)
{
    struct daemon *d = whole_create();
    char socket[PATH_MAX + 16];
    enum home_end before;
    const char *die = getenv("JOBCTL_TEST_DIE_AT_EVENT");
    int lock = -1, listen_fd, rc = -1;
    if (!d)
        return err_set(err, ERR_MEMORY, "out of memory for the daemon");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);       /* a file-size limit becomes an error of the request */
    many_descriptors();
    notify_send_init();
    d->started_ms = daemon_now_ms();
    d->die_at_event = die ? strtoll(die, NULL, 10) : 0;
    if (home_open(&d->home, err) < 0 || instance_open(d->instance, d->home.path, err) < 0)
        goto out;
    snprintf(socket, sizeof(socket), "%s/" HOME_SOCKET, d->home.path);
    if ((lock = home_lock(&before, d->home.path, socket, err)) < 0)
        goto out;
    if (options->detach && log_to_file(d->home.path, err) < 0)
        goto out;
    log_open(STDERR_FILENO, "daemon", getenv("JOBCTL_DEBUG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
    log_filter(redact_line, NULL);
    if (open_store(d, before, err) < 0 || (listen_fd = unix_socket_listen(socket, err)) < 0)
        goto out;
    if (before != HOME_CLEAN) {
        job_env_sweep(d);
        job_code_collect(d->home.path);
    }
    rc = serve(d, listen_fd, options->ready_fd, err);
    unlinkat(d->home.id.fd, HOME_SOCKET, 0);     /* never that of another home at the same path */
    if (d->store_state.damaged)
        rc = err_set(err, ERR_SYSTEM, "the store %s/jobs.db is damaged: the next start replaces it with its "
                     "newest copy", d->home.path);
    if (rc == 0)
        log_info(NULL, "stopped");
out:
    store_close(d->store);
    integrity_hook(NULL, NULL);
    if (rc == 0)
        snapshots_at_stop(d);
    if (lock >= 0)
        home_lock_leave(lock, d->store_state.damaged ? HOME_DAMAGED : rc == 0 ? HOME_CLEAN : HOME_UNCLEAN);
    dir_identity_close(&d->home.id);
    tally_fini(d->tally);
    free(d);
    return rc;
}
