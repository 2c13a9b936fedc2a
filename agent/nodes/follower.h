/* SPDX-License-Identifier: Apache-2.0 */
/* follower.h - the agent of a node other than the first one of an attempt
 *
 * A follower makes no decisions: it connects to the leader (agent/nodes/leader.h), joins with the
 * facts of its node, and starts, signals, inspects and cleans up the ranks of its node on the
 * leader's orders. It reports their lines, exits and flight pages. It leaves on the leader's order,
 * when the leader has been silent for the lost time, or when the controller stops it: then it first
 * kills its ranks, and no process remains.
 *
 * A STOP of the controller also goes to the leader, which stops all nodes in order; so a connected
 * follower waits for the grace period and some extra time. A follower reports to the leader when
 * its machine is about to end, and driver events of its GPUs.
 */
#ifndef AGENT_NODES_FOLLOWER_H
#define AGENT_NODES_FOLLOWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct follower;

struct follower_options {
    int64_t       job, attempt;
    const char   *nonce, *run_dir;
    const char   *train;  /* path of jobctl-train */
    const char   *version;
    const char   *tag;    /* for the log */
    const json_t *launch; /* the controller's LAUNCH, with its group */
    json_t       *facts;
};

/* No process of the attempt is left on this node; close the follower. */
typedef void (*follower_over_fn)(void *arg);

/* Connects to the leader at once. The options' pointers must stay valid. */
int follower_open(struct follower **out, uv_loop_t *loop, const struct follower_options *o,
                  follower_over_fn over, void *arg, struct err *err);
/* Run the loop once more before follower_destroy(). Both accept NULL. */
void follower_close(struct follower *m);
void follower_destroy(struct follower *m);

/* Leaves: at once without a connection, else on the leader's order or after the grace.
 * preempted: the machine demands it, so the leader must be told. */
void follower_stop(struct follower *m, const char *reason, int64_t grace_ms, bool preempted);

#endif
