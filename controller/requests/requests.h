/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h - the requests of the API; their table is in requests.c, docs/API.md documents them
 *
 * request_submit.c and request_adopt.c create jobs, request_remove.c and request_prune.c remove them, request_show.c
 * answers at once, request_follow.c may wait, request_live.c streams, request_sample.c sends pictures, request_edit.c
 * changes the spec of a job, request_nodes.c handles nodes, request_notify.c targets of messages, requests.c acts on an
 * existing job.
 */
#ifndef CONTROLLER_REQUESTS_REQUESTS_H
#define CONTROLLER_REQUESTS_REQUESTS_H

struct request;
struct service;

extern const struct service requests;            /* all of them (server.h) */
extern const struct service requests_dashboard;  /* POST /v1/dashboard opens its listener */
extern const struct service requests_metrics;    /* GET /metrics */

void request_submit(struct request *r);
void request_retry(struct request *r);
void request_adopt(struct request *r);
void request_spec(struct request *r);
void request_edit(struct request *r);
void request_remove(struct request *r);
void request_prune(struct request *r);

void request_list(struct request *r);
void request_show(struct request *r);
void request_why(struct request *r);
void request_metrics(struct request *r);
void request_version(struct request *r);

void request_exposition(struct request *r);

void request_nodes(struct request *r);
void request_node(struct request *r);

void request_notify(struct request *r);
void request_notify_test(struct request *r);

void request_events(struct request *r);
void request_logs(struct request *r);
void request_wait(struct request *r);

void request_live(struct request *r);
void request_live_job(struct request *r);

void request_sample(struct request *r);

#endif
