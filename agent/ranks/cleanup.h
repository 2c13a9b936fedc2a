/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup.h - sweep this node until nothing of an attempt is left, then tell
 *
 * agent/ranks/cleanup_pass.h ends what it finds and finds what hid behind that, so it is asked
 * again and again. What has not died after 10 s is stuck in the kernel: then that is told, with its
 * name.
 */
#ifndef AGENT_RANKS_CLEANUP_H
#define AGENT_RANKS_CLEANUP_H

#include <stdbool.h>
#include <uv.h>

struct cleanup;
struct err;

/* left: who would not die, "" if clean. */
typedef void (*cleanup_done_fn)(void *arg, bool clean, const char *left);

/* `nonce` must outlive it. */
int cleanup_create(struct cleanup **out, uv_loop_t *loop, const char *nonce, cleanup_done_fn done,
                   void *arg, struct err *err);
/* Closes the timer; run the loop once more before cleanup_destroy(). NULL is fine for both. */
void cleanup_close(struct cleanup *b);
void cleanup_destroy(struct cleanup *b);

/* Only what has this JOBCTL_RUN_DIR: other nodes of the attempt may be simulated on this machine. */
void cleanup_set_run_dir(struct cleanup *b, const char *run_dir);

/* Ends all that is ours of a generation, 0: of the attempt.  done() is called once for it, perhaps
 * before this returns. */
void cleanup_run(struct cleanup *b, int generation);

#endif
