/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - a controller, its agents and their ranks on a virtual clock and network
 *
 * The decisions are the real ones (job_core, sched, retry, agent_core); what
 * is around them is played: a store that keeps what was committed, processes
 * that die at any moment, messages that are late, lost, doubled or out of
 * order, clocks that jump.  Everything follows from the seed.
 *
 *   clock.c  what happens next, and chance       node.c  agents and ranks
 *   hub.c    the controller's shell              sim_control.c  seeds, invariants
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/job_core.h"
#include "controller/sched.h"

struct agent_core;

enum { JOBS = 6, ATTEMPTS = 40, RANKS = 3, CPUS = 5 };
enum { FAULTS_UNTIL_MS = 4 * 60 * 1000, ALL_DONE_BY_MS = 60 * 60 * 1000 };

enum what {
    HUB_START, HUB_CRASH, HUB_PASS, HUB_LOOK, HUB_BURY, HUB_HEARS, PERSON,
    AGENT_COMES, AGENT_HEARS, AGENT_TIMER, AGENT_LINGERS, AGENT_CRASH, SETUP_ENDS, RANKS_SPAWNED,
    RANK_TICK, RANK_ENDS, SWEEP_ENDS, LINK_CUT, CLOCK_JUMPS, WHATS
};

/* `life` is that of the process that asked for it: what a dead one asked for does not happen. */
struct happening {
    int64_t   at;
    uint64_t  order;
    enum what what;
    int       job, attempt, a, b;
    uint64_t  life;
    json_t   *body;
};

/* What is really there, whatever the programs believe. */
struct truth {
    int64_t steps, checkpoint;
    bool    doomed;             /* its ranks always fail at once */
    bool    engine, has_setup, completed;
    int     np;
};

struct agent {
    bool     made, alive, fenced, launched, finished;
    uint64_t life;
    struct agent_core *core;
    json_t  *spool;             /* EVENT messages; the n-th has seq n+1 */
    int64_t  acked, sent, timer_at;
    int      conn;              /* 0: nobody is connected */
    int      generation, ranks_live;
    bool     rank[RANKS];
    int64_t  step;
};

enum link_state { LINK_NONE, LINK_LOOKING, LINK_UP, LINK_BURYING };

/* What the controller holds in memory, and loses. */
struct hub_job {
    bool             known;
    struct job_core  core;
    struct sched_job verdict;
    enum link_state  link;
    bool             may_start, greeted;
    int              conn;
    int64_t          bury_until;
};

/* What is committed. */
struct stored {
    json_t         *events;
    int64_t         acked[ATTEMPTS];
    int64_t         step, steps;
    bool            done;
    struct job_core latest;     /* as it was in memory at the commit */
};

struct world {
    uint64_t         seed, chance;
    int64_t          now, skew;         /* monotonic; the wall is skew ahead */
    bool             jumped, verbose;
    struct happening *heap;
    size_t           count, room;
    uint64_t         order;
    long             events, crashes;
    char             broken[512];       /* the first invariant that did not hold */

    bool             up;
    uint64_t         life;
    int              conns;
    struct hub_job   hub[JOBS];
    struct stored    store[JOBS];
    int              after[JOBS];       /* job index, or -1 */

    struct truth     truth[JOBS];
    struct agent     agents[JOBS][ATTEMPTS];
};

/* clock.c */
uint64_t chance(struct world *w);
int64_t between(struct world *w, int64_t low, int64_t high);
/* True once in `n`, while faults still happen. */
bool fault(struct world *w, int n);
int64_t wall(const struct world *w);
struct happening *plan(struct world *w, int64_t in_ms, enum what what, int job, int attempt,
                       uint64_t life);
bool next(struct world *w, struct happening *out);
void broke(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void say(const struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* node.c */
void node_happens(struct world *w, const struct happening *h);
void agent_connect(struct world *w, int job, int attempt, int conn);
void agent_dies(struct world *w, int job, int attempt);
void ranks_kill(struct world *w, int job, int attempt);

/* hub.c */
void hub_happens(struct world *w, const struct happening *h);
void hub_crash(struct world *w);

/* A message on a connection: late, sometimes lost, doubled, overtaken. Takes the body. */
void post(struct world *w, bool to_hub, int job, int attempt, int conn, json_t *body);

#endif
