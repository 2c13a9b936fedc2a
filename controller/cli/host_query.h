/* SPDX-License-Identifier: Apache-2.0 */
/* host_query.h - one question to many hosts at a time: a process of ours speaks with each
 *
 * `jobctl-ssh visit HOST` connects, brings the programs, and passes lines of JSON to and from
 * `jobctl-agent visit` there (agent/doctor/doctor_query.h).  A host that was not reached, or fell
 * silent, has a sentence for every answer from then on.
 */
#ifndef CONTROLLER_CLI_HOST_QUERY_H
#define CONTROLLER_CLI_HOST_QUERY_H

#include <jansson.h>
#include <stddef.h>

struct err;
struct host_query;

/* hosts: ["gpu1",...]; all at once. */
int host_query_open(struct host_query **out, const json_t *hosts, struct err *err);
void host_query_close(struct host_query *v); /* NULL is fine */

/* questions: one for each host, NULL: none. Sets node[i].KEY to the answers, after limit_ms at most; of
 * one that gave none node[i].error. */
void host_query_ask(struct host_query *v, json_t *const *questions, json_t *nodes, const char *key,
                    int limit_ms);

/* The same question to all, or to host `only` of them; takes it. */
enum { HOST_QUERY_ALL = -1 };
void host_query_ask_same(struct host_query *v, int only, json_t *question, json_t *nodes,
                         const char *key,
                         int limit_ms);

/* Of the last answer of a host: Unix time in ms, half way between question and answer, and how long
 * they were apart. */
double host_query_middle(const struct host_query *v, size_t host, double *apart_ms);

#endif
