/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.h - the record of each node: failures, last error, drained or not
 *
 * Single-node jobs that request a number of GPUs share a host, within its GPUs and CPU slots, once an agent has
 * reported its resources; any other job uses its hosts exclusively. The records are stored (db/nodes.h); the resources
 * are not.
 */
#ifndef CONTROLLER_NODES_HOSTS_H
#define CONTROLLER_NODES_HOSTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct err;
struct job;

enum { HOSTS_LATELY_MS = 60 * 60 * 1000, HOSTS_OFTEN = 3 };

/* A node as seen by the placement of a job. The texts are borrowed. */
struct hosts_health {
    int64_t     holder;     /* a job on it that leaves no space for another; 0: none */
    int64_t     failures;   /* recent failures since its last answer */
    bool        bad;        /* fails often, or, for jobs with several nodes, does not answer */
    const char *error;      /* of the latest failure */
    const char *drained;    /* reason of the drain; NULL: not drained */
};

void hosts_look(struct hosts_health *out, const struct job *job, const char *name);

/* The reason of the drain, borrowed; NULL: not drained. */
const char *hosts_drained(const struct daemon *d, const char *name);

/* Records the outcome of an attempt on the node. */
void hosts_failed(struct daemon *d, const char *host, const char *text);
void hosts_vanished(struct daemon *d, const char *host, const char *text);
/* The leader of an attempt lost the node; a connection error seen by the controller takes precedence. */
void hosts_lost(struct daemon *d, const char *host, const char *text);
/* facts: its agent's; NULL: not known. Facts may show space for more jobs: call fleet_dirty(). */
void hosts_answered(struct daemon *d, const char *host, const json_t *facts);

/* The wall clock was set: moves the times of failures, so that their age stays the same. */
void hosts_clock_set(struct daemon *d, int64_t jump_ms);

/* User actions. */
int hosts_add(struct daemon *d, const char *name, struct err *err);
int hosts_drain(struct daemon *d, const char *name, const char *reason, struct err *err);
/* Accepts jobs again; clears its failures. */
int hosts_resume(struct daemon *d, const char *name, struct err *err);
/* Removes the node; ERR_CONFLICT while a job runs on it. */
int hosts_remove(struct daemon *d, const char *name, struct err *err);

/* Appends the nodes of GET /v1/nodes except this machine. */
void hosts_list(const struct daemon *d, json_t *nodes);

int hosts_open(struct daemon *d, struct err *err);
void hosts_close(struct daemon *d);

#endif
