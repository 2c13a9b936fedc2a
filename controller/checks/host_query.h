/* SPDX-License-Identifier: Apache-2.0 */
/* host_query.h - sends one question to many hosts in parallel, one local process per host
 *
 * `jobctl-ssh doctor-query HOST` connects, copies the programs, and passes lines of JSON to and from
 * `jobctl-agent doctor-query` there (agent/doctor/doctor_query.h).  Once a host is unreachable or timed out, all its
 * further answers are an error text.
 */
#ifndef CONTROLLER_CHECKS_HOST_QUERY_H
#define CONTROLLER_CHECKS_HOST_QUERY_H

#include <jansson.h>
#include <stddef.h>

struct err;
struct host_query;

/* hosts: ["gpu1",...]; connects to all in parallel. */
int host_query_open(struct host_query **out, const json_t *hosts, struct err *err);
void host_query_close(struct host_query *v); /* accepts NULL */

/* questions: one for each host, NULL: none. Within limit_ms sets node[i].KEY to each answer, or
 * node[i].error if there was none. */
void host_query_ask(struct host_query *v, json_t *const *questions, json_t *nodes, const char *key, int limit_ms);

/* Sends the same question to all hosts, or only to host `only`; takes the reference. */
enum { HOST_QUERY_ALL = -1 };
void host_query_ask_same(struct host_query *v, int only, json_t *question, json_t *nodes,
                         const char *key,
                         int limit_ms);

/* For the last answer of a host: the Unix time in ms half way between question and answer, and the
 * time between them. */
double host_query_middle(const struct host_query *v, size_t host, double *apart_ms);

#endif
