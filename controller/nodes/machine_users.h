/* SPDX-License-Identifier: Apache-2.0 */
/* machine_users.h - users who hold or wait for GPUs and CPU slots of this machine (docs/SHARED-BOX.md)
 *
 * All users of the machine, including those of other controllers: read from their agents' claims
 * (agent/machine/machine_claims.h) at each call.
 */
#ifndef CONTROLLER_NODES_MACHINE_USERS_H
#define CONTROLLER_NODES_MACHINE_USERS_H

#include <jansson.h>
#include <stddef.h>

struct daemon;

/* [{user, mine, state: "holds"|"waits", since, gpus: [{uuid, index}], cpus, job, text}], a new array, empty if the
 * machine has no leases. For a waiting user, `gpus` and `cpus` are the numbers needed. */
json_t *machine_users_list(const struct daemon *d);

/* The other users, as one sentence without a full stop; "": none. */
void machine_users_text(char *out, size_t size, const json_t *list);

#endif
