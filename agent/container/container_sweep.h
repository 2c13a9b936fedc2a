/* SPDX-License-Identifier: Apache-2.0 */
/* container_sweep.h - removes the containers of an attempt whose agent is dead
 *
 * RUN_DIR/container.json, written before the first container starts, has the runtime and its options, so that the
 * process that cleans up after the agent (its guardian, the next agent, the controller) asks the same runtime for
 * containers with the attempt's label. Without that file there are no containers.
 */
#ifndef AGENT_CONTAINER_CONTAINER_SWEEP_H
#define AGENT_CONTAINER_CONTAINER_SWEEP_H

#include <stdbool.h>

struct container;
struct err;

/* Writes the file, unless the runtime's containers are only processes. */
int container_sweep_note(const struct container *c, struct err *err);

/* Waits until the containers are removed.  `all`: also those of other agents of the attempt on this machine.
 * -1: the runtime failed; the message has its last line. */
int container_sweep(const char *run_dir, const char *nonce, bool all, struct err *err);

#endif
