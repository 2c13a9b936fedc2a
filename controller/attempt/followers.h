/* SPDX-License-Identifier: Apache-2.0 */
/* followers.h - the agents of an attempt beside its head: those of its nodes 1, 2, ...
 *
 * The head, on node 0, speaks for the attempt; it is at job->link.  The controller starts the others
 * and tells them where the head is; from then on they obey the head (agent/nodes/leader.h) and say
 * nothing that is stored.  What keeps one from starting is told in job->absent; that it did not
 * come, or was lost, is the head's word, who is told what is proven here: that nothing of one
 * lives, or that none can be started.
 *
 * The door of the head is kept in memory only.  After a restart the head says it again.
 */
#ifndef CONTROLLER_ATTEMPT_FOLLOWERS_H
#define CONTROLLER_ATTEMPT_FOLLOWERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct job;

/* Find the agents of the newest attempt's other nodes, or with may_start start them. Nothing where it
 * has one node, where its nodes are not known yet, or a second time. */
void followers_open(struct job *job, bool may_start);
void followers_close(struct job *job);      /* they go on */

/* The attempt is over: end what of them lives, however long it takes (orphan.h). */
void followers_dismiss(struct job *job);

/* Where the head is: {addresses, port, key}, borrowed. */
void followers_endpoint(struct job *job, const json_t *door);

#endif
