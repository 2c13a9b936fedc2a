/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - one request, as its handler sees it
 *
 * A handler answers, or lets the request sleep until its job changes or a thread has done its file
 * work; it is then called again.
 */
#ifndef CONTROLLER_HTTP_REQUEST_H
#define CONTROLLER_HTTP_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct err;
struct file_task;
struct request;

enum { WAIT_MAX_S = 60 };

struct daemon *request_daemon(const struct request *r);
const char *request_job(const struct request *r);           /* the JOB in the path */
const json_t *request_body(const struct request *r);        /* an object, never NULL */
const char *request_query(const struct request *r, const char *key);    /* or NULL */
/* A number in the query; -1 after answering with an error. */
int request_number(int64_t *out, struct request *r, const char *key, int64_t otherwise);
const char *request_header(const struct request *r, const char *name);  /* a header of the request, or NULL */

/* Is the client, on a unix socket, root or the owner of the daemon? False: answered with an error. */
bool request_of_owner(struct request *r);

/* Answers with the document, an object, and takes it; adds "schema". */
void request_answer(struct request *r, int status, json_t *document);
/* Answers with text of another type, such as "text/html; charset=utf-8", and takes it (malloc). NULL: out of memory. */
void request_answer_text(struct request *r, int status, const char *type, char *text);
/* The same with `size` bytes. */
void request_answer_bytes(struct request *r, int status, const char *type, char *bytes, size_t size);
/* Sets a header of the answer, before the answer, replacing one with that name; NULL: none. `name` is static. */
void request_set_header(struct request *r, const char *name, const char *value);
/* Answers with an error; status and code from err->code; takes `more` (or NULL) and merges it. */
void request_fail(struct request *r, const struct err *err, json_t *more);

/* Answers with server-sent events (HTML Living Standard, 9.2), as long as the client stays. `more` returns the text
 * to send (malloc), or NULL for nothing now. It is called at once, then when the job changes (0: when any job
 * changes, with a short delay that collects several changes), and after `ms`. It takes `state`, and frees it by
 * `drop`. */
typedef char *(*request_more_fn)(struct request *r, void *state);
void request_stream(struct request *r, request_more_fn more, void *state, void (*drop)(void *state), int64_t job,
                    int64_t ms);

/* Two numbers kept for the handler between its calls; initially 0. */
int64_t *request_memo(struct request *r);

/* Calls the handler again when the job changes, or after `ms`. The first call sets a deadline of
 * `ms`; request_over() returns true after it. */
void request_sleep(struct request *r, int64_t job, int64_t ms);
bool request_over(const struct request *r);
bool request_closing(const struct request *r);      /* the daemon is stopping: answer now, and start no work */
/* Also calls the handler again when a file in this directory changes. */
void request_watch(struct request *r, const char *dir);

/* File work for a request (controller/base/file_work.h): handlers access no files. request_work() starts a task with
 * work() and destroy(), and takes it; the request sleeps. When the task has ended, the handler is called again, and
 * request_worked() returns the task until the handler returns. If the task does not end in time, the request is
 * answered with an error that names what hangs; with request_work_or(), the answer is the document of otherwise(),
 * which may run at the same time as work(), with the error's text in its key "files". */
typedef json_t *(*request_otherwise_fn)(struct file_task *task);
void request_work(struct request *r, struct file_task *task, const char *lane, const char *what);
void request_work_or(struct request *r, struct file_task *task, const char *lane, const char *what,
                     request_otherwise_fn otherwise);
struct file_task *request_worked(const struct request *r);      /* NULL: none */

#endif
