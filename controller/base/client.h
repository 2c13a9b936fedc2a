/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - requests to the daemon: HTTP and JSON over its unix socket (docs/API.md)
 *
 * client_open() silently starts the daemon if it is not running; after far_host_set(), all of this happens on that
 * host.  Every answer must be an object with "schema": API_SCHEMA; an error of the daemon becomes the caller's err,
 * with code and text.
 */
#ifndef CONTROLLER_BASE_CLIENT_H
#define CONTROLLER_BASE_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

struct err;
struct client;

/* "schema" of every answer of the daemon and of every --json output: it increases when a key changes its name or
 * meaning. */
enum { API_SCHEMA = 2 };
struct diagnostics;

/* With `start` false, a missing daemon is ERR_NOT_FOUND, and its version is not checked. */
int client_open(struct client **out, bool start, struct err *err);
void client_close(struct client *c);

/* GETs a path; *answer is a new reference, NULL on failure. */
int client_get(struct client *c, json_t **answer, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* GET /v1/jobs/JOB and `rest` on a separate connection. */
int client_ask_job(json_t **answer, const char *job, const char *rest, struct err *err);

/* POSTs `body`, which the caller keeps. A request with a "key" (submit_key.h) or "dry_run" is repeated like a GET
 * when its connection breaks; any other is sent once. If there is no answer, the error explains how to repeat a
 * request with a key. */
int client_post(struct client *c, json_t **answer, const char *path, const json_t *body, struct err *err);

/* All mistakes of the last rejected spec; empty after any other error. */
const struct diagnostics *client_diagnostics(const struct client *c);

/* A waiting request ends soon after *flag becomes non-zero; the call fails with ERR_CONFLICT. */
void client_stop_when(struct client *c, const volatile int *flag);

/* Escapes "last", an id or a name as one part of a path; the caller frees it. NULL with
 * ERR_NOT_FOUND if it cannot be a job's name. */
char *client_job_part(const char *job, struct err *err);

/* With jobctl -H: how long a GET whose connection broke tries to reach the host again (< 0: forever; 30 s by
 * default); stderr gets one line when the host is lost and one when it is back. away, or NULL, is called before
 * stderr is written. */
void client_wait_for_far(struct client *c, double seconds, void (*away)(void *user), void *user);

#endif
