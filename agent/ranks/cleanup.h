/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup.h - kills all processes of an attempt on this node, and confirms that none is left
 *
 * One pass (agent/ranks/cleanup_pass.h) kills what it finds, which exposes processes hidden behind
 * those, so passes repeat until none is found. A process still alive after 10 s is stuck in the
 * kernel and is reported by name.
 *
 * A cleanup needs no pass if the previous one found no process of the attempt and this process has no children: only
 * the agent could have started a process since, and that would be its child, because a subreaper adopts the orphans of
 * its children.
 */
#ifndef AGENT_RANKS_CLEANUP_H
#define AGENT_RANKS_CLEANUP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct cleanup;
struct err;

/* left: the processes that survived; if clean, those that the first pass found. */
typedef void (*cleanup_done_fn)(void *arg, bool clean, const char *left);

/* `nonce` must outlive the cleanup. */
int cleanup_create(struct cleanup **out, uv_loop_t *loop, const char *nonce, cleanup_done_fn done,
                   void *arg, struct err *err);
/* Closes the timer; run the loop once more before cleanup_destroy(). Both accept NULL. */
void cleanup_close(struct cleanup *b);
void cleanup_destroy(struct cleanup *b);

/* Limits the cleanup to processes with this JOBCTL_RUN_DIR, because other nodes of the attempt may be simulated on
 * this machine. */
void cleanup_set_run_dir(struct cleanup *b, const char *run_dir);

/* When the attempt's first agent started (cleanup_pass.h); 0: not known. first: it is this process, which had
 * started nothing before cleanup_create(). */
void cleanup_set_since(struct cleanup *b, int64_t since, bool first);

/* The command that removes the attempt's containers, ended by NULL; it must outlive the cleanup. NULL: none. It runs
 * when no process is left: a container that a runtime is still starting could not be seen before. */
void cleanup_set_sweep(struct cleanup *b, const char *const *argv);

/* Processes are about to start: the next cleanup needs a pass again. */
void cleanup_forget(struct cleanup *b);

/* Kills all processes of a generation, or of the attempt if 0. done() is called exactly once,
 * possibly before this returns. */
void cleanup_run(struct cleanup *b, int generation);

#endif
