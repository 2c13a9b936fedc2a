/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_query.h - `jobctl-agent visit`: what a doctor asks who compares several nodes
 *
 * It says DOCTOR_READY on a line, whatever a login prints before it.  Then a question is a line of
 * JSON, and so is its answer. It ends with its input, and takes away what it has left.
 *
 *   {"ask":"look", "spec":{}}       {"hostname", "facts", "versions", "train",
                                      "consistency":agent/doctor/consistency.h,
 *                                    "rows", "fail", "warn", "unknown": agent/doctor/doctor.h}
 *   {"ask":"facts"}                 {"facts"}: agent/probe/probe.h
 *   {"ask":"memory", "spec":{}, "json":false}   {"said"}: what `jobctl-train plan` says of it here
 *   {"ask":"clock"}                 {"now_ms":1234.5}: Unix time
 *   {"ask":"listen"}                a door: agent/doctor/reachability.h
 *   {"ask":"knock", "endpoints":[]}     {"reached":[]}
 *   {"ask":"leave", "dir":"/x"}     {"path", "text"}: a file in it, or in what of it is there
 *   {"ask":"find", "path", "text"}  {}: it is here, too
 *   {"ask":"take"}                  {}: what was left is gone
 *
 * or {"error":"..."}.  agent/doctor/doctor_nodes.h makes rows of the answers of all.
 */
#ifndef AGENT_DOCTOR_DOCTOR_QUERY_H
#define AGENT_DOCTOR_DOCTOR_QUERY_H

struct err;

#define DOCTOR_READY "jobctl-doctor 1\n"

/* train: the engine's program. */
int doctor_query(const char *train, struct err *err);

#endif
