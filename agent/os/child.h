/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - start a process: own session, known descriptors, default signals, nothing leaked
 *
 * The child leads a new session (its pid is also its process group), has fd 0
 * from /dev/null, 1 and 2 on `out`, and the given extra descriptors at 3, 4,
 * ...; all others are closed.  It gets SIGTERM when the starting thread ends,
 * so that a command does not outlive its agent unseen.
 */
#ifndef AGENT_OS_CHILD_H
#define AGENT_OS_CHILD_H

#include <sys/types.h>

struct err;

enum { CHILD_EXTRA = 160, CHILD_FIRST_FD = 3 };

struct child {
    const char *const *argv;   /* argv[0] is a path */
    char *const       *envp;
    const char        *cwd;    /* NULL = as ours */
    const char        *cpus;   /* NULL = as ours, else those alone: "0-3,8" */
    int                out;    /* for stdout and stderr */
    int                extra[CHILD_EXTRA];
    int                n_extra;
};

/* Ours and one entry more, which is borrowed; for free(). NULL: no memory. */
char **child_environ(const char *more);

/* The pid, or -1 with a sentence: nothing was left running then. */
pid_t child_start(const struct child *c, struct err *err);

#endif
