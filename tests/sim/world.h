/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - a controller, its agents and their ranks on a virtual clock and network
 *
 * The controller is the real one, whole (shell.h); so are the decisions of agents (agent_core) and the fence of wire.
 * Everything around them is simulated: a store's disk that keeps what was committed, processes that die at any moment,
 * messages that are late, lost with their connection, doubled or of another age, disks that fill, clocks that jump.
 * Everything follows from the seed.
 *
 *   clock.c  what happens next, and chance       shell*.c   the controller (shell.h)
 *   cover.c  what has been seen to happen        history.c  what it has committed
 *   rules.c  what must always hold               node.c     agents and ranks
 *   gpu.c    GPUs that break                     gpu_blame.c  when one may be left out
 *   nodes.c  a second node that is lost          endings.c    of ranks
 *   net.c    messages                            sim_control.c  seeds
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/wire/wire.h"
#include "controller/job/job_core.h"
#include "controller/job/sched.h"

struct agent_core;
struct agent_effect;
struct agent_input;
struct agent_exit;
struct agent_lost;

enum { JOBS = 8, ATTEMPTS = 48, RANKS = 8, CPUS = 12 };
enum { FAULTS_UNTIL_MS = 4 * 60 * 1000, ALL_DONE_BY_MS = 90 * 60 * 1000 };

enum what {
    HUB_START, HUB_CRASH, HUB_HEARS, PERSON,
    AGENT_COMES, AGENT_HEARS, AGENT_TIMER, AGENT_LINGERS, AGENT_CRASH, AGENT_PREEMPTED, SETUP_ENDS,
    RANKS_SPAWNED, RANK_TICK, RANK_STANDS, RANK_PARTS, RANK_ENDS, AGENT_REPORTS, NODE_SILENT, CLEANUP_ENDS, LINK_CUT,
    CLOCK_JUMPS, MACHINE_SLEEPS, POWER_CUT, DISK_FULL, DISK_FREE, WHATS
};

enum harm {
    HARM_LOST, HARM_TWICE, HARM_LATE, HARM_GHOST, HARM_STRANGER, HARM_CUT, HARM_HUB_CRASH,
    HARM_STORE_FULL, HARM_CLOCK, HARM_AGENT_CRASH, HARM_AGENT_MISSING, HARM_AGENT_SLOW, HARM_PREEMPTED,
    HARM_SETUP, HARM_SPAWN, HARM_SWEEP, HARM_RANK, HARM_HANG, HARM_RANK_DEAF, HARM_DISK,
    HARM_SPOOL, HARM_GPU, HARM_NODE, HARM_PARTED, HARM_SLEEP,
    HARM_HUB_STOP, HARM_HUB_STALL, HARM_STORE_FAILS, HARM_STORE_TORN,
    HARM_POWER, HARM_REFUSED, HARMS
};

enum person { SAYS_SUBMIT, SAYS_STOP, SAYS_HOLD, SAYS_RELEASE, SAYS_WHY, PERSON_WORDS };

enum message_type { MSG_HELLO, MSG_EVENT, MSG_BEAT, MSG_LAUNCH, MSG_ACK, MSG_STOP };

/* A message of agent/wire/wire.h, as both sides see it after its check. Shared by its copies. */
struct message {
    int               users;
    enum message_type type;
    int               attempt;
    char              nonce[CORE_NONCE];
    int64_t           seq;          /* of an event or an ack; of LAUNCH: acked; of a heartbeat: the step */
    int               generation;   /* of a heartbeat */
    int64_t           wall_ms, mono_ms;
    const char       *kind;
    json_t           *body;
    struct retry_rules budget;      /* LAUNCH */
    int64_t           failures, same, last_step;
    char              fingerprint[CORE_FINGERPRINT];
    unsigned          excluded;     /* LAUNCH: a bit per GPU */
};

/* `life` is that of the process that asked for it: what a dead one asked for does not happen. */
struct happening {
    int64_t         at;
    uint64_t        order;
    enum what       what;
    int             job, attempt, a, b;
    uint64_t        life;
    struct message *message;
};

/* What is really there, whatever the programs believe. */
struct truth {
    int64_t steps, checkpoint;
    int64_t every;              /* steps between two checkpoints */
    bool    doomed;             /* its ranks always fail at once */
    bool    cursed;             /* its agents often die as soon as ranks live */
    bool    engine, has_setup, completed, asked_to_stop;
    bool    shown;              /* somebody asked about it after its end */
    int64_t most;               /* the highest step that its ranks have made */
    bool    rejoin;             /* its ranks wait when they have lost another one */
    int     np;                 /* ranks, while nothing is left out */
    bool    gpus;               /* each on a GPU of its own ... */
    int     bad_gpu;            /* ... of which this one is broken, -1: none */
    bool    two_nodes;          /* the second half of them is on another one */
    struct retry_rules rules;
    json_t *submit, *stop;      /* bodies */
};

