/* SPDX-License-Identifier: Apache-2.0 */
/* follower_link.h - connects a follower on another node than node 0 to the leader
 *
 * Joins with the node's facts, carries messages in both directions (agent/nodes/node_channel.h), and sends the ranks'
 * flight pages as differences. The node leaves the attempt on the leader's order, when the leader has been silent for
 * the lost time, or when the controller stops it. In each case it first kills its ranks, and no process remains.
 *
 * A STOP from the controller also goes to the leader, which stops all nodes in order; so a connected
 * follower waits for the grace period and some extra time. If its machine is about to end, the follower informs the
 * leader.
 */
#ifndef AGENT_NODES_FOLLOWER_LINK_H
#define AGENT_NODES_FOLLOWER_LINK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct follower;
struct follower_link;

/* No process of the attempt is left on this node; close the link and the follower. */
typedef void (*follower_link_over_fn)(void *arg);

/* Connects to the leader at once. launch: the controller's LAUNCH, with its group. The follower must
 * outlive the link. */
int follower_link_open(struct follower_link **out, uv_loop_t *loop, struct follower *follower, const json_t *launch,
                       follower_link_over_fn over, void *arg, struct err *err);
/* Run the loop once more before follower_link_destroy(). Both accept NULL. */
void follower_link_close(struct follower_link *l);
void follower_link_destroy(struct follower_link *l);

/* Leaves: at once without a connection, else on the leader's order or after the grace period. preempted: the machine
 * is about to end, so the leader must be informed. */
void follower_link_stop(struct follower_link *l, const char *reason, int64_t grace_ms, bool preempted);

#endif
