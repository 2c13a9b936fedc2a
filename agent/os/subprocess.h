/* SPDX-License-Identifier: Apache-2.0 */
/* subprocess.h - run a program to its end and collect its output */
#ifndef AGENT_OS_SUBPROCESS_H
#define AGENT_OS_SUBPROCESS_H

#include "agent/os/buf.h"

enum ask_output { ASK_STDOUT, ASK_STDERR, ASK_OUTPUTS };

/* argv[0] is a path. `out` gets stdout and stderr; the caller frees it. Returns the exit code;
 * -1: ended by a signal, or no output for wait_ms and killed. */
int subprocess_run(char *const argv[], struct buf out[ASK_OUTPUTS], int wait_ms);

/* The same with additional "NAME=VALUE" entries, ended by NULL, in the environment. */
int subprocess_run_with(char *const argv[], char *const env[], struct buf out[ASK_OUTPUTS],
                        int wait_ms);

/* The output as text; "" if there was none. */
const char *subprocess_text(const struct buf *b);

#endif
