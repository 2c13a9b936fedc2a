/* SPDX-License-Identifier: Apache-2.0 */
/* orphan.h - agents that outlived their attempt: ends them, or resends a lost acknowledgement
 *
 * A host that stopped answering may return with ranks that train in parallel to their successors.
 * Each such attempt, or node of one, is a row of the store (db/orphans.h); the controller contacts the host, also after
 * its own restarts, until all processes of the attempt have ended.
 *
 * The daemon may die after it stored attempt_ended and before it sent the ack.  The agent then lingers
 * although the job is done.  So at each start the daemon contacts the agents of attempts that ended
 * recently.
 */
#ifndef CONTROLLER_NODES_ORPHAN_H
#define CONTROLLER_NODES_ORPHAN_H

#include <stdint.h>

struct attempt_row;
struct daemon;
struct err;
struct remote;

/* Records node `node` (followers.h) of the attempt and starts contacting its host. */
void orphan_add(struct daemon *d, const struct attempt_row *row, const struct remote *remote, int node,
                const char *host);

/* A host where an agent of the job may still be alive, or NULL. */
const char *orphan_of(const struct daemon *d, int64_t job);

/* Loads the orphans of earlier controllers. */
int orphan_open(struct daemon *d, struct err *err);
void orphan_close(struct daemon *d);

#endif
