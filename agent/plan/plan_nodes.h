/* SPDX-License-Identifier: Apache-2.0 */
/* plan_nodes.h - facts of several nodes and a spec to one plan for all ranks
 *
 * Pure: no clock, no I/O.
 * Every node gets the part that plan_make() (agent/plan/plan.h) makes for it; the whole is put
 * together from the parts and has the same shape, but
 *
 *   "np" and "ranks" are those of all nodes, ranks of one node side by side, nodes in their order,
 *        each rank with its "node" and "name";
 *   "env" is what is set alike everywhere, "node_env":[{"node","name","env":[...]}] the rest;
 *   a note or a refusal that is of one node begins with its name.
 *
 * Remedies (agent/core/nccl_fallback.h) are those of all nodes, and the same list in every part:
 * what NCCL is told must not differ between ranks.
 */
#ifndef AGENT_PLAN_PLAN_NODES_H
#define AGENT_PLAN_PLAN_NODES_H

#include <jansson.h>

struct err;

struct plan_node {
    const char   *name;
    const json_t *facts;
};

/* The whole, and for each node its part, in which "first_rank" is its first one; new objects. -1 when
 * they cannot run together, and nothing is made: the sentence names the node and the fix. */
int plan_nodes_make(json_t **plan, json_t **parts, const struct plan_node *nodes, int n,
                    const json_t *spec, struct err *err);

#endif
