/* SPDX-License-Identifier: Apache-2.0 */
/* subprocess.h - run a program of ours to its end, and take what it says */
#ifndef AGENT_OS_SUBPROCESS_H
#define AGENT_OS_SUBPROCESS_H

#include "agent/os/buf.h"

enum ask_output { ASK_STDOUT, ASK_STDERR, ASK_OUTPUTS };

/* argv[0] is a path. `out` gets both outputs, which the caller frees. Its exit code; -1: it did not
 * end by itself, or was silent for wait_ms and has been killed. */
int subprocess_run(char *const argv[], struct buf out[ASK_OUTPUTS], int wait_ms);

/* The same with "NAME=VALUE" of more, NULL at the end, in its environment. */
int subprocess_run_with(char *const argv[], char *const env[], struct buf out[ASK_OUTPUTS],
                        int wait_ms);

/* "" where nothing was said. */
const char *subprocess_text(const struct buf *b);

#endif
