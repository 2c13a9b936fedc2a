/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_nodes.h - checks whether several nodes are fit for one job: rows per node, and for all
 *
 * Pure: no clock, no I/O.
 * Input: the answers of all nodes (agent/doctor/doctor_query.h).
 *
 *   nodes: [{"node":"gpu1",
 *            "error":"..."}                              not reachable; or
 *            "look":{}, "reached":[], "left":{}|"found":{},
 *            "ahead_ms":12.5, "within_ms":0.4}]          its clock minus ours, and the error
 *
 * Any answer may be {"error":"..."} or absent.
 */
#ifndef AGENT_DOCTOR_DOCTOR_NODES_H
#define AGENT_DOCTOR_DOCTOR_NODES_H

#include <jansson.h>

/* Like doctor_check(); each row has its "node", or "all". A new object. */
json_t *doctor_nodes_check(const json_t *nodes, const json_t *spec);

#endif