/* Patience as its header states it, counted by somebody else. */
struct patience_rule {
    int64_t best, best_before, failures, same;
    char    last[300];          /* how it failed the last time, digits blanked */
    bool    at_line;            /* ... by a mistake of its script, before its first step */
    int     rank, times;        /* to blame, so often in a row, without a step gained */
    char    cause[24];
    bool    proof;              /* by the word of its GPU */
    unsigned due;               /* a bit for the GPU that must be left out now */
};

struct agent {
    bool     made, alive, fenced, launched, finished, preempted, asked;
    uint64_t life;
    struct agent_core *core;
    struct message **spool;     /* events; the n-th has seq n+1 */
    int64_t  spooled, room;
    int64_t  acked, sent, timer_at;
    int      losses;            /* the next events that its spool does not take */
    int      conn;              /* 0: nobody is connected */
    int      generation, ranks_live;
    int      np;            /* of this attempt */
    int      gpu[RANKS];    /* of each rank, -1: none */
    unsigned excluded;      /* what the controller told it to leave out */
    bool     rank[RANKS];
    bool     detached[RANKS]; /* waits for the next generation */
    bool     deaf;
    bool     fallen, lost;  /* its other node is gone; the core has said so */
    int64_t  step;
    double   jitter;
    int64_t  not_before;        /* the back-off it has announced */
    struct patience_rule rule;
};

enum link_state { LINK_NONE, LINK_LOOKING, LINK_UP, LINK_BURYING };

/* A job as the input that is being committed has left it. */
struct hub_job {
    struct job_core core;
    int64_t         ready_ms;   /* no start before, on w->now: the end of its back-off */
};

struct stored_event {
    const char *kind;
    bool        from_agent;
    int64_t     at_ms, attempt;
    json_t     *body;
};

/* What is committed. */
struct stored {
    struct stored_event *events;
    int             count, room;
    int64_t         since_ms;   /* of its submit, on w->now */
    uint64_t        beat_life;  /* the last heartbeat with a step came to this controller, */
    int64_t         beat_step, beat_attempt, beat_generation;
    int64_t         acked[ATTEMPTS];
    char            nonce[ATTEMPTS][CORE_NONCE];
    int64_t         live;       /* the attempt that was placed and is not over, 0: none */
    int64_t         step, steps;
    unsigned        excluded;   /* GPUs, a bit each */
    bool            done;
    struct job_core latest;     /* as it was in memory at the commit */
};

/* One direction of a job's newest connection. */
struct stream {
    int     conn;
    bool    broken;
    int64_t at;                 /* when the newest message arrives */
};

struct cover {
    long inputs, events, harms[HARMS];
    long arrows[JOB_STATES][JOB_FSM_EVENTS];
    long causes[32];            /* CAUSES of them */
    long results[RESULTS];
    long kept;                  /* ranks that went on in their processes */
    long job_ms;                /* from submit to end, together */
};

struct world {
    uint64_t         seed, chance;
    int64_t          now, skew;         /* monotonic; the wall is skew ahead */
    int64_t          asleep;            /* was suspended; part of the skew */
    int64_t          ahead[4];          /* of the boot's clock was the wall, before each jump */
    int              jumps;
    bool             verbose;
    struct happening *heap;
    size_t           count, room;
    uint64_t         order;
    char             broken[512];       /* the first invariant that did not hold */
    struct cover     cover;

    int              boots;             /* of the machine */
    int              jobs, cpus, calm;  /* calm: faults are so many times rarer */
    bool             up, full;          /* full: the store's disk */
    uint64_t         life;
    int              conns;
    struct stream    streams[JOBS][2];
    struct hub_job   hub[JOBS];
    struct stored    store[JOBS];
    int              after[JOBS];       /* job index, or -1 */

    struct truth     truth[JOBS];
    struct agent     agents[JOBS][ATTEMPTS];
};

