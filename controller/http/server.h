/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - the HTTP server inside the event loop: listeners, each with a table of routes
 *
 * libmicrohttpd implements HTTP; the loop polls its epoll descriptors.  A listener's admit() decides
 * who may use it; the handler of a route (request.h) answers, or lets the request sleep.
 */
#ifndef CONTROLLER_HTTP_SERVER_H
#define CONTROLLER_HTTP_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct err;
struct request;
struct server;

enum { BODY_MAX = 4 * 1024 * 1024 };

typedef void (*request_fn)(struct request *r);

/* `path` may contain one JOB, the part that names a job. */
struct route {
    const char *method;
    const char *path;
    request_fn  handle;
    const char *body;       /* its fields, "spec:s! hold:b": s text, b true or false, l list of texts, m map of
                             * texts, o object, i whole number; ! required; NULL: none */
};

enum { CONNECTIONS_MAX = 1000 };

/* What a listener serves. A handler may leave a batch open, to which others in the same turn of the loop add. */
struct service {
    const struct route *routes;     /* ends with a NULL method */
    bool              (*admit)(struct request *r);  /* false: it has answered; request_of_owner() on a unix socket */
    bool              (*permit)(struct request *r, const struct route *route);  /* the same, with the route; NULL: all */
    size_t              body_max;       /* 0: BODY_MAX */
    unsigned            connections;    /* at a time; 0: CONNECTIONS_MAX */
    request_fn          gathers;    /* the handler that adds to the batch, or NULL; the batch is settled before
                                     * others ... */
    bool              (*settle)(struct daemon *d);  /* ... and after each turn; true: there was a batch */
};

/* Without a listener it does nothing. */
int server_open(struct server **out, struct daemon *d, struct err *err);
void server_close(struct server *s);            /* accepts NULL; answers sleeping requests first */

/* Serves on a listening descriptor, and owns it from now on, also on failure. */
int server_listen(struct server *s, const struct service *service, int listen_fd, struct err *err);

/* A job changed: calls the handlers of its sleeping requests again, and records the change as number
 * server_changes(). Accepts NULL. */
void server_wake(struct server *s, int64_t job);
/* The number of changes since the start; the job of change number `n`, from 1 on, or -1 if it is no longer known. */
int64_t server_changes(const struct server *s);
int64_t server_change(const struct server *s, int64_t n);

#endif
