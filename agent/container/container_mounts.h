/* SPDX-License-Identifier: Apache-2.0 */
/* container_mounts.h - the directories that a container sees: those of the job, and the mounts of the spec
 *
 * Pure: no clock, no I/O.
 * A mount of the spec is SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro, both absolute.  A directory below another that is
 * mounted writable at its own path needs no separate mount. Mounts are ordered by target, so that a directory is
 * mounted before one inside it.
 */
#ifndef AGENT_CONTAINER_CONTAINER_MOUNTS_H
#define AGENT_CONTAINER_CONTAINER_MOUNTS_H

#include <stdbool.h>

#include "agent/container/container_command.h"

struct err;

enum { CONTAINER_MOUNTS = 160 };

/* Zeroed: empty. It owns its texts. */
struct container_mounts {
    struct container_mount all[CONTAINER_MOUNTS];
    int n;
};

/* Mounts a path at itself; NULL and "" are skipped. -1: it cannot be mounted. */
int container_mounts_add(struct container_mounts *m, const char *path, bool read_only, struct err *err);
/* Adds a mount of the spec; -1: malformed, with a message without a spec key. */
int container_mounts_parse(struct container_mounts *m, const char *text, struct err *err);
/* Drops redundant mounts, and sorts the others. */
void container_mounts_settle(struct container_mounts *m);
/* Is this path mounted at itself? */
bool container_mounts_cover(const struct container_mounts *m, const char *path);
void container_mounts_fini(struct container_mounts *m);

#endif
