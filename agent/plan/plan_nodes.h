/* SPDX-License-Identifier: Apache-2.0 */
/* plan_nodes.h - makes one plan for all ranks from the facts of several nodes and a spec
 *
 * Pure: no clock, no I/O.
 * Every node gets the part that plan_make() (agent/plan/plan.h) makes for it; the whole is
 * assembled from the parts and has the same shape, except that
 *
 *   "np" and "ranks" cover all nodes, ordered by node, then by rank,
 *        each rank with its "node" and "name";
 *   "env" has variables equal on all nodes, "node_env":[{"node","name","env":[...]}] the rest;
 *   a note or a refusal about one node begins with its name.
 *
 * Fallbacks (agent/core/nccl_fallback.h) are collected from all nodes into one list, equal in every
 * part: NCCL settings must not differ between ranks.
 */
#ifndef AGENT_PLAN_PLAN_NODES_H
#define AGENT_PLAN_PLAN_NODES_H

#include <jansson.h>

struct err;

struct plan_node {
    const char   *name;
    const json_t *facts;
};

/* Makes the whole plan, and for each node its part, in which "first_rank" is its first rank; new objects. -1 if the
 * nodes cannot run together (nothing is made): the message names the node and the fix. */
int plan_nodes_make(json_t **plan, json_t **parts, const struct plan_node *nodes, int n,
                    const json_t *spec, struct err *err);

#endif
