/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - ask the daemon: HTTP and JSON over its unix socket (docs/API.md)
 *
 * client_open() starts the daemon when nobody listens, and says nothing about
 * it.  Every answer is checked to be an object with "schema": API_SCHEMA; an error of
 * the daemon becomes the err of the caller, its code and its sentence.
 */
#ifndef CONTROLLER_BASE_CLIENT_H
#define CONTROLLER_BASE_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

struct err;
struct client;

/* "schema" of every answer of the daemon and of every --json: it rises when a key changes its name or meaning. */
enum { API_SCHEMA = 2 };
struct diagnostics;

/* With `start` false a daemon that does not run is an ERR_NOT_FOUND, and any version will do. */
int client_open(struct client **out, bool start, struct err *err);
void client_close(struct client *c);

/* GET a path; *answer is a new reference, NULL on failure. */
int client_get(struct client *c, json_t **answer, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* One question about one job, on a connection of its own: GET /v1/jobs/JOB and `rest`. */
int client_ask_job(json_t **answer, const char *job, const char *rest, struct err *err);

/* POST `body` (stays the caller's). */
int client_post(struct client *c, json_t **answer, const char *path, const json_t *body,
                struct err *err);

/* All that was wrong with the last spec that was refused; none for another refusal. */
const struct diagnostics *client_diagnostics(const struct client *c);

/* A waiting request gives up soon after *flag becomes non-zero; the call fails with ERR_CONFLICT. */
void client_stop_when(struct client *c, const volatile int *flag);

/* "last", an id or a name, as one part of a path; the caller frees it. NULL with ERR_NOT_FOUND for
 * what can be no job's name. */
char *client_job_part(const char *job, struct err *err);

#endif
