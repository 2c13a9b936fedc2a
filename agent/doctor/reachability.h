/* SPDX-License-Identifier: Apache-2.0 */
/* reachability.h - checks TCP reachability between nodes, each listening on a port
 *
 * Addresses and routes prove little: firewalls drop packets, and a bridge has the same address on
 * every machine. So each listener answers with a random word, and only that word counts as success.
 */
#ifndef AGENT_DOCTOR_REACHABILITY_H
#define AGENT_DOCTOR_REACHABILITY_H

#include <jansson.h>

struct err;

/* Listens until reachability_close(), or until this process ends. Returns
 * {"addresses":["10.0.0.1",...], "port":N, "word":"32 hex"}, or NULL and err. */
json_t *reachability_listen(struct err *err);

void reachability_close(void);

/* endpoints: [{"host":"gpu2", "addresses":[...], "port":N, "word":"..."}]. Connects to all at once,
 * for a few seconds. Returns [{"host":"gpu2", "address":"10.0.0.2", "ms":0.3}], or "error"
 * instead of both. */
json_t *reachability_at(const json_t *endpoints);

#endif
