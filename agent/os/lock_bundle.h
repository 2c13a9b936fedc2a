/* SPDX-License-Identifier: Apache-2.0 */
/* lock_bundle.h - any number of locks held by one descriptor, in every process that has it
 *
 * flock(2) locks end when the last descriptor of the open file is closed. The descriptors are queued in a socket
 * (SCM_RIGHTS) and closed here: the locks last as long as any process has the other end of the socket open. So a rank
 * inherits one descriptor, however many GPUs and CPU slots its attempt holds, and so does the guardian
 * (agent/ranks/guardian.h), which starts before there is any lock.
 */
#ifndef AGENT_OS_LOCK_BUNDLE_H
#define AGENT_OS_LOCK_BUNDLE_H

struct err;

struct lock_bundle {
    int hold; /* processes with this end open hold the locks; it is inherited, and never read */
    int add;  /* for lock_bundle_add() alone */
};

#define LOCK_BUNDLE_NONE {-1, -1}

int lock_bundle_open(struct lock_bundle *b, struct err *err);

/* Puts locked descriptors into it, all or none; the caller closes its own. */
int lock_bundle_add(const struct lock_bundle *b, const int *fds, int count, struct err *err);

/* Releases all its locks, even if other processes have the descriptor. */
void lock_bundle_empty(const struct lock_bundle *b);

#endif
