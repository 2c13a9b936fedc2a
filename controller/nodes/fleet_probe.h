/* SPDX-License-Identifier: Apache-2.0 */
/* fleet_probe.h - runs `jobctl-agent probe` to learn the node's resources
 *
 * A child process, because a driver may hang or crash its caller.  The child is killed after
 * PATIENCE_MS without an answer.
 */
#ifndef CONTROLLER_NODES_FLEET_PROBE_H
#define CONTROLLER_NODES_FLEET_PROBE_H

#include <jansson.h>

struct daemon;
struct fleet_probe;

/* Takes the facts, an object; empty if the probe failed. */
typedef void (*fleet_probe_fn)(struct daemon *d, json_t *facts);

/* Starts the probe; `told` is called once. NULL: `told` has already been called. */
struct fleet_probe *fleet_probe_open(struct daemon *d, fleet_probe_fn told);
void fleet_probe_close(struct fleet_probe *p);      /* accepts NULL; cancels `told` */

#endif
