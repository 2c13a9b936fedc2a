/* SPDX-License-Identifier: Apache-2.0 */
/* code_git.h - runs git on a directory read-only, without prompts or input
 *
 * git runs without the GIT_ variables of a submitting hook or script, without locks, and without external diff programs
 * named by the repository. The repository's filters (git-lfs) run, as for every `git diff` of the user.
 */
#ifndef CONTROLLER_CODE_CODE_GIT_H
#define CONTROLLER_CODE_CODE_GIT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"

struct err;

enum { CODE_GIT_ARGS = 12, CODE_GIT_MS = 10000 };

struct code_git {
    const char *dir;
    const char *args[CODE_GIT_ARGS];    /* ended by NULL */
    struct buf *out;                    /* its output; NULL: into fd */
    int         fd;
    int         max_bytes;              /* limit for the output in fd; the rest is cut */
    /* the answer */
    bool        cut;
    char        said[300];              /* first line of its stderr, without "fatal: " */
};

/* Returns git's exit code; -1: there is no git, or it printed nothing for CODE_GIT_MS. */
int code_git_run(struct code_git *g, struct err *err);

#endif
