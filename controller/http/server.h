/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - the HTTP server on the unix socket, inside the event loop
 *
 * libmicrohttpd does the HTTP; the loop polls its epoll descriptor.  The peer's
 * credentials decide who may connect.  The caller supplies a table of routes
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
struct file_task;
struct request;
struct server;

enum { BODY_MAX = 4 * 1024 * 1024, WAIT_MAX_S = 60 };

typedef void (*request_fn)(struct request *r);

/* `path` may contain one JOB, the part that names a job. */
struct route {
    const char *method;
    const char *path;
    request_fn  handle;
    const char *body;       /* its fields, "spec:s! hold:b": s text, b true or false, l list of
                               texts, m map of texts, o object; ! must be there; NULL: none */
};

/* The table to serve. A handler may leave a batch open, to which others of the same turn add. */
struct service {
    const struct route *routes;     /* ends with a NULL method */
    request_fn          gathers;    /* the handler that adds; settled before others ... */
    bool              (*settle)(struct daemon *d);  /* ... and after each turn; true: there was something */
};

/* Serves on a listening descriptor and takes ownership of it. */
int server_open(struct server **out, struct daemon *d, const struct service *service, int listen_fd,
                struct err *err);
void server_close(struct server *s);            /* accepts NULL; answers sleeping requests first */

/* The job changed: calls the handlers of its sleeping requests again. */
void server_wake(struct server *s, int64_t job);

/* ---- for handlers ---- */

struct daemon *request_daemon(const struct request *r);
const char *request_job(const struct request *r);           /* the JOB of the path */
const json_t *request_body(const struct request *r);        /* an object, never NULL */
const char *request_query(const struct request *r, const char *key);    /* or NULL */
/* A number of the query; -1 after answering with an error. */
int request_number(int64_t *out, struct request *r, const char *key, int64_t otherwise);

/* Answers with the document, an object, and takes it; adds "schema". */
void request_answer(struct request *r, int status, json_t *document);
/* Answers with an error; status and code from err->code; takes `more` (or NULL) and merges it. */
void request_fail(struct request *r, const struct err *err, json_t *more);

/* Two numbers kept for the handler between its calls; initially 0. */
int64_t *request_memo(struct request *r);

/* Calls the handler again when the job changes, or after `ms`. The first call sets a deadline of
 * `ms`; request_over() returns true after it. */
void request_sleep(struct request *r, int64_t job, int64_t ms);
bool request_over(const struct request *r);
bool request_closing(const struct request *r);      /* the daemon stops: answer now, begin nothing */
/* Also calls it again when a file in this directory changes. */
void request_watch(struct request *r, const char *dir);

/* File work for a request (controller/base/file_work.h): handlers touch no file. request_work() begins a task,
 * which has work() and destroy(), and takes it; the request sleeps. When the task has ended, the handler is called
 * again, and request_worked() returns the task, until the handler returns. If it does not end in time, the request is
 * answered with an error that names what hangs; with request_work_or(), with the document that otherwise() makes then,
 * perhaps beside work(), and the error's sentence in its key "files". */
typedef json_t *(*request_otherwise_fn)(struct file_task *task);
void request_work(struct request *r, struct file_task *task, const char *lane, const char *what);
void request_work_or(struct request *r, struct file_task *task, const char *lane, const char *what,
                     request_otherwise_fn otherwise);
struct file_task *request_worked(const struct request *r);      /* NULL: none */

#endif
