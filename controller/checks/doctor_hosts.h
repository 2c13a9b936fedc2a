/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_hosts.h - runs doctor on all hosts of a job, then compares their answers */
#ifndef CONTROLLER_CHECKS_DOCTOR_HOSTS_H
#define CONTROLLER_CHECKS_DOCTOR_HOSTS_H

#include <jansson.h>

struct err;

/* Takes a canonical spec with launch: ssh; returns rows as doctor_nodes_check() does
 * (agent/doctor/doctor_nodes.h), a new object. An unreachable host gets a row with the error. NULL with an error if
 * no host could be asked. */
json_t *doctor_hosts(const json_t *spec, struct err *err);

#endif
