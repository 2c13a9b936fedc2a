/* SPDX-License-Identifier: Apache-2.0 */
/* fleet_probe.h - what the node has, as `jobctl-agent probe` tells it
 *
 * A child, because a driver may hang or crash the one who asks it.  One that has not answered after
 * PATIENCE_MS is ended.
 */
#ifndef CONTROLLER_NODES_FLEET_PROBE_H
#define CONTROLLER_NODES_FLEET_PROBE_H

#include <jansson.h>

struct daemon;
struct fleet_probe;

/* Takes the facts, an object; empty where nothing came that could be used. */
typedef void (*fleet_probe_fn)(struct daemon *d, json_t *facts);

/* Asks the node; `told` is called once. NULL: it has been called. */
struct fleet_probe *fleet_probe_open(struct daemon *d, fleet_probe_fn told);
void fleet_probe_close(struct fleet_probe *p);      /* accepts NULL; nothing is told any more */

#endif
