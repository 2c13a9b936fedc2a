/* SPDX-License-Identifier: Apache-2.0 */
/* plan_hosts.h - plans a job for its hosts from their present resources */
#ifndef CONTROLLER_CHECKS_PLAN_HOSTS_H
#define CONTROLLER_CHECKS_PLAN_HOSTS_H

#include <jansson.h>
#include <stdbool.h>

struct err;

/* Takes a canonical spec with launch: ssh; returns {"plan", "train", "notes":[...]}, a new object.
 * plan: for the first hosts of the spec that answer, as many as the job has nodes
 * (agent/plan/plan.h); train: the engine's answer on the first of them, text or, with `json`, an
 * object, absent without `train:`; notes: hosts that did not answer. NULL with an error if no plan is possible. */
json_t *plan_hosts(const json_t *spec, bool json, struct err *err);

#endif
