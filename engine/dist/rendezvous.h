/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h - exchange of addresses between the ranks of a generation, before they connect
 *
 * A rank publishes a short text under a key ("tcp.2": the address of rank 2; "nccl": the id
 * of the GPUs' communicator), and all ranks get it.  It travels as a line to the agent
 * (engine/contract/progress.h), which passes it to all ranks of the generation, and via the
 * controller to those on other nodes.  Without an agent it is a file in the directory that
 * JOBCTL_RENDEZVOUS names, which all nodes share.  No port is fixed, and nothing left over can affect another
 * generation, because its number is part of every name.
 *
 * The ranks of each node: JOBCTL_NODE_RANKS="4,4,2" (ranks per node, in order), or
 * torchrun's LOCAL_WORLD_SIZE if it is the same on all nodes.
 */
#ifndef ENGINE_DIST_RENDEZVOUS_H
#define ENGINE_DIST_RENDEZVOUS_H

struct dist_bootstrap;
struct err;
struct progress;
struct rendezvous;

/* `progress` may be NULL. ERR_USAGE: the environment contradicts itself. Succeeds without a way to
 * publish; publishing fails then. */
int rendezvous_open(struct rendezvous **out, struct progress *progress, int world, struct err *err);
void rendezvous_close(struct rendezvous *r);

/* For struct dist_config; valid as long as `r`. */
const struct dist_bootstrap *rendezvous_exchange(const struct rendezvous *r);

#endif
