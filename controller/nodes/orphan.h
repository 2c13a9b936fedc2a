/* SPDX-License-Identifier: Apache-2.0 */
/* orphan.h - ends agents of attempts that were lost without proof of their death
 *
 * A host that stopped answering may return with ranks that train in parallel to their successors.
 * Each such attempt, or node of one, is a file in $JOBCTL_HOME/orphans; the controller, also after
 * restarts, contacts the host until all processes of the attempt have ended.
 */
#ifndef CONTROLLER_NODES_ORPHAN_H
#define CONTROLLER_NODES_ORPHAN_H

#include <stdint.h>

struct attempt_row;
struct daemon;
struct remote;

/* Records node `node` (followers.h) of the attempt and starts to contact its host. */
void orphan_add(struct daemon *d, const struct attempt_row *row, const struct remote *remote,
                int node,
                const char *host);

/* A host on which an agent of the job may still live, or NULL. */
const char *orphan_of(const struct daemon *d, int64_t job);

/* Loads the orphans of earlier controllers. */
void orphan_open(struct daemon *d);
void orphan_close(struct daemon *d);

#endif
