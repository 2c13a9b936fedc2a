/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_query.h - `jobctl-agent doctor-query`: answers queries of `jobctl doctor`, which compares nodes
 *
 * It prints the line DOCTOR_READY after any output of the login itself. Then each query is a line of
 * JSON, and so is its answer. It exits at end of input and removes the files it created.
 *
 *   {"ask":"look", "spec":{}}       {"hostname", "facts", "versions", "train",
 *                                    "consistency":agent/doctor/consistency.h,
 *                                    "rows", "fail", "warn", "unknown": agent/doctor/doctor.h}
 *   {"ask":"facts"}                 {"facts"}: agent/probe/probe.h
 *   {"ask":"memory", "spec":{}, "json":false}   {"said"}: output of `jobctl-train plan` here
 *   {"ask":"clock"}                 {"now_ms":1234.5}: Unix time
 *   {"ask":"listen"}                opens a port: agent/doctor/reachability.h
 *   {"ask":"reach", "endpoints":[]}     {"reached":[]}
 *   {"ask":"leave", "dir":"/x"}     {"path", "text"}: creates a file in dir or its nearest parent
 *   {"ask":"find", "path", "text"}  {}: the file is visible on this node
 *   {"ask":"take"}                  {}: the created file was removed
 *
 * or {"error":"..."}.  agent/doctor/doctor_nodes.h makes rows from the answers of all nodes.
 */
#ifndef AGENT_DOCTOR_DOCTOR_QUERY_H
#define AGENT_DOCTOR_DOCTOR_QUERY_H

struct err;

#define DOCTOR_READY "jobctl-doctor 1\n"

/* train: path of jobctl-train. */
int doctor_query(const char *train, struct err *err);

#endif
