/* SPDX-License-Identifier: Apache-2.0 */
/* client_internal.h - state of a client, shared by client*.c only */
#ifndef CONTROLLER_BASE_CLIENT_INTERNAL_H
#define CONTROLLER_BASE_CLIENT_INTERNAL_H

#include <curl/curl.h>
#include <limits.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "controller/base/client.h"
#include "controller/base/diagnostics.h"
#include "engine/base/err.h"

struct client {
    CURL               *curl;
    char                socket[PATH_MAX];
    int                 dir;            /* directory of a long socket path, opened; or -1 */
    struct buf          answer;
    const volatile int *stop;
    bool                start;          /* start the daemon if it is not running */
    struct diagnostics  found;
    int64_t             daemon_pid;     /* of this machine's daemon, 0: not known */
    double              asked_s;        /* when the present request began */
    bool                silent;         /* its answer may take long: a wait for an event */
    bool                noted;          /* already reported that there is no answer yet */
    bool                daemon_stopped; /* its process is: the request is given up */
    /* used with a far host */
    bool                far;
    int                 ready;          /* a connected socket for libcurl's next connection; or -1 */
    bool                posting;        /* libcurl would resend a POST over another connection */
    int                 stand_in;       /* libcurl's own socket, of its newest connection */
    struct err          no_connection;  /* why libcurl got no socket */
    double              patience_s;     /* how long a broken connection is retried; < 0: forever */
    double              answered_s;     /* when it last answered */
    bool                unanswered;     /* the last request may or may not have been carried out */
    bool                told;           /* already reported that the host is lost, since away_s */
    double              away_s;
    void              (*away)(void *user);
    void               *away_user;
};

static inline bool client_is_stopped(const struct client *c)
{
    return c->stop && *c->stop;
}

/* Ensures a session for libcurl's next connection. */
int client_far_reach(struct client *c, struct err *err);

/* Makes libcurl use sessions instead of sockets. */
void client_far_prepare(struct client *c);

/* After a connection broke: a new session, with pauses that grow from *pause_ms. -1: interrupted, refused for good, or
 * away for longer than patience_s. */
int client_far_again(struct client *c, int *pause_ms, struct err *err);

#endif
