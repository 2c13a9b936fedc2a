/* SPDX-License-Identifier: Apache-2.0 */
/* machine_wait.h - waits on the event loop for the lease of GPUs and CPU slots of a shared machine
 *
 * The agent takes the lease (agent/machine/machine_lease.h) on the node where the ranks run, after LAUNCH and before
 * the plan: the plan is then made from the GPUs that are its own. While it waits the attempt holds nothing. It looks
 * again when a file of the directory says that something has changed, and every few seconds; before that, at what other
 * programs do on the GPUs.
 */
#ifndef AGENT_ATTEMPT_MACHINE_WAIT_H
#define AGENT_ATTEMPT_MACHINE_WAIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct lock_bundle;
struct machine_wait;

/* What is borrowed must outlive the wait. */
struct machine_wait_job {
    int64_t job;
    const char *tag, *run_dir;
    const struct lock_bundle *bundle;
    const json_t *launch; /* LAUNCH (agent/wire/wire.h) */
    json_t *facts;        /* its GPUs are probed again, and in the end say which are not the job's: `held` */
};

struct machine_wait_hooks {
    bool (*waits)(void *arg); /* false: the attempt was stopped meanwhile */
    void (*tell)(void *arg, bool over, int64_t waited_ms, const char *text);
    void (*ready)(void *arg);
    void *arg;
};

/* The claim is made; machine_wait_look() begins. NULL: no lease is needed, or the machine has none, or the job cannot
 * run at all, as its plan will say. */
struct machine_wait *machine_wait_open(uv_loop_t *loop, const struct machine_wait_job *job,
                                       const struct machine_wait_hooks *hooks);

/* ready() follows, at once or from the loop. */
void machine_wait_look(struct machine_wait *m);

/* No process of the attempt is left, or none was started: others may have what it holds or waits for. Accepts NULL. */
void machine_wait_release(struct machine_wait *m);

/* Closes its handles; it frees itself. What is still held ends with the processes that hold it. Accepts NULL. */
void machine_wait_close(struct machine_wait *m);

#endif
