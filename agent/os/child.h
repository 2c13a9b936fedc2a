/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - start a child process: own session, chosen descriptors, default signals
 *
 * The child leads a new session (its pid is also its process group), has fd 0
 * from /dev/null, 1 and 2 on `out`, and the given extra descriptors at 3, 4, ...; all others are
 * closed. It gets SIGTERM when the starting thread ends, so no command outlives its agent
 * unnoticed.
 */
#ifndef AGENT_OS_CHILD_H
#define AGENT_OS_CHILD_H

#include <sys/types.h>

struct err;

enum { CHILD_EXTRA = 160, CHILD_FIRST_FD = 3 };

struct child {
    const char *const *argv;   /* argv[0] is a path */
    char *const       *envp;
    const char *cwd;  /* NULL = inherited */
    const char *cpus; /* CPU affinity such as "0-3,8"; NULL = inherited */
    int out;          /* file for stdout and stderr */
    int                extra[CHILD_EXTRA];
    int                n_extra;
};

/* This process's environment and one more entry, which is borrowed; the caller frees the array.
 * NULL: no memory. */
char **child_environ(const char *more);

/* Returns the pid, or -1 with err set; no process is left running on failure. */
pid_t child_start(const struct child *c, struct err *err);

#endif