/* clock.c */
uint64_t chance(struct world *w);
int64_t between(struct world *w, int64_t low, int64_t high);
/* True once in `n`, while faults still happen; counted. */
bool fault(struct world *w, int n, enum harm kind);
int64_t wall(const struct world *w);
struct happening *plan(struct world *w, int64_t in_ms, enum what what, int job, int attempt, uint64_t life);
bool next(struct world *w, struct happening *out);
void broke(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void say(const struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* node.c */
void node_happens(struct world *w, const struct happening *h);
void agent_connect(struct world *w, int job, int attempt, int conn);
void agent_dies(struct world *w, int job, int attempt);
void agents_power_cut(struct world *w);
void agent_end(struct agent *a);            /* the world is over */
void ranks_kill(struct world *w, int job, int attempt);

/* shell.c */
void hub_open(struct world *w);
void hub_close(struct world *w);
/* What happens next; meanwhile the controller runs. False: nothing ever will. */
bool hub_next(struct world *w, struct happening *out);
void hub_happens(struct world *w, const struct happening *h);
void hub_crash(struct world *w);
/* What the scheduler is asked: fills queue[JOBS] and *node, returns how many. */
int64_t hub_pass(const struct world *w);    /* when its next pass is planned, INT64_MAX: none */
size_t hub_queue(const struct world *w, struct sched_job *queue, struct sched_node *node);

/* history.c: a job as an input has changed it, once that is committed */
void history_commit(struct world *w, int job, const struct job_core *next,
                  const struct core_output *out, const struct core_input *in, int64_t seq);
/* A controller that has started believes this of it. */
void history_compare(struct world *w, int job, const struct job_core *now);
void history_end(struct stored *s);

/* net.c: messages. post() makes them late, sometimes lost or doubled. */
struct message *message_make(enum message_type type, int attempt, const char *nonce);
struct message *message_hold(struct message *m);
void message_drop(struct message *m);
void post(struct world *w, bool to_hub, int job, int conn, struct message *m);  /* takes it */

/* rules.c */
void rules_check(struct world *w);                          /* after whatever happened */
void rules_commit(struct world *w, int job, const struct core_event *e,
                  const struct core_input *in);             /* before it is stored */
void rules_launched(struct agent *a, const struct message *launch);
void rules_effect(struct world *w, int job, int attempt, const struct agent_effect *e);
void rules_step(struct agent *a, int64_t step);             /* a rank told of it */

/* gpu.c: an attempt's ranks get the GPUs that are not left out, all of them if none remains. */
void gpu_assign(struct world *w, int job, struct agent *a, json_t **plan, json_t **facts);
/* Does one of its ranks fail by its GPU now? Which, or -1. */
int gpu_fails(struct world *w, int job, const struct agent *a);
int gpu_number(const char *uuid);           /* -1: no such */

/* endings.c: plain ones by name, then the rows of a table, some of which have a name, too. */
enum {
    CRASHES, HEEDS, DIES_OF_TERM, IS_KILLED, FINISHES, FULL_DISK, GIVES_UP, ROWS_FROM,
    ENDS_BY_SEGV = ROWS_FROM + 1, ENDS_BY_GPU = ROWS_FROM + 7, ENDS_ALONE = ROWS_FROM + 8
};
int ending_draw(struct world *w);       /* a row, seldom one after which nothing helps */
struct agent_exit ending_exit(int how, const char **reported);  /* reported: its last line, or NULL */

/* rejoin.c; false: there is no such rank to part. */
void parting_begins(struct world *w, int job, int attempt);
bool parting_happens(struct world *w, const struct happening *h);
void parting_ends(struct world *w, int job, int attempt, bool keep);

/* nodes.c: the other node of an attempt, if it has one, may fall now; some time after `in_ms` its
 * agent is told.  Ranks that live there are gone, and say nothing. */
void node_may_fall(struct world *w, int job, int attempt, int odds, int64_t in_ms);
int node_first_rank(const struct agent *a);     /* of the other node */
struct agent_lost node_is_lost(const struct agent *a); /* what its agent is told then */
void nodes_effect(struct world *w, int job, int attempt, const struct agent_effect *e);

/* gpu_blame.c: may an agent leave this GPU out? */
void suspicion_failed(struct agent *a, const json_t *generation_ended);
void suspicion_excluded(struct world *w, int job, int attempt, const json_t *excluded);
void suspicion_over(struct world *w, int job, int attempt);    /* continues, or ends */
void suspicion_spawn(struct world *w, int job, int attempt);

/* cover.c */
void cover_add(struct cover *sum, const struct cover *c);
/* Returns how many of arrows, causes and faults were never seen; prints them after that many worlds. */
enum { COVERS_ALL = 2000 };
int cover_print(const struct cover *c, long seeds);
void cover_arrows(struct cover *c);         /* count what job_fsm_step() is asked, NULL: no more */
const char *harm_name(enum harm kind);

#endif
