/* SPDX-License-Identifier: Apache-2.0 */
/* machine_claims.h - claims to GPUs and CPU slots of this machine: waiting and held (machine_dir.h)
 *
 * An attempt has one claim, a file that it has locked. The claim is alive as long as the lock is held: by the agent
 * while it waits, and by every rank once it holds resources. Only its owner writes the text:
 *
 *   {"schema":1, "pid":812, "job":7, "state":"waits"|"holds",
 *    "arrived_ms":...,                        clock_boot_ms()
 *    "arrived_s":..., "since_s":...,          Unix seconds, for people; since: it holds
 *    "gpus":["GPU-..."], "cpus":[0, 1],       what it holds
 *    "any_gpus":["GPU-..."], "any_cpus":[0, 1], "need_gpus":1, "need_cpus":2}     what it waits for
 */
#ifndef AGENT_MACHINE_MACHINE_CLAIMS_H
#define AGENT_MACHINE_MACHINE_CLAIMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum { MACHINE_CLAIMS_STALE_S = 30 }; /* a waiting claim that was not renewed for this long has no turn */

/* The live claims, oldest first, as a new array: the texts with "file", "uid", "user" (its name), "mine" (of this
 * user), "stale" (not renewed), and "name" of the job where this user may know it. */
json_t *machine_claims_read(const char *dir);

/* Removes this user's claims that are dead. The caller has the lock `turn`. */
void machine_claims_sweep(const char *dir);

/* "alice since 14:02 (job sana)", for people. */
void machine_claims_text(char *out, size_t size, const json_t *claim);

#endif
