/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - everything that lives as long as the controller does, and its start and stop
 *
 * One thread, one loop.  A lock on $JOBCTL_HOME/daemon.lock keeps a second one
 * out.  Stopping (SIGTERM, SIGINT, POST /v1/shutdown) leaves agents and ranks
 * alone: the next daemon finds them again.
 */
#ifndef CONTROLLER_DAEMON_H
#define CONTROLLER_DAEMON_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "controller/fleet.h"
#include "controller/instance.h"
#include "controller/intake.h"
#include "controller/roster.h"

struct err;
struct farewell;
struct host;
struct server;
struct store;
struct stray;

struct daemon {
    uv_loop_t            loop;
    char                 home[PATH_MAX];
    struct store        *store;
    struct roster        roster;        /* jobs that are not done */
    struct fleet         fleet;
    struct server       *server;
    struct intake        intake;
    char                 instance[INSTANCE];
    struct host         *hosts;         /* what is remembered of each (hosts.h) */
    struct stray        *strays;        /* agents that may live on hosts that went silent */
    struct farewell     *farewells;     /* agents that are to hear that they may go */
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
