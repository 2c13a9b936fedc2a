/* SPDX-License-Identifier: Apache-2.0 */
/* plan_hosts.h - what would be planned for the hosts of a job, from what they have now */
#ifndef CONTROLLER_CLI_PLAN_HOSTS_H
#define CONTROLLER_CLI_PLAN_HOSTS_H

#include <jansson.h>
#include <stdbool.h>

struct err;

/* Of a canonical spec of launch: ssh: {"plan", "train", "notes":[...]}, a new object.  plan: for as many
 * hosts as the job has nodes, those that answer first in its order (agent/plan/plan.h); train: what
 * the engine says on the first of them, text or with `json` an object, absent without `train:`;
 * notes: who did not answer. NULL: the sentence says why there is no plan. */
json_t *plan_hosts(const json_t *spec, bool json, struct err *err);

#endif
