/* SPDX-License-Identifier: Apache-2.0 */
/* follower.h - what an agent does for the leader on its node: prepares, starts, watches, ends ranks
 *
 * Every node of an attempt has one, the first included. A follower makes no decisions: it obeys the
 * leader's messages, and reports the lines, exits and errors of its ranks as messages
 * (agent/wire/leader_wire.h). On the first node the leader is in the same process
 * (agent/nodes/leader.h); on the others a connection carries the messages
 * (agent/nodes/follower_link.h).
 */
#ifndef AGENT_NODES_FOLLOWER_H
#define AGENT_NODES_FOLLOWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/wire/wire.h"

struct activity_sample;
struct err;
struct flight_page;
struct follower;

struct follower_options {
    int64_t     job, attempt;
    const char *nonce, *run_dir;
    const char *train;   /* path of jobctl-train */
    const char *version; /* RUN_DIR of this agent */
    const char *tag;     /* for the log */
    json_t     *facts;   /* facts of this node */
    int64_t     since;   /* when the attempt's first agent here started (identity.h); 0: not known */
    bool        first;   /* this agent is the first, and has started nothing yet */
};

struct follower_hooks {
    void (*message)(void *arg, enum wire_message number, json_t *body); /* takes the body */
    /* Output of a rank that the job has rules for (`watch:`), and of the first rank of a `run:` job. */
    void (*output)(void *arg, int rank, const char *bytes, size_t size);
    void *arg;
};

/* The options' pointers must stay valid. */
int follower_create(struct follower **out, uv_loop_t *loop, const struct follower_options *o, struct err *err);
/* Run the loop once more before follower_destroy(). Both accept NULL. */
void follower_close(struct follower *f);
void follower_destroy(struct follower *f);

/* The number of this node, and how messages reach the leader; call before any message. */
void follower_set_place(struct follower *f, int node, int nodes);
void follower_set_hooks(struct follower *f, const struct follower_hooks *hooks);

/* Runs every check that can refuse a launch before a process is started; launch: PREPARE's (leader_prepare()).
 * *preflight: problems found (agent/doctor/doctor.h), a new object or NULL. */
int follower_prepare(struct follower *f, json_t *spec, json_t *launch, json_t **preflight, struct err *err);
bool follower_has_setup(const struct follower *f); /* after follower_prepare() */
bool follower_has_fetch(const struct follower *f); /* the same: must models be downloaded from a hub? */
/* This node's part of the plan, before ranks start: watches its GPUs from now on. */
void follower_set_plan(struct follower *f, json_t *plan);
/* The environment that its ranks inherit instead of this process's; borrowed. */
void follower_set_environment(struct follower *f, char *const *base);
/* JOBCTL_LEASE of its ranks (engine/contract/fence.h); "": none. */
void follower_set_fence(struct follower *f, const char *fence);

/* A descriptor that its processes inherit, before follower_prepare() (agent/os/lock_bundle.h). */
void follower_set_hold(struct follower *f, int hold);

/* The leader asks for the lease of this machine's GPUs and CPU slots (agent/machine/machine_lease.h); nodes: how many
 * nodes of the job are on this machine (more than one only if they are simulated), 0: release the lease.
 * follower_tell_lease() answers, at least once: while the lease is not held, `text` is the reason. gpus: the facts'
 * GPUs, with those that are not this job's marked; the call takes the reference; NULL: unchanged. */
typedef void (*follower_lease_fn)(void *arg, int round, int nodes);
void follower_set_lease(struct follower *f, follower_lease_fn lease, void *arg);
void follower_tell_lease(struct follower *f, int round, bool holds, const char *text, json_t *gpus);

/* Obeys a message of the leader. */
void follower_receive(struct follower *f, enum wire_message number, const json_t *body);

/* --- inspection -------------------------------------------------------------------------- */

const struct follower_options *follower_options(const struct follower *f);

/* The ranks on this node; read-only (agent/ranks/ranks.h). */
const struct ranks *follower_ranks(const struct follower *f);

/* Reads a rank's flight page (pid 0 if it never attached), and, if not NULL, the state letter of
 * the process that writes it (agent/os/process.h; 0: not known) and the counters of all processes
 * of the rank. Returns the rank's pid, or 0 if it has exited. */
int64_t follower_look(const struct follower *f, int rank, struct flight_page *page, char *state,
                      struct activity_sample *use);

#endif
