/* SPDX-License-Identifier: Apache-2.0 */
/* rank_set.h - all ranks of a generation, wherever they are
 *
 * What the attempt starts, watches, signals and sweeps.  With one node it is agent/ranks/ranks.h
 * and agent/ranks/cleanup.h, and world_start() has its answer before it returns.  With several, the
 * first ranks are on this node, those of the others are reached through agent/nodes/leader.h, and
 * an answer comes when all nodes have given theirs.  What ranks do or say is told after `started`.
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
struct crew;
struct crew_options;
struct err;
struct flight_page;
struct gpu_event;
struct launch_env;
struct ranks_job;
struct world;

/* Generation 0 is the setup, which every node has once. */
struct world_started {
    int            generation;
    const int64_t *pids;          /* of each rank */
    int64_t        snapshot_step; /* what they go on from in memory; 0: a checkpoint */
    const char    *text;          /* NULL, or why not: what there is of it wants sweeping */
};

struct world_hooks {
    void (*started)(void *arg, const struct world_started *s); /* answers world_start() */
    /* Generation 0: the setup is over on all nodes; it is the first that failed, if one did. */
    void (*exited)(void *arg, const struct agent_exit *e);
    void (*line)(void *arg, int generation, int rank, const json_t *line);
    void (*output)(void *arg, int rank, const char *bytes, size_t size); /* not the setup's */
    void (*swept)(void *arg, bool clean, const char *left);    /* answers world_sweep() */
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
int world_create(struct world **out, uv_loop_t *loop, const char *nonce,
                 const struct world_hooks *hooks, struct err *err);
/* Closes the handles; run the loop once more before world_destroy().  NULL is fine for both. */
void world_close(struct world *w);
void world_destroy(struct world *w);

/* There are other nodes: wait for their agents, until `gathered`.  From then on they are asked what
 * is not about ranks - facts, addresses, PREPARE - through world_crew(). */
int world_gather(struct world *w, const struct crew_options *o, struct err *err);
struct crew *world_crew(const struct world *w); /* NULL: one node */

/* Before the first start: what runs here (agent/ranks/ranks.h), and the plan of all nodes, which
 * says where each rank is. */
int world_prepare(struct world *w, const struct ranks_job *job, const json_t *plan, struct err *err);

/* Start generation e->generation, 0: the setup.  e->plan is that of this node; who is on which node, and
 * what memory is resumed from, is filled in. What *e points to outlives the answer. */
void world_start(struct world *w, struct launch_env *e);

/* {"cmd":"..."} to every living rank; a signal to the process group of each. */
void world_control(struct world *w, const char *command);
void world_signal(struct world *w, int signo);

/* End all that is ours of a generation, 0: of the attempt. */
void world_sweep(struct world *w, int generation);

/* The attempt is over: the other agents leave. */
void world_dismiss(struct world *w);

/* --- looking ----------------------------------------------------------------------------- */

int world_ranks(const struct world *w);

/* The name of the node on which a rank is; "" if there is only one. */
const char *world_where(const struct world *w, int rank);
bool world_is_here(const struct world *w, int rank);

/* What a rank's flight page shows (pid 0 when it has never attached), and, where not NULL, the
 * letter and the I/O of the process that writes it (agent/os/process.h; 0: not known; the letter is
 * 't' while nothing is heard of its node).  Returns the rank's process, 0 when that has ended. */
int64_t world_look(const struct world *w, int rank, struct flight_page *page, char *state,
                   uint64_t *io_mib);

/* The processes of this node that write the pages, that of rank `first` (if it is one of them)
 * first; the caller frees it, NULL when memory ran out. */
int64_t *world_workers(const struct world *w, int first, int *n);

/* Look into the ranks of the other nodes as well: so many answers follow. */
int world_inspect(struct world *w, int generation);

/* Where the time of a rank went (agent/ranks/ranks.h); of one on another node, when it has parted.
 * */
void world_phases(const struct world *w, int rank, struct agent_exit *e);

/* The last lines of a rank's output, or "". */
const char *world_last_lines(const struct world *w, int rank);

/* The name of the phase that a rank's page shows, or NULL when it has never attached. */
const char *world_phase(const struct world *w, int rank);

#endif
