/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - everything that lives as long as the controller does, and its start and stop
 *
 * One thread, one loop.  A lock on $JOBCTL_HOME/daemon.lock keeps a second one
 * out.  Stopping (SIGTERM, SIGINT, POST /v1/shutdown) leaves agents and ranks
 * alone: the next daemon finds them again.
 *
 * The files of the daemon from the bottom up; a file calls only what is listed before it:
 *
 *   job_core, sched             decisions, pure (docs/HOUSE.md)
 *   link, remote_*, remote      how agents are started and reached, here and on other machines
 *   utc, job_dir, server        texts of times, names of directories, HTTP
 *   job, roster                 one job in memory, and all of them
 *   record, job_apply           what is decided about one: stored, then done
 *   hosts, placement, stray     machines: what is remembered of them, who gets which, what may live there
 *   launch, members, attempt    the agents of a job: what they are told, and what they say becomes inputs
 *   fleet_probe, fleet          this machine, and the passes of the scheduler over it
 *   effects                     what follows when an input is stored
 *   intake, order, removal      how jobs come in, and how they are forgotten
 *   row, why                    how they are shown
 *   request_job, request_*      what each request does
 *   requests                    the table of them
 *   replay, farewell            what the daemon before has left
 *   daemon_run                  start and stop
 *
 * What happens below is told upwards by hooks: `applied` (active_jobs.h), struct service
 * (server.h), link_hooks (remote_link.h), fleet_probe_fn.
 */
#ifndef CONTROLLER_BASE_DAEMON_H
#define CONTROLLER_BASE_DAEMON_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "controller/base/instance.h"

struct err;
struct final_ack;
struct fleet;
struct host;
struct submit_batch;
struct removal;
struct active_jobs;
struct server;
struct store;
struct orphan;

struct daemon {
    uv_loop_t            loop;
    char                 home[PATH_MAX];
    struct store        *store;
    struct active_jobs  *active_jobs;   /* jobs that are not done */
    struct fleet        *fleet;         /* this node, and the passes of the scheduler over it */
    struct server       *server;
    struct submit_batch *submit_batch;  /* submits that are committed together */
    int64_t              gpus;          /* of this node, since its probe has answered */
    char                 instance[INSTANCE];
    struct host         *hosts;         /* what is remembered of each (hosts.h) */
    struct orphan       *orphans;       /* agents that may live on hosts that went silent */
    struct final_ack    *final_acks;    /* agents that are to hear that they may go */
    struct removal      *removals;      /* jobs whose files are on their way out */
    int64_t              next_id;
    int64_t              started_ms;
    int64_t              die_at_event;  /* daemon_test_hook(); 0: never */
    bool                 stopping;
};

struct daemon_options {
    bool detach;        /* log to daemon.log instead of stderr */
    int  ready_fd;      /* gets the line "ready" when requests are answered; -1: none */
};

/* Runs until it is told to stop (daemon_run.c). */
int daemon_run(const struct daemon_options *options, struct err *err);
void daemon_stop(struct daemon *d);

/* After each commit: with JOBCTL_TEST_DIE_AT_EVENT=n the power fails right after the n-th one, before
 * its effect. */
void daemon_test_hook(struct daemon *d);

int64_t daemon_now_ms(void);            /* wall clock */
uint64_t daemon_random(void);

#endif
