/* SPDX-License-Identifier: Apache-2.0 */
/* client_far.c - connections to another machine's daemon (jobctl -H, far_host.h), made again if they break */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "controller/base/client_internal.h"
#include "controller/base/far_host.h"
#include "engine/base/clock.h"

enum { PAUSE_MAX_MS = 5000 };

static void say(const struct client *c, const char *text)
{
    if (c->away)
        c->away(c->away_user);
    fprintf(stderr, "jobctl: %s\n", text);
}

/* Once per break. */
static void say_away(struct client *c, const char *why)
{
    char text[700];
    if (c->told)
        return;
    c->told = true;
    snprintf(text, sizeof(text), "%s; trying again", why[0] ? why : "the connection broke");
    say(c, text);
}

/* If it was told. */
static void say_back(struct client *c)
{
    char text[400];
    if (!c->told)
        return;
    c->told = false;
    snprintf(text, sizeof(text), "%s answers again after %.1f s; nothing was lost", far_host_name(),
             clock_s() - c->away_s);
    say(c, text);
}

static void say_slow(void *user)
{
    char text[300];
    snprintf(text, sizeof(text), "%s does not answer", far_host_name());
    say_away(user, text);
}

int client_far_reach(struct client *c, struct err *err)
{
    if (c->ready < 0)
        c->ready = far_host_connect(c->start, c->stop, err);
    return c->ready < 0 ? -1 : 0;
}

/* The session of a new connection of libcurl, which replaces one that broke without a word. -1: none. */
static int renew(struct client *c)
{
    c->no_connection = (struct err){.code = ERR_NONE};
    if (c->posting)
        return -1;
    if (c->answered_s > 0 && !c->told) {
        c->away_s = clock_s();
        far_host_when_slow(say_slow, c);
    }
    const int rc = client_far_reach(c, &c->no_connection);
    far_host_when_slow(NULL, NULL);
    if (rc == 0)
        say_back(c);
    return rc;
}

/* libcurl 7.87 and 7.88 connect a socket even if they are told that it is connected.  So libcurl connects a stand-in, a
 * datagram socket, for which the kernel sends nothing; before the request the session takes its place.  libcurl before
 * 7.80 lacks the callback that creates it; there the callback for socket options reports that the session
 * is connected. */
#if LIBCURL_VERSION_NUM >= 0x075000
static curl_socket_t give_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)purpose;
    (void)address;
    struct client *c = user;
    return renew(c) < 0 ? CURL_SOCKET_BAD : (c->stand_in = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

static int take_place(void *user, char *to, char *from, int to_port, int from_port)
{
    (void)to;
    (void)from;
    (void)to_port;
    (void)from_port;
    struct client *c = user;
    if (c->ready < 0)
        return CURL_PREREQFUNC_OK;  /* a further request of a connection */
    const int flags = fcntl(c->ready, F_GETFL);
    const bool ok = fcntl(c->ready, F_SETFL, flags | O_NONBLOCK) == 0 && dup3(c->ready, c->stand_in, O_CLOEXEC) >= 0;
    close(c->ready);
    c->ready = -1;
    return ok ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

static void set_place(struct client *c)
{
    curl_easy_setopt(c->curl, CURLOPT_PREREQFUNCTION, take_place);
    curl_easy_setopt(c->curl, CURLOPT_PREREQDATA, c);
}
#else
static curl_socket_t give_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)purpose;
    (void)address;
    struct client *c = user;
    renew(c);
    const int fd = c->ready;
    c->ready = -1;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int is_connected(void *user, curl_socket_t fd, curlsocktype purpose)
{
    (void)user;
    (void)fd;
    (void)purpose;
    return CURL_SOCKOPT_ALREADY_CONNECTED;
}

static void set_place(struct client *c)
{
    curl_easy_setopt(c->curl, CURLOPT_SOCKOPTFUNCTION, is_connected);
}
#endif

void client_far_prepare(struct client *c)
{
    curl_easy_setopt(c->curl, CURLOPT_OPENSOCKETFUNCTION, give_socket);
    curl_easy_setopt(c->curl, CURLOPT_OPENSOCKETDATA, c);
    set_place(c);
}

/* A new session, with growing pauses; -1: interrupted, or it makes no sense to wait, or for too long. */
static int reach_again(struct client *c, double since, int *pause_ms, struct err *err)
{
    for (;;) {
        struct err why = {0};
        const double left_ms = c->patience_s < 0 ? *pause_ms : 1000 * (since + c->patience_s - clock_s());
        poll(NULL, 0, left_ms >= *pause_ms ? *pause_ms : left_ms > 0 ? (int)left_ms + 1 : 0);
        *pause_ms = *pause_ms * 2 < PAUSE_MAX_MS ? *pause_ms * 2 : PAUSE_MAX_MS;
        if (client_is_stopped(c))
            return err_set(err, ERR_CONFLICT, "interrupted");
        if (client_far_reach(c, &why) == 0)
            return 0;
        const bool late = c->patience_s >= 0 && clock_s() - since >= c->patience_s;
        if (why.code != ERR_SYSTEM || late)
            return err_set(err, why.code, "%s", why.text);
    }
}

int client_far_again(struct client *c, int *pause_ms, struct err *err)
{
    struct err why;
    far_host_why(&why);
    if (!c->told)
        c->away_s = clock_s();
    say_away(c, c->no_connection.code != ERR_NONE ? c->no_connection.text : why.text);
    if (reach_again(c, c->away_s, pause_ms, err) < 0)
        return -1;
    say_back(c);
    return 0;
}
