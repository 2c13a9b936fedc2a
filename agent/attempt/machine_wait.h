/* SPDX-License-Identifier: Apache-2.0 */
/* machine_wait.h - waits on the event loop for the lease of GPUs and CPU slots of a shared machine
 *
 * The agent takes the lease (agent/machine/machine_lease.h) on the node where the ranks run, after LAUNCH and before
 * the plan: the plan is then made from the leased GPUs. While waiting, the attempt holds nothing. It tries again when a
 * file in the directory changes, and every few seconds; before each try it checks which GPUs other programs use.
 */
#ifndef AGENT_ATTEMPT_MACHINE_WAIT_H
#define AGENT_ATTEMPT_MACHINE_WAIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct lock_bundle;
struct machine_wait;

/* Borrowed values must outlive the wait. */
struct machine_wait_job {
    int64_t job;
    const char *tag, *run_dir, *state; /* state: the directory with all attempts of this user or controller */
    const struct lock_bundle *bundle;
    int nodes;            /* the attempt's nodes on this machine, each with its own slots; 0: one */
    const json_t *launch; /* LAUNCH (agent/wire/wire.h) */
    json_t *facts;        /* probed again for GPUs; at the end, GPUs that are not the job's are marked `held` */
};

struct machine_wait_hooks {
    bool (*waits)(void *arg); /* false: the attempt was stopped meanwhile */
    void (*tell)(void *arg, bool over, int64_t waited_ms, const char *text);
    void (*ready)(void *arg);
    void *arg;
};

/* The directory with the leases of all users of this machine; false: attempts of this process take no leases there. */
bool machine_wait_dir(const struct machine_wait_job *job, char *dir, size_t size);

/* Makes the claim; machine_wait_look() starts the wait. Without machine-wide leases, GPUs are leased among the jobs of
 * job->state. NULL: no lease is needed, or the job cannot run, which its plan reports. */
struct machine_wait *machine_wait_open(uv_loop_t *loop, const struct machine_wait_job *job,
                                       const struct machine_wait_hooks *hooks);

/* ready() follows, at once or from the loop. */
void machine_wait_look(struct machine_wait *m);

/* Releases the resources held and the claim; no process of the attempt may be alive. Accepts NULL. */
void machine_wait_release(struct machine_wait *m);

/* Closes its handles; it frees itself. Resources still held are released when the processes that hold them end. Accepts
 * NULL. */
void machine_wait_close(struct machine_wait *m);

#endif
