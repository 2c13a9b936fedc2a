/* SPDX-License-Identifier: Apache-2.0 */
/* host.h - a machine on a virtual clock, for the agent's real code
 *
 * The agent under test is attempt_run(), whole and unchanged, with its socket, its spool and its pipes, as a virtual
 * process (tests/sim/virtual_process.h). Simulated are the processes that it starts, and what it learns from the kernel
 * and from other programs. A seed replays to the same bytes.
 *
 *   host.c   chance, children, signals          ranks.c  what simulated processes do
 *   start.c  which process is started
 *   peer.c   a controller at the agent's socket rules.c  what must hold
 *   stand_ins.c  functions of the agent that look at the real machine
 *   ../sim_agent.c  seeds
 */
#ifndef TESTS_SIM_AGENT_HOST_H
#define TESTS_SIM_AGENT_HOST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/virtual_process.h"

struct flight;

enum { KEPT_FROM = 500, NS_PER_MS = 1000000, PROCESSES = 64, TEAMS = 64, FIRST_PID = 5000000, EXITS = 512 };
#define NEVER INT64_MAX

/* What goes wrong in a generation, at one rank, in one step. */
enum fate {
    FATE_NONE,
    FATE_EXIT,    /* it says why, and exits */
    FATE_SIGNAL,  /* a signal that nobody of jobctl sent */
    FATE_HANG,    /* it never ends its phase, and takes no SIGTERM */
    FATE_STOPPED, /* SIGSTOP from outside */
    FATE_SLOW,    /* one long step, within every limit: not a fault */
    FATE_ORPHAN,  /* it leaves a child and fails */
    FATE_REFUSED, /* it cannot be started */
    FATES
};

enum process_kind { PROCESS_NONE, PROCESS_RANK, PROCESS_SETUP, PROCESS_TOOL, PROCESS_CHILD };
enum place { AT_START, AT_DATA, AT_WORK, AT_REDUCE, AT_SAVE, AT_END, AT_DETACHED, AT_HUNG };

struct process {
    enum process_kind kind;
    int pid, generation, rank;
    struct sim_process *agent; /* which started it */
    bool alive, zombie, stopped, command;
    int status;
    int out, events, control; /* its ends of the pipes, -1: closed */
    struct flight *flight;
    char flight_path[300];
    enum place place;
    int64_t step, due;
    bool asked_to_stop, asked_to_save, rejoins;
    bool leaves; /* all have agreed to stop at this step */
    uint64_t output_bytes;
    bool dying;              /* by SIGKILL, but in the kernel until `due` */
    int64_t lingers;         /* others of its session work until then */
    char line[4096]; /* of its control pipe */
    size_t line_size;
};

/* How a process has ended. */
struct exit {
    int status;
    int64_t at, lingers;
};

/* A generation, as it really is. */
struct team {
    int np;
    enum fate fate;
    int rank, code;          /* of the fate */
    int64_t at_step;
    int64_t struck;          /* when the fate happened; 0: not yet */
    int64_t from, step;      /* steps at its start; completed by all */
    int64_t told_step, told; /* the newest step line, and its time */
    bool done;
};

struct plan {
    int np, nodes;
    int64_t steps, save_every, step_ms, data_us;
    bool command, has_setup;
    int64_t restarts, no_progress, backoff_min_ms, backoff_max_ms;
    int fault_odds; /* one generation in so many has no fault */
    bool lease;         /* its checkpoint.dir is shared: it needs a lease */
    bool never_launched, never_acked;
    int64_t killed, terminated, fenced, full, free; /* when, or NEVER; the spool's disk is full from, to */
    int64_t node_lost;  /* the second node loses its power */
    int64_t jumps;      /* the wall clock is set */
    int64_t killed_by;  /* ... when this event has arrived; 0: not so */
    int64_t ends_s;     /* the machine ends, Unix time; 0: not known */
};

struct host {
    bool on, verbose;
    int64_t began, until; /* ns */
    int64_t began_wall;
    struct sim_process *agent;    /* of the first node */
    struct sim_process *follower; /* of the second node; NULL: there is one node */
    bool ours[KEPT_FROM]; /* descriptors */
    char dir[120], run_dir[140], run_dir2[140];
    struct plan plan;
    struct process processes[PROCESSES];
    int next_pid;
    struct exit exits[EXITS]; /* by pid - FIRST_PID */
    int64_t lost;       /* when the second node was, 0: never */
    int64_t saved_step; /* of the newest checkpoint */
    struct team teams[TEAMS];
    int generations;
    char broken[600];
    uint64_t digest;
    long counts[FATES];
};

extern struct host host;

/* host.c */
void host_begin(uint64_t seed);
void host_end(void);
int host_keep(int fd); /* moves a descriptor of the world out of the agent's way */
int host_descriptors(void); /* the agent's */
int64_t now(void);
int64_t ms(int64_t n);
void broke(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void digest(const char *text);
void child_died(const struct process *p);
int64_t host_due(void);
void host_run(void);       /* what is due: signals to the agent, its fence */
void host_agent_killed(void);

/* ranks.c */
int64_t ranks_asked_to_save(void); /* when the last time, all of them */
void team_draw(int generation, int np);
bool ranks_listen(void);   /* true: something was read */
int64_t ranks_due(void);
void ranks_run(void);      /* those that are due */
void process_print(struct process *p, const char *text);
int process_signal(struct process *p, int signo);
void processes_lose(const struct sim_process *agent); /* with the power of its machine */
int processes_alive(int generation); /* 0: all, without tools */
struct process *process_of(int pid);

/* peer.c */
void peer_begin(void);
bool peer_listen(void);
int64_t peer_due(void);
void peer_run(void);
void peer_look(void);
void peer_end(void);
void peer_killed(void);    /* the agent was: what it said must be in its spool */

/* rules.c */
void rules_event(const json_t *event);     /* as the agent stored it; in order, each once */
void rules_stop(int64_t grace_ms, bool may_kill); /* may_kill: at once */
void rules_save(void);
void rules_killed(void);                   /* a rank that works gets SIGKILL */
void rules_step(void);                     /* rank 0 reports one */
bool rules_stopping(void);
void rules_heartbeat(const json_t *body);
void rules_look(void);                     /* whenever the world acts */
void rules_end(void);

#endif
