/* SPDX-License-Identifier: Apache-2.0 */
/* followers.h - the agents of an attempt's nodes 1, 2, ..., which follow its leader on node 0
 *
 * The leader (job->agents.link) sends the attempt's events.  The controller starts the followers and sends
 * them the leader's endpoint; from then on they obey the leader (agent/nodes/leader.h) and send no
 * events of their own.  job->absent has the reason why a follower cannot start.  The leader reports
 * that a follower did not join or was lost; the controller tells the leader if it has proof that a
 * follower is dead or cannot be started.
 *
 * The leader's endpoint is kept in memory only; after a restart the leader sends it again.
 */
#ifndef CONTROLLER_ATTEMPT_FOLLOWERS_H
#define CONTROLLER_ATTEMPT_FOLLOWERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct job;

/* Finds the agents of the newest attempt's other nodes, or with may_start starts them. No effect if
 * it has one node, if its nodes are not known yet, or if called again. */
void followers_open(struct job *job, bool may_start);
void followers_close(struct job *job);      /* the agents keep running */

/* The attempt is over: ends all their processes, however long it takes (orphan.h). */
void followers_dismiss(struct job *job);

/* Sets the leader's endpoint: {addresses, port, key}, borrowed. */
void followers_endpoint(struct job *job, const json_t *endpoint);

#endif
