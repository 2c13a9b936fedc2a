/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.h - what is remembered of each node: its failures, its last error, whether it is drained
 *
 * A host has one job of ours at a time.  All of it outlives the controller (db/nodes.h).
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

/* A node as the placement of a job sees it. The texts are borrowed. */
struct hosts_health {
    int64_t     holder;     /* another job that has it, 0: none */
    int64_t     failures;   /* lately, since it last answered */
    bool        bad;        /* it fails often, or of several nodes: it does not answer */
    const char *error;      /* of the latest failure */
    const char *drained;    /* the reason; NULL: it is not */
};

void hosts_look(struct hosts_health *out, const struct job *job, const char *name);

/* The reason, borrowed; NULL: it is not. */
const char *hosts_drained(const struct daemon *d, const char *name);

/* What came of an attempt on it. */
void hosts_failed(struct daemon *d, const char *host, const char *text);
void hosts_vanished(struct daemon *d, const char *host, const char *text);
/* The head of an attempt has lost it; why we could not reach it, if we could not, says more. */
void hosts_lost(struct daemon *d, const char *host, const char *text);
void hosts_answered(struct daemon *d, const char *host);

/* What a person decides. */
int hosts_add(struct daemon *d, const char *name, struct err *err);
int hosts_drain(struct daemon *d, const char *name, const char *reason, struct err *err);
/* It may have jobs again, and its failures are forgotten. */
int hosts_resume(struct daemon *d, const char *name, struct err *err);
/* Forget it; ERR_CONFLICT while a job is on it. */
int hosts_remove(struct daemon *d, const char *name, struct err *err);

/* What GET /v1/nodes says of each but this machine. */
void hosts_list(const struct daemon *d, json_t *nodes);

int hosts_open(struct daemon *d, struct err *err);
void hosts_close(struct daemon *d);

#endif
