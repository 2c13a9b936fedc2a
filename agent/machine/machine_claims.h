/* SPDX-License-Identifier: Apache-2.0 */
/* machine_claims.h - claims to GPUs and CPU slots of this machine: waiting and held (machine_dir.h)
 *
 * An attempt has one claim, a file that it has locked: the claim is alive as long as that lock is held, by the agent
 * while it waits, and by every rank once it holds something. The text is its owner's:
 *
 *   {"schema":1, "pid":812, "job":7, "state":"waits"|"holds",
 *    "arrived_ms":..., "since_ms":...,        clock_boot_ms(); since: it holds
 *    "arrived_s":..., "since_s":...,          the same as Unix seconds, for people
 *    "gpus":["GPU-..."], "cpus":[0, 1],       what it holds
 *    "any_gpus":["GPU-..."], "any_cpus":[0, 1], "need_gpus":1, "need_cpus":2,     what it waits for
 *    "share":0.25}                            of the machine (agent/machine/machine_turn.h)
 */
#ifndef AGENT_MACHINE_MACHINE_CLAIMS_H
#define AGENT_MACHINE_MACHINE_CLAIMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum { MACHINE_CLAIMS_STALE_S = 30 }; /* a claim that waits and was not renewed for so long has no turn */

/* The live claims, oldest first, as a new array: the texts with "file", "uid", "user" (its name), "mine" (of this
 * user), "stale" (not renewed), and "name" of the job where this user may know it. */
json_t *machine_claims_read(const char *dir);

/* Removes this user's claims that are dead, and counts what they used. The caller has the lock `turn`. */
void machine_claims_sweep(const char *dir);

/* {UID: ms} what each user has used, decayed to now; a new object. */
json_t *machine_claims_used(const char *dir);

/* Adds to what this user has used. The caller has the lock `turn`. */
void machine_claims_charge(const char *dir, double share, int64_t ms);

/* "alice since 14:02 (job sana)", for people. */
void machine_claims_text(char *out, size_t size, const json_t *claim);

#endif
