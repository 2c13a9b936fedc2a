/* SPDX-License-Identifier: Apache-2.0 */
/* reachability.h - do nodes reach each other?  Each opens a port and knocks at those of the others
 *
 * An address or a route says little: firewalls drop, and the address of a bridge is the same on every
 * machine.  So whoever is called says a word that was drawn for it, and only that word counts.
 */
#ifndef AGENT_DOCTOR_REACHABILITY_H
#define AGENT_DOCTOR_REACHABILITY_H

#include <jansson.h>

struct err;

/* Listens until reachability_close(), or the end of this process. {"addresses":["10.0.0.1",...],
 * "port":N, "word":"32 hex"}, or NULL with a sentence. */
json_t *reachability_listen(struct err *err);

void reachability_close(void);

/* doors: [{"host":"gpu2", "addresses":[...], "port":N, "word":"..."}].  All at once, for a few seconds.
 * [{"host":"gpu2", "address":"10.0.0.2", "ms":0.3}], or with "error" instead of both: why not. */
json_t *reachability_at(const json_t *doors);

#endif
