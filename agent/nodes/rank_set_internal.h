/* SPDX-License-Identifier: Apache-2.0 */
/* rank_set_internal.h - the inside of a world, shared by rank_set*.c only */
#ifndef AGENT_NODES_RANK_SET_INTERNAL_H
#define AGENT_NODES_RANK_SET_INTERNAL_H

#include "agent/core/agent_core.h"
#include "agent/nodes/rank_set.h"
#include "agent/ranks/launch_env.h"

/* The ranks of a node, side by side. */
struct rank_set_node {
    int  first, ranks;
    bool lost;
};

struct rank_set {
    struct rank_set_hooks hooks;
    uv_loop_t            *loop;
    struct ranks         *ranks;  /* those here */
    struct cleanup       *cleanup;
    struct leader        *leader; /* NULL: one node */
    int                   np;
    int64_t              *pids;   /* of all ranks */

    /* several nodes */
    struct rank_set_node *nodes;
    int                   n;
    int                  *node_of; /* each rank */
    char                 *node_ranks; /* "4,4,2" */

    /* an answer to rank_set_start() that is due */
    int                     starting; /* the generation, -1: none */
    struct launch_env       next;     /* of it, while it is asked who has what memory */
    bool                    asking;
    bool                    keeps;    /* ranks leave memory (agent/ranks/snapshot_memfds.h) */
    int64_t                 snapshot_step;
    char                    trouble[300]; /* why it could not be started here, "" = it was */
    struct deferred_events *deferred; /* what ranks here did meanwhile */
    int                     setups;   /* nodes whose setup runs */
    struct deferred_events *setup; /* how the one that is told ended */
    bool                    setup_failed;

    /* an answer to rank_set_cleanup() that is due */
    int                cleanups; /* parts of it that are outstanding */
    bool               clean;
    char               left[600];
};

/* rank_set_nodes.c: the same for several nodes. */
int rank_set_nodes_prepare(struct rank_set *w, const json_t *plan, struct err *err);
void rank_set_nodes_start(struct rank_set *w, struct launch_env *e);
void rank_set_nodes_exited(struct rank_set *w, const struct agent_exit *e); /* here */
void rank_set_nodes_cleaned(struct rank_set *w, const char *who, bool clean, const char *left);
void rank_set_nodes_destroy(struct rank_set *w);

#endif
