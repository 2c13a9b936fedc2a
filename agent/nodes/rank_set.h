/* SPDX-License-Identifier: Apache-2.0 */
/* rank_set.h - all ranks of a generation, on one node or several
 *
 * Starts, watches, signals and cleans up ranks for the attempt. With one node it calls
 * agent/ranks/ranks.h and agent/ranks/cleanup.h, and rank_set_start() has its answer before it
 * returns. With several nodes, the first ranks are on this node, the others are reached through
 * agent/nodes/leader.h, and an answer comes when all nodes have answered. Lines and exits of ranks
 * are delivered after `started`.
 */
#ifndef AGENT_NODES_RANK_SET_H
#define AGENT_NODES_RANK_SET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct agent_exit;
struct agent_lost;
struct leader;
struct leader_options;
struct err;
struct flight_page;
struct gpu_event;
struct launch_env;
struct ranks_job;
struct rank_set;

/* Generation 0 is the setup, which runs once on every node. */
struct rank_set_started {
    int            generation;
    const int64_t *pids;          /* of each rank */
    int64_t snapshot_step;        /* step to resume from memory; 0: from a checkpoint */
    const char *text; /* NULL, or the reason for a failure: ranks already started need a cleanup */
};

struct rank_set_hooks {
    void (*started)(void *arg, const struct rank_set_started *s); /* answers rank_set_start() */
    /* Generation 0: the setup has ended on all nodes; the first failure, if there is one. */
    void (*exited)(void *arg, const struct agent_exit *e);
    void (*line)(void *arg, int generation, int rank, const json_t *line);
    void (*output)(void *arg, int rank, const char *bytes, size_t size); /* not of the setup */
    void (*cleaned)(void *arg, bool clean, const char *left);  /* answers rank_set_cleanup() */
    /* Other nodes only, see agent/nodes/leader.h. */
    void (*gathered)(void *arg);
    void (*prepared)(void *arg, const char *refusal);
    void (*inspected)(void *arg, int node, const char *text);  /* once per other node */
    void (*nccl)(void *arg, int node, const json_t *body);
    void (*lost)(void *arg, const struct agent_lost *l);
    void (*notice)(void *arg, int node, const char *reason, int64_t grace_ms);
    void (*gpu)(void *arg, int node, const struct gpu_event *e);
    void *arg;
};

/* `nonce` must outlive the rank set. */
int rank_set_create(struct rank_set **out, uv_loop_t *loop, const char *nonce,
                    const struct rank_set_hooks *hooks, struct err *err);
/* Closes the handles; run the loop once more before rank_set_destroy(). Both accept NULL. */
void rank_set_close(struct rank_set *w);
void rank_set_destroy(struct rank_set *w);

/* Adds other nodes: waits for their agents, until `gathered`. From then on requests that do not
 * concern ranks (facts, addresses, PREPARE) go through rank_set_leader(). */
int rank_set_gather(struct rank_set *w, const struct leader_options *o, struct err *err);
struct leader *rank_set_leader(const struct rank_set *w); /* NULL: single node */

/* Before the first start: what this node runs (agent/ranks/ranks.h), and the plan of all nodes,
 * which assigns ranks to nodes. */
int rank_set_prepare(struct rank_set *w, const struct ranks_job *job, const json_t *plan,
                     struct err *err);

/* Starts generation e->generation, 0: the setup. e->plan is that of this node; the placement of
 * ranks and the snapshot to resume from are filled in. The pointers in *e must stay valid until
 * the answer. */
void rank_set_start(struct rank_set *w, struct launch_env *e);

/* Sends {"cmd":"..."} to every live rank; a signal to the process group of each. */
void rank_set_control(struct rank_set *w, const char *command);
void rank_set_signal(struct rank_set *w, int signo);

/* Kills all processes of a generation, or of the attempt if 0. */
void rank_set_cleanup(struct rank_set *w, int generation);

/* The attempt is over: the followers leave. */
void rank_set_dismiss(struct rank_set *w);

/* --- inspection -------------------------------------------------------------------------- */

int rank_set_ranks(const struct rank_set *w);

/* The name of a rank's node; "" with a single node. */
const char *rank_set_where(const struct rank_set *w, int rank);
bool rank_set_is_here(const struct rank_set *w, int rank);

/* Reads a rank's flight page (pid 0 if it never attached), and, if not NULL, state letter and
 * I/O of the process that writes it (agent/os/process.h; 0: not known; the letter is 't' while
 * its node is silent). Returns the rank's pid, or 0 if it has exited. */
int64_t rank_set_look(const struct rank_set *w, int rank, struct flight_page *page, char *state,
                      uint64_t *io_mib);

/* The pids on this node that write the pages, with that of rank `first` (if local) first; the
 * caller frees the array; NULL: no memory. */
int64_t *rank_set_workers(const struct rank_set *w, int first, int *n);

/* Inspects the ranks of the other nodes as well; returns how many answers follow. */
int rank_set_inspect(struct rank_set *w, int generation);

/* The time of a rank by phase (agent/ranks/ranks.h); of a rank on another node once it has
 * detached. */
void rank_set_phases(const struct rank_set *w, int rank, struct agent_exit *e);

/* The last lines of a rank's output, or "". */
const char *rank_set_last_lines(const struct rank_set *w, int rank);

/* The name of the phase on a rank's page, or NULL if it never attached. */
const char *rank_set_phase(const struct rank_set *w, int rank);

#endif
