/* SPDX-License-Identifier: Apache-2.0 */
/* rejoin.h - a rank that lost the others joins the next generation without a new process
 *
 * When a collective fails because another rank is gone or unreachable, this process is still
 * usable: its device is open, libraries are loaded, algorithms for products are chosen.  It frees the
 * communicator and the run, writes {"ev":"detached"} (engine/contract/progress.h), and waits
 * REJOIN_MS for the agent's command
 *
 *   {"cmd":"rejoin", "env":{NAME: value}, "snapshot":"/proc/PID/fd/N", "old":["/proc/PID/fd/N"]}
 *
 * env has the changed environment variables (null: unset); snapshot and old are the
 * memory files (engine/checkpoint/snapshot.h) that a new process would inherit.  Then the run
 * starts again, from memory or a checkpoint, with the ranks of the next generation.
 */
#ifndef ENGINE_TRAIN_REJOIN_H
#define ENGINE_TRAIN_REJOIN_H

#include <stdbool.h>

struct err;
struct progress;

enum { REJOIN_MS = 5000 };

/* Does the agent support the command (JOBCTL_REJOIN=1)? */
bool rejoin_offered(const struct progress *p);

/* True: the environment is now the next generation's. False, with *err: no command came in time, or a command to
 * stop. */
bool rejoin_wait(struct progress *p, int timeout_ms, struct err *err);

#endif
