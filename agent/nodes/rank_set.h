/* SPDX-License-Identifier: Apache-2.0 */
/* rank_set.h - all ranks of a generation, wherever they are
 *
 * What the attempt starts, watches, signals and sweeps.  With one node it is agent/ranks/ranks.h
 * and agent/ranks/cleanup.h, and rank_set_start() has its answer before it returns.  With several,
 * the first ranks are on this node, those of the others are reached through agent/nodes/leader.h,
 * and an answer comes when all nodes have given theirs.  What ranks do or say is told after
 * `started`.
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

/* Generation 0 is the setup, which every node has once. */
struct rank_set_started {
    int            generation;
    const int64_t *pids;          /* of each rank */
    int64_t        snapshot_step; /* what they go on from in memory; 0: a checkpoint */
    const char    *text;          /* NULL, or why not: what there is of it wants sweeping */
};

struct rank_set_hooks {
    void (*started)(void *arg, const struct rank_set_started *s); /* answers rank_set_start() */
    /* Generation 0: the setup is over on all nodes; it is the first that failed, if one did. */
    void (*exited)(void *arg, const struct agent_exit *e);
    void (*line)(void *arg, int generation, int rank, const json_t *line);
    void (*output)(void *arg, int rank, const char *bytes, size_t size); /* not the setup's */
    void (*cleaned)(void *arg, bool clean, const char *left);  /* answers rank_set_cleanup() */
    /* Only of other nodes, see agent/nodes/leader.h. */
    void (*gathered)(void *arg);
    void (*prepared)(void *arg, const char *refusal);
    void (*inspected)(void *arg, int node, const char *text);  /* once per other node */
    void (*nccl)(void *arg, int node, const json_t *body);
    void (*lost)(void *arg, const struct agent_lost *l);
    void (*notice)(void *arg, int node, const char *reason, int64_t grace_ms);
    void (*gpu)(void *arg, int node, const struct gpu_event *e);
    void *arg;
};

/* `nonce` must outlive it. */
int rank_set_create(struct rank_set **out, uv_loop_t *loop, const char *nonce,
                    const struct rank_set_hooks *hooks, struct err *err);
/* Closes the handles; run the loop once more before rank_set_destroy(). NULL is fine for both. */
void rank_set_close(struct rank_set *w);
void rank_set_destroy(struct rank_set *w);

/* There are other nodes: wait for their agents, until `gathered`.  From then on they are asked what
 * is not about ranks - facts, addresses, PREPARE - through rank_set_leader(). */
int rank_set_gather(struct rank_set *w, const struct leader_options *o, struct err *err);
struct leader *rank_set_leader(const struct rank_set *w); /* NULL: one node */

/* Before the first start: what runs here (agent/ranks/ranks.h), and the plan of all nodes, which
 * says where each rank is. */
int rank_set_prepare(struct rank_set *w, const struct ranks_job *job, const json_t *plan,
                     struct err *err);

/* Start generation e->generation, 0: the setup.  e->plan is that of this node; who is on which node, and
 * what memory is resumed from, is filled in. What *e points to outlives the answer. */
void rank_set_start(struct rank_set *w, struct launch_env *e);

/* {"cmd":"..."} to every living rank; a signal to the process group of each. */
void rank_set_control(struct rank_set *w, const char *command);
void rank_set_signal(struct rank_set *w, int signo);

/* End all that is ours of a generation, 0: of the attempt. */
void rank_set_cleanup(struct rank_set *w, int generation);

/* The attempt is over: the other agents leave. */
void rank_set_dismiss(struct rank_set *w);

/* --- looking ----------------------------------------------------------------------------- */

int rank_set_ranks(const struct rank_set *w);

/* The name of the node on which a rank is; "" if there is only one. */
const char *rank_set_where(const struct rank_set *w, int rank);
bool rank_set_is_here(const struct rank_set *w, int rank);

/* What a rank's flight page shows (pid 0 when it has never attached), and, where not NULL, the
 * letter and the I/O of the process that writes it (agent/os/process.h; 0: not known; the letter is
 * 't' while nothing is heard of its node).  Returns the rank's process, 0 when that has ended. */
int64_t rank_set_look(const struct rank_set *w, int rank, struct flight_page *page, char *state,
                      uint64_t *io_mib);

/* The processes of this node that write the pages, that of rank `first` (if it is one of them)
 * first; the caller frees it, NULL when memory ran out. */
int64_t *rank_set_workers(const struct rank_set *w, int first, int *n);

/* Look into the ranks of the other nodes as well: so many answers follow. */
int rank_set_inspect(struct rank_set *w, int generation);

/* Where the time of a rank went (agent/ranks/ranks.h); of one on another node, when it has parted.
 * */
void rank_set_phases(const struct rank_set *w, int rank, struct agent_exit *e);

/* The last lines of a rank's output, or "". */
const char *rank_set_last_lines(const struct rank_set *w, int rank);

/* The name of the phase that a rank's page shows, or NULL when it has never attached. */
const char *rank_set_phase(const struct rank_set *w, int rank);

#endif
