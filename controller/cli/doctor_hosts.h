/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_hosts.h - a doctor's round: the same questions to all hosts of a job, then what they say
 * together */
#ifndef CONTROLLER_CLI_DOCTOR_HOSTS_H
#define CONTROLLER_CLI_DOCTOR_HOSTS_H

#include <jansson.h>

struct err;

/* Of a canonical spec of launch: ssh: rows as doctor_nodes_check() gives them
 * (agent/doctor/doctor_nodes.h), a new object. A host that cannot be reached is a row; NULL, with a
 * sentence: nobody could be asked. */
json_t *doctor_hosts(const json_t *spec, struct err *err);

#endif
