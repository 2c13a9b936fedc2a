/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - which nodes an attempt gets, and why not the others
 *
 * Hosts of launch: ssh come in the order of their recent failures, then of the spec. A node that the
 * job has lost, or that failed often lately, comes last of all; and after a loss the next attempt
 * goes on with fewer nodes, down to resources.min_nodes, before it takes such a node again.  Several
 * nodes with launch: local are played by this machine, one agent for each.  Slurm chooses by itself:
 * it is told how many, and whom to leave out.
 */
#ifndef CONTROLLER_NODES_PLACEMENT_H
#define CONTROLLER_NODES_PLACEMENT_H

#include <jansson.h>

struct err;
struct job;

/* What `placed` says of nodes (job_core.h): {node, nodes, least, left_out}. NULL: it waits, and
 * job->unplaced says for what. */
json_t *placement_make(struct job *job);

/* An agent of the newest attempt has spoken: the names of its nodes, if it has several and they
 * were not known. -1: not yet. */
int placement_learn(struct job *job, struct err *err);

#endif
