/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - chooses the nodes of an attempt, and gives the reasons against the others
 *
 * Hosts of launch: ssh are ordered by recent failures, then as in the spec. Nodes that the job
 * lost, or that failed often recently, come last; after a loss the next attempt runs on fewer
 * nodes, down to resources.min_nodes, before it uses such a node again.  With launch: local
 * several nodes are simulated on this machine, one agent for each.  Slurm chooses nodes itself;
 * it gets their number and a list to exclude.
 */
#ifndef CONTROLLER_NODES_PLACEMENT_H
#define CONTROLLER_NODES_PLACEMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct job;

/* Returns the nodes for `placed` (job_core.h): {node, nodes, least, left_out}. NULL: the job waits, and
 * job->unplaced has the reason. */
json_t *placement_make(struct job *job);

/* Called when an agent of the newest attempt connects: reads the names of its nodes if there are
 * several and they are unknown. -1: not available yet. */
int placement_learn(struct job *job, struct err *err);

/* The end of an attempt on a node with too few GPUs ("few", "usable" and perhaps "node" in `body`, agent/wire/wire.h), as
 * it is stored: it names the node, and if no other one is left, the one that came nearest. *places: as
 * retry.h counts them. A new object; NULL: the end is as the agent tells it. */
json_t *placement_too_few(int64_t *places, const struct job *job, const json_t *body);

/* After Slurm has refused what was left without such nodes: the one that came nearest; false: there is none. */
bool placement_nearest(char *out, size_t size, const struct job *job);

/* On how many hosts the first agent of a job of launch: ssh may run, now or when they can be reached; excluding
 * `without` (NULL: none). 0: none, or the job has no list of hosts. */
int64_t placement_places(const struct job *job, const char *without);

#endif
