/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - the controller's global state, its start and stop
 *
 * One thread, one loop.  A lock on $JOBCTL_HOME/daemon.lock prevents a second
 * daemon.  Stopping (SIGTERM, SIGINT, POST /v1/shutdown) does not affect agents
 * and ranks: the next daemon reconnects to them.
 *
 * The files of the daemon from the bottom up; a file calls only what is listed before it:
 *
 *   event_kind, job_core,       decisions, pure (docs/HOUSE.md)
 *   sched, sched_queue
 *   remote_link, remote_*       launchers: start and reach agents here and on other machines
 *   file_work, utc, job_dir,    file operations in threads, time formats, directories of a job, HTTP
 *   server
 *   notifier                    messages about jobs
 *   job, active_jobs            one job in memory, and all unfinished ones
 *   job_store, commit_group,    store a decision, commit it with others, then apply it
 *   job_apply
 *   hosts, placement, orphan    records of nodes, choice of nodes, agents that outlived their attempt
 *   launch, followers,          the agents of a job: messages to them, and their messages as inputs
 *   job_attempt
 *   fleet_probe, fleet          this machine's resources, and scheduler passes
 *   gpu_figures                 load of its GPUs, while somebody watches
 *   reserve                     disk space reserved for the removal of jobs
 *   removal, reclaim            how jobs are removed, and what that would free
 *   effects                     what follows when an input is stored
 *   submit_batch, submission    how jobs are created
 *   job_json, why               how jobs are shown
 *   request_job, request_*      the handlers of requests
 *   requests                    the table of requests
 *   takeover, replay            recovery after a restart of the daemon, and after a loss of the store
 *   store_upkeep                the store is kept small
 *   daemon_run                  start and stop
 *
 * Lower files notify higher ones through hooks: `applied` (active_jobs.h), struct service
 * (server.h), remote_link_hooks (remote.h), fleet_probe_fn.
 */
#ifndef CONTROLLER_BASE_DAEMON_H
#define CONTROLLER_BASE_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "controller/base/home.h"
#include "controller/base/instance.h"
#include "engine/base/clock_jump.h"

struct err;
struct file_work;
struct fleet;
struct host;
struct submit_batch;
struct commit_group;
struct removal;
struct snapshots;
struct store_upkeep;
struct notifier;
struct active_jobs;
struct server;
struct store;
struct orphan;
struct tally;
struct dashboard;
struct gpu_figures;

struct daemon_clock {
    uv_timer_t        beat;         /* once a second (daemon_run.c) */
    struct clock_jump seen;         /* the clock at the latest beat */
    int64_t           suspended_ms; /* how long the machine was suspended, as far as this program knows */
};

/* This machine; set by fleet.h. */
struct daemon_machine {
    int64_t boot;                   /* as job_core_boot(); 0: not known */
    int64_t cpus, gpus;             /* CPU slots; and GPUs, valid after its probe */
};

struct daemon_store_state {
    int  errnum;        /* with which it rejected the newest events (commit_group.h), such as ENOSPC; 0: it has them */
    bool damaged;       /* the daemon stops (daemon_run.c) */
    bool restored;      /* it is a copy in place of a lost or damaged store (snapshots.h) ... */
    bool is_new;        /* ... or an empty one in place of a lost store */
    char lost[1200];    /* what was lost with the store before the start (snapshots.h, takeover.h); "": nothing */
};

struct daemon {
    uv_loop_t             loop;
    struct home           home;
    struct daemon_clock   clock;
    struct daemon_machine machine;
    struct store         *store;
    struct daemon_store_state store_state;
    char                  instance[INSTANCE];
    int64_t               next_id;          /* of a job (submit_batch.h) */
    int64_t               started_ms;
    int64_t               die_at_event;     /* daemon_test_hook(); 0: never */
    bool                  stopping;
    bool                  notices;          /* some messages may be waiting in the store */
    /* Parts, each changed only by the file of its name. */
    struct file_work    *files;         /* all file operations that may hang ... */
    struct file_work    *deletions;     /* ... except these, which are many and slow (removal.h) */
    struct active_jobs  *active_jobs;   /* unfinished jobs */
    struct fleet        *fleet;         /* this node, and the scheduler passes */
    struct gpu_figures  *gpu_figures;   /* load of its GPUs; NULL until first requested */
    struct server       *server;
    struct submit_batch *submit_batch;  /* submits to be committed together */
    struct commit_group *commit_group;  /* events to be committed together */
    struct host         *hosts;         /* the record of each host */
    struct copy_removal *copy_removals; /* copies of removed jobs' code on hosts */
    struct orphan       *orphans;       /* agents that outlived their attempt */
    struct removal      *removals;      /* jobs whose files are being deleted */
    struct snapshots    *snapshots;     /* copies of the store */
    struct store_upkeep *store_upkeep;  /* keeps the store small */
    struct notifier     *notifier;      /* sends messages about jobs */
    struct tally        *tally;         /* counters for Prometheus (controller/metrics) */
    struct dashboard    *dashboard;     /* the page in a browser; NULL until the first request for it */
};

struct daemon_options {
    bool detach;        /* log to daemon.log instead of stderr */
    int  ready_fd;      /* receives the line "ready" once the daemon answers requests; -1: none */
};

/* Runs until it is stopped (daemon_run.c). */
int daemon_run(const struct daemon_options *options, struct err *err);
void daemon_stop(struct daemon *d);

/* Called after each commit: JOBCTL_TEST_DIE_AT_EVENT=n kills the daemon after the n-th one,
 * before its effect. */
void daemon_test_hook(struct daemon *d);

int64_t daemon_now_ms(void);            /* wall clock */
uint64_t daemon_random(void);

#endif
