/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_child.h - starts and controls the mirror process (agent/mirror/mirror_run.h) for the agent
 *
 * Its environment has the attempt's nonce but no generation, so only the cleanup of the attempt
 * kills it; it gets SIGTERM when the agent dies.
 */
#ifndef AGENT_MIRROR_MIRROR_CHILD_H
#define AGENT_MIRROR_MIRROR_CHILD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct mirror_child;

struct mirror_hooks {
    /* Called once: NULL, or why ranks must not start. */
    void (*ready)(void *arg, const char *refusal);
    /* `mirrored`, `restored`, `warning` with their bodies (agent/wire/wire.h). Takes ownership
     * of the body. */
    void (*event)(void *arg, const char *kind, json_t *body);
    /* Another machine holds the lease now: ranks must stop. */
    void (*lost)(void *arg, const char *text);
    /* After mirror_child_finish(): the process has ended. */
    void (*ended)(void *arg);
    void *arg;
};

/* The description for the mirror process, from LAUNCH; NULL if the job has no mirror. */
json_t *mirror_child_task(const json_t *launch, const char *host);

/* Writes RUN_DIR/mirror.json and starts the process. */
int mirror_child_start(struct mirror_child **out, uv_loop_t *loop, const char *run_dir, const char *nonce,
                       const json_t *task, const struct mirror_hooks *hooks, struct err *err);

/* Adds a line to the job's history for the mirror to copy. Accepts NULL. */
void mirror_child_note(struct mirror_child *c, const char *kind, const json_t *body);

/* Copies the remaining files (none if the process is not ready), then ends; ended() follows, at once if the process
 * has already ended. After `wait_ms` the process is killed, and ended() does not wait for its death, because it may
 * hang in the kernel. */
void mirror_child_finish(struct mirror_child *c, int64_t wait_ms);

/* If it is finishing: limits the wait to `wait_ms` from now. Accepts NULL. */
void mirror_child_hurry(struct mirror_child *c, int64_t wait_ms);

/* True once, when finishing takes more than a few seconds; `text` names what it waits for, and how to end without
 * it. Accepts NULL. */
bool mirror_child_slow(struct mirror_child *c, char *text, size_t size);

/* Closes its handles; run the loop once more before mirror_child_destroy(). Both accept NULL. A
 * process that is still alive gets SIGTERM. */
void mirror_child_close(struct mirror_child *c);
void mirror_child_destroy(struct mirror_child *c);

#endif
