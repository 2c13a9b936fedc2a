/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - the processes of a generation (or the setup) on a node: start, watch, message, signal
 *
 * Rank numbers are global: on a node with ranks 4 to 7, functions take and report 4 to 7.
 *
 * Each process has its own session, its output captured in RUN_DIR/rank<N>.log (the setup's in
 * setup.log), a pipe for its progress lines, one for commands, and a flight page. Its exit arrives
 * as SIGCHLD, and its remaining output is read before the exit is reported. As a subreaper this
 * process also reaps the orphans of its children.
 */
#ifndef AGENT_RANKS_RANKS_H
#define AGENT_RANKS_RANKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct agent_exit;
struct container_job;
struct err;
struct flight_page;
struct snapshot_memfds_claim;
struct launch_env;
struct ranks;

struct ranks_hooks {
    void (*exited)(void *arg, const struct agent_exit *e);
    void (*line)(void *arg, int generation, int rank, const json_t *line);
    void (*output)(void *arg, int rank, const char *bytes, size_t size); /* not for the setup */
    /* A rank's line for all other ranks; those on this node already have it. NULL: single node. */
    void (*broadcast)(void *arg, int generation, const json_t *line);
    void *arg;
};

/* All strings must outlive the ranks. */
struct ranks_job {
    const char        *run_dir;
    const char        *workdir;
    const char *const *argv;      /* of a rank */
    const char *const *setup_argv; /* or NULL */
    const char *const *fetch_argv; /* or NULL */
    int stop_signal;       /* signal that stops a command; 0: no command, SIGTERM is used */
    bool stop_session;     /* ... sent to all its processes at once, not first to the main programs */
    int checkpoint_signal; /* signal that requests a checkpoint from a command; 0: none */
    int hold;       /* a descriptor that every process inherits (agent/os/lock_bundle.h); 0: none */
    const struct container_job *container; /* ranks and setup run in containers; NULL: they do not */
    bool snapshots; /* ranks get snapshot memory that outlives them (snapshot_memfds.h) */
};

int ranks_create(struct ranks **out, uv_loop_t *loop, const struct ranks_hooks *hooks, struct err *err);
/* Closes the handles; run the loop once more before ranks_destroy(). */
void ranks_close(struct ranks *r);
void ranks_destroy(struct ranks *r);

void ranks_set_job(struct ranks *r, const struct ranks_job *job);

/* From now on processes run in these containers; it must outlive the ranks. */
void ranks_set_container(struct ranks *r, const struct container_job *container);

/* Lists snapshots that earlier generations left in memory on this node (at most
 * SNAPSHOT_MEMFDS_SETS of snapshot_memfds.h); returns how many. */
int ranks_claims(const struct ranks *r, struct snapshot_memfds_claim *out);

/* Starts generation e->generation with launch_env_local(e) processes (0: the setup, one); fills
 * pids. With e->keep, live processes of the last generation, which have detached
 * (engine/train/rejoin.h), continue. On failure those already started are killed; their
 * exits are reported later. */
int ranks_start(struct ranks *r, struct launch_env *e, int64_t *pids, struct err *err);

/* Sends {"cmd":"..."} to every live rank. */
void ranks_control(struct ranks *r, const char *command);

/* Passes on the line of a rank on another node. */
void ranks_broadcast(struct ranks *r, const json_t *line);

/* Signals the process group of every live rank. SIGABRT: ends their processes so that they print
 * their stacks (agent/ranks/stack_dump.h), the second time also those that catch SIGTERM. */
void ranks_signal(struct ranks *r, int signo);

/* Reads a rank's flight page (pid 0 if it never attached). Returns the pid of ranks_pid(). */
int64_t ranks_look(const struct ranks *r, int rank, struct flight_page *page);

/* The first process of a rank, in its container if it has one; 0: it has ended, and so has the process in its
 * container. And the number of bytes of its output so far. */
int64_t ranks_pid(const struct ranks *r, int rank);
uint64_t ranks_output_bytes(const struct ranks *r, int rank);

/* The time of a live rank by phase: init_ms, data_ms and checkpoint_ms. */
void ranks_phases(const struct ranks *r, int rank, struct agent_exit *e);

/* For the present generation: first rank on this node, number of ranks, number alive. */
int ranks_first(const struct ranks *r);
int ranks_count(const struct ranks *r);
int ranks_living(const struct ranks *r);

/* The pids that write the flight pages, or else the ranks' pids, starting with `first`'s (if any); the caller frees
 * the array; NULL: no memory. */
int64_t *ranks_workers(const struct ranks *r, int first);

/* The last lines of a rank's output, or "". */
const char *ranks_last_lines(const struct ranks *r, int rank);

#endif
