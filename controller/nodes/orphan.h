/* SPDX-License-Identifier: Apache-2.0 */
/* orphan.h - attempts that were lost without proof: their agents may live, and must not for long
 *
 * A host that stopped answering may come back with ranks that train beside their successors. Each
 * such attempt, or node of one, is a file in $JOBCTL_HOME/strays, and its host is called, over
 * restarts of the controller, until all that lived of it is ended.
 */
#ifndef CONTROLLER_NODES_ORPHAN_H
#define CONTROLLER_NODES_ORPHAN_H

#include <stdint.h>

struct attempt_row;
struct daemon;
struct remote;

/* Remember node `node` (followers.h) of the attempt, and call its host from now on. */
void orphan_add(struct daemon *d, const struct attempt_row *row, const struct remote *remote,
                int node,
                const char *host);

/* The host where an agent of the job may still live, or NULL. */
const char *orphan_of(const struct daemon *d, int64_t job);

/* Those of earlier controllers. */
void orphan_open(struct daemon *d);
void orphan_close(struct daemon *d);

#endif
