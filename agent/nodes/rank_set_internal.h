/* SPDX-License-Identifier: Apache-2.0 */
/* rank_set_internal.h - state of a rank set, shared by rank_set*.c only */
#ifndef AGENT_NODES_RANK_SET_INTERNAL_H
#define AGENT_NODES_RANK_SET_INTERNAL_H

#include "agent/core/agent_core.h"
#include "agent/nodes/rank_set.h"
#include "agent/ranks/launch_env.h"

/* The consecutive ranks of a node. */
struct rank_set_node {
    int  first, ranks;
    bool lost;
};

struct rank_set {
    struct rank_set_hooks hooks;
    uv_loop_t            *loop;
    struct ranks *ranks; /* those on this node */
    struct cleanup       *cleanup;
    struct leader *leader; /* NULL: single node */
    int                   np;
    int64_t              *pids;   /* of all ranks */

    /* several nodes only */
    struct rank_set_node *nodes;
    int                   n;
    int *node_of;                     /* node of each rank */
    char                 *node_ranks; /* "4,4,2" */

    /* a pending answer to rank_set_start() */
    int                     starting; /* the generation, -1: none */
    struct launch_env next;           /* its environment, while nodes report their snapshots */
    bool                    asking;
    bool keeps; /* ranks have snapshot memory (agent/ranks/snapshot_memfds.h) */
    int64_t                 snapshot_step;
    char trouble[300];                /* why the start failed on this node, "" = it did not */
    struct deferred_events *deferred; /* events of local ranks meanwhile */
    int setups;                       /* nodes whose setup is running */
    struct deferred_events *setup;    /* the exit to report */
    bool                    setup_failed;

    /* a pending answer to rank_set_cleanup() */
    int cleanups; /* outstanding parts */
    bool               clean;
    char               left[600];
};

/* rank_set_nodes.c: the same for several nodes. */
int rank_set_nodes_prepare(struct rank_set *w, const json_t *plan, struct err *err);
void rank_set_nodes_start(struct rank_set *w, struct launch_env *e);
void rank_set_nodes_exited(struct rank_set *w, const struct agent_exit *e); /* on this node */
void rank_set_nodes_cleaned(struct rank_set *w, const char *who, bool clean, const char *left);
void rank_set_nodes_destroy(struct rank_set *w);

#endif
