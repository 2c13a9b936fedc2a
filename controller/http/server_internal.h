/* SPDX-License-Identifier: Apache-2.0 */
/* server_internal.h - a request and its listener, shared by server.c and request*.c only */
#ifndef CONTROLLER_HTTP_SERVER_INTERNAL_H
#define CONTROLLER_HTTP_SERVER_INTERNAL_H

#include <microhttpd.h>
#include <uv.h>

#include "engine/base/buf.h"
#include "controller/http/connection.h"
#include "controller/http/request.h"
#include "controller/http/server.h"
#include "engine/base/err.h"

#define SERVER_STOPPING "the daemon is stopping"

enum { ANY_JOB = 0, NO_JOB = -1, CHANGES_KEPT = 4096 };     /* a power of two */

struct server {
    struct daemon   *daemon;
    struct listener *listeners;
    struct request  *asleep;
    bool             closing;
    int64_t          changes;                   /* total number of changes ... */
    int64_t          changed[CHANGES_KEPT];     /* ... and the jobs of the newest ones */
};

struct listener {
    struct server        *server;
    const struct service *service;
    struct MHD_Daemon    *mhd;
    uv_poll_t             poll;
    uv_timer_t            timer;    /* MHD's own time-outs */
    struct connections    connections;
    uv_timer_cb           run;      /* of the timer: lets MHD work */
    struct listener      *next;
};

/* A header of an answer; the name is static. */
struct answer_header {
    const char           *name;
    char                 *value;
    struct answer_header *next;
};

struct request {
    struct listener       *listener;
    struct MHD_Connection *connection;
    const struct route    *route;
    struct buf             body;
    json_t                *json;
    char                   job[128];
    bool                   too_large, no_memory;  /* its body */
    bool                   answered;
    int64_t                memo[2];
    struct answer_header  *headers;
    enum MHD_Result        result;
    /* set while it sleeps */
    bool                   asleep;
    int64_t                wake_job;
    int64_t                deadline_ms;     /* 0: none yet */
    struct request        *next;
    uv_timer_t            *timer;
    uv_fs_event_t         *watch;
    struct file_task      *task;            /* the task it waits for, or once that has ended, the handler's */
    bool                   worked;          /* the task has ended */
    struct err             failed;          /* why it stopped waiting */
    request_otherwise_fn   otherwise_of;    /* makes the answer in that case; NULL: the error */
    json_t                *otherwise;
    struct stream         *stream;          /* NULL: its answer is not a stream (request_stream.c) ... */
    void                 (*stream_fini)(struct request *r);     /* ... else frees the stream's state */
};

/* An error outside the handlers: a status and a word of docs/API.md. Takes `more`, which may be NULL. */
void request_refuse(struct request *r, int status, const char *word, const char *text, json_t *more);

/* Call before the handler is called again. False: the request has been answered. */
bool request_resume(struct request *r);
void request_wake(struct request *r);
/* Puts it to sleep until the job changes (or ANY_JOB), or `ms` have passed; -1: no memory. */
int request_rest(struct request *r, int64_t job, int64_t ms);
/* Sets the type, and the headers given to request_set_header(). */
void request_add_headers(struct MHD_Response *response, const struct request *r, const char *type);

/* Frees all that it holds. */
void request_fini(struct request *r);

#endif
