/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_nodes.h - are these nodes fit for one job together?  Rows of each, and of all
 *
 * Pure: no clock, no I/O.
 * Made from what each has answered (agent/doctor/doctor_query.h).
 *
 *   nodes: [{"node":"gpu1",
 *            "error":"..."}                              it was not reached; or
 *            "look":{}, "reached":[], "left":{}|"found":{},
 *            "ahead_ms":12.5, "within_ms":0.4}]          its clock, before ours, and how exactly known
 *
 * Any answer may be {"error":"..."} or absent.
 */
#ifndef AGENT_DOCTOR_DOCTOR_NODES_H
#define AGENT_DOCTOR_DOCTOR_NODES_H

#include <jansson.h>

/* As doctor_check(); a row has its "node", or "all". A new object. */
json_t *doctor_nodes_check(const json_t *nodes, const json_t *spec);

#endif
