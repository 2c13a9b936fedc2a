/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.h - which host an attempt of launch: ssh gets, and what is remembered of each
 *
 * A host has one job of ours at a time. Among those of a job that are free the one that failed
 * least often lately comes first, then the order of the spec.
 */
#ifndef CONTROLLER_HOSTS_H
#define CONTROLLER_HOSTS_H

#include <jansson.h>
#include <stdint.h>

struct daemon;
struct job;

/* The host to take, or NULL: *holder is a job that has one of them. */
const char *hosts_choose(const struct job *job, int64_t *holder);

/* What came of an attempt on it. */
void hosts_failed(struct daemon *d, const char *host, const char *text);
void hosts_answered(struct daemon *d, const char *host);
/* Those that jobs were on: what GET /v1/nodes says of each is added to the list. */
void hosts_list(const struct daemon *d, json_t *nodes);

void hosts_close(struct daemon *d);

#endif
