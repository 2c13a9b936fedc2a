/* SPDX-License-Identifier: Apache-2.0 */
/* code_git.h - runs git on a directory, for reading: it changes nothing, asks nothing and never waits for input
 *
 * Without the GIT_ variables of a hook or a script that submits, without locks, and without the programs that a
 * repository may name for a diff.  Its filters (git-lfs) run, as for every `git diff` of the user.
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
    int         max_bytes;              /* of the output in fd; more is cut */
    /* the answer */
    bool        cut;
    char        said[300];              /* its first words on stderr, without "fatal: " */
};

/* Returns its exit code; -1: there is no git, or it had no output for CODE_GIT_MS. */
int code_git_run(struct code_git *g, struct err *err);

#endif
