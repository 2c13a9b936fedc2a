/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_child.h - the agent's side of the process that keeps the mirror
 * (agent/mirror/mirror_run.h)
 *
 * It has the attempt's nonce in its environment but no generation, so a sweep ends it with the
 * attempt and not before; it gets SIGTERM when the agent dies.
 */
#ifndef AGENT_MIRROR_MIRROR_CHILD_H
#define AGENT_MIRROR_MIRROR_CHILD_H

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct mirror_child;

struct mirror_hooks {
    /* Once: NULL, or why ranks may not start. */
    void (*ready)(void *arg, const char *refusal);
    /* `mirrored`, `restored`, `warning` with their bodies (agent/wire/wire.h). Takes the body. */
    void (*event)(void *arg, const char *kind, json_t *body);
    /* Another machine has the job now: ranks must stop. */
    void (*lost)(void *arg, const char *text);
    /* After mirror_child_finish(): the process is gone. */
    void (*ended)(void *arg);
    void *arg;
};

/* What the mirror process is to do, from LAUNCH: NULL where the job has no mirror. */
json_t *mirror_child_task(const json_t *launch, const char *host);

/* Writes RUN_DIR/mirror.json and starts the process. */
int mirror_child_start(struct mirror_child **out, uv_loop_t *loop, const char *run_dir,
                       const char *nonce, const json_t *task, const struct mirror_hooks *hooks,
                       struct err *err);

/* A line of the job's history, for the mirror to take along. NULL is fine. */
void mirror_child_note(struct mirror_child *c, const char *kind, const json_t *body);

/* Copy what is left, then end: ended() tells when, at once if it is gone already. After
 * `wait_ms` it is killed. */
void mirror_child_finish(struct mirror_child *c, int64_t wait_ms);

/* Closes its handles; run the loop once more before mirror_child_destroy(). NULL is fine for both.
 * A process that still lives gets SIGTERM. */
void mirror_child_close(struct mirror_child *c);
void mirror_child_destroy(struct mirror_child *c);

#endif
