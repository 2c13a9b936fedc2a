/* SPDX-License-Identifier: Apache-2.0 */
/* follower.h - the agent of a node that is not the first of its attempt
 *
 * It has no opinion: it calls the head (agent/nodes/leader.h), joins with the facts of its node,
 * and starts, signals, inspects and sweeps the ranks here as it is told. It tells what they say,
 * how they end and what their pages show. It leaves when the head says so; when it has not heard of
 * the head for the lost time, or when the controller wants it gone: then its ranks end first, and
 * nothing is left.
 *
 * A STOP of the controller goes to the head as well, which ends all in order. So a member that hears
 * of its head gives it the grace, and then some time. That its machine is taken away the head hears from
 * the member, as it hears what the driver tells of its GPUs.
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
    const json_t *launch; /* the controller's LAUNCH, with its crew */
    json_t       *facts;
};

/* Nothing of the attempt is left on this node; close it. */
typedef void (*follower_over_fn)(void *arg);

/* Calls the head at once. What the options point to must outlive it. */
int follower_open(struct follower **out, uv_loop_t *loop, const struct follower_options *o,
                  follower_over_fn over, void *arg, struct err *err);
/* Run the loop once more before follower_destroy(). NULL is fine for both. */
void follower_close(struct follower *m);
void follower_destroy(struct follower *m);

/* Leave: at once where there is no head, else when the head says so or after the grace. preempted:
 * nobody of ours wants it, so the head is to hear of it. */
void follower_stop(struct follower *m, const char *reason, int64_t grace_ms, bool preempted);

#endif
