/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h - how the ranks of a generation learn of each other before they can talk
 *
 * A rank says a short text under a key ("tcp.2": where rank 2 can be called; "nccl": the id
 * of the GPUs' communicator), and all ranks get it.  It travels as a line to the agent
 * (engine/contract/progress.h), which tells all ranks of the generation, and over the controller
 * those on other nodes.  Without an agent it is a file in the directory that
 * JOBCTL_RENDEZVOUS names, which all nodes share.  No port is fixed, and nothing is left
 * over for another generation: its number is in every name.
 *
 * Which rank is on which node: JOBCTL_NODE_RANKS="4,4,2" (ranks per node, in order), or
 * torchrun's LOCAL_WORLD_SIZE where all nodes have as many.
 */
#ifndef ENGINE_DIST_RENDEZVOUS_H
#define ENGINE_DIST_RENDEZVOUS_H

struct dist_bootstrap;
struct err;
struct progress;
struct rendezvous;

/* `progress` may be NULL. ERR_USAGE: the environment contradicts itself. Does not yet need a way to
 * say things: who says something and has none fails then. */
int rendezvous_open(struct rendezvous **out, struct progress *progress, int world,
                    struct err *err);
void rendezvous_close(struct rendezvous *r);

/* For struct dist_config; as long as `r`. */
const struct dist_bootstrap *rendezvous_exchange(const struct rendezvous *r);

#endif
