/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - HTTP on the unix socket, inside the loop
 *
 * libmicrohttpd parses and answers; its epoll descriptor is one more thing
 * that the loop watches.  Who may connect is decided by the peer's
 * credentials.  What can be requested is a table that comes from above
 * (requests.c); the handler of a row answers, or lets the request sleep until
 * its job changes (request_sleep) and is then called again.
 */
#ifndef CONTROLLER_HTTP_SERVER_H
#define CONTROLLER_HTTP_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct err;
struct request;
struct server;

enum { BODY_MAX = 4 * 1024 * 1024, WAIT_MAX_S = 60 };

typedef void (*request_fn)(struct request *r);

/* `path` may hold one JOB, a part of the path that names a job. */
struct route {
    const char *method;
    const char *path;
    request_fn  handle;
    const char *body;       /* its fields, "spec:s! hold:b": s text, b true or false, l list of
                               texts, m map of texts; ! must be there; NULL: none */
};

/* What is served. A request may leave something open, to which others of its turn add. */
struct service {
    const struct route *routes;     /* ended by a NULL method */
    request_fn          gathers;    /* the one that does; before any other all is settled ... */
    bool              (*settle)(struct daemon *d);  /* ... and after each turn; true: there was something */
};

/* Answers on a listening descriptor, which it takes over. */
int server_open(struct server **out, struct daemon *d, const struct service *service, int listen_fd,
                struct err *err);
void server_close(struct server *s);            /* accepts NULL; sleepers get an answer first */

/* Something happened to the job: its sleepers look again. */
void server_wake(struct server *s, int64_t job);

/* ---- for handlers ---- */

struct daemon *request_daemon(const struct request *r);
const char *request_job(const struct request *r);           /* the JOB of the path */
const json_t *request_body(const struct request *r);        /* an object, never NULL */
const char *request_query(const struct request *r, const char *key);    /* or NULL */
/* A number of the query; -1 with the answer already given when it is none. */
int request_number(int64_t *out, struct request *r, const char *key, int64_t otherwise);

/* Takes the document, an object; "schema" is added. */
void request_answer(struct request *r, int status, json_t *document);
/* Status and code by err->code; `more` (may be NULL), which is taken, is merged into the answer. */
void request_fail(struct request *r, const struct err *err, json_t *more);

/* Two numbers that a handler finds again when it is called again; 0 at first. */
int64_t *request_memo(struct request *r);

/* Call the handler again when the job changes, or after `ms`. From the first call on the request
 * has a deadline of `ms`; request_over() says that it has passed. */
void request_sleep(struct request *r, int64_t job, int64_t ms);
bool request_over(const struct request *r);
/* Also look again when a file in this directory changes. */
void request_watch(struct request *r, const char *dir);

#endif
