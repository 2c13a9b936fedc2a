/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h - what each request does; the table of them is in requests.c, docs/API.md is its text
 *
 * request_submit.c and request_adopt.c make jobs, request_remove.c forgets them, request_show.c
 * answers from what is known, request_follow.c also waits, request_nodes.c is about machines,
 * requests.c acts on a job that is there.
 */
#ifndef CONTROLLER_DAEMON_REQUESTS_H
#define CONTROLLER_DAEMON_REQUESTS_H

struct request;
struct service;

extern const struct service requests;    /* all of them (server.h) */

void request_submit(struct request *r);
void request_retry(struct request *r);
void request_adopt(struct request *r);
void request_remove(struct request *r);

void request_list(struct request *r);
void request_show(struct request *r);
void request_why(struct request *r);
void request_metrics(struct request *r);
void request_version(struct request *r);

void request_nodes(struct request *r);
void request_node(struct request *r);

void request_events(struct request *r);
void request_logs(struct request *r);
void request_wait(struct request *r);

#endif
