/* SPDX-License-Identifier: Apache-2.0 */
/* dist_connect.c - see dist_mesh_internal.h */
#include "engine/dist/dist_mesh_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/dist/dist_internal.h"
#include "engine/dist/dist_link.h"

#define CONNECT_MAGIC UINT64_C(0x31726F6F6474736A) /* "jstdoor1" */
enum { CALLERS = 64, ADDRESS = 256, ATTEMPT_MS = 2000, AGAIN_MS = 20, BACKLOG = 512 };

struct hello {
    uint64_t magic, key[2];
    int32_t  rank, world, channel, spare;
};

/* A connection before it belongs to a link. */
struct connection {
    int          fd;       /* -1: none */
    int          tries;    /* index of the peer's address; only if we call */
    bool         greeted;  /* our hello was sent */
    size_t       have;     /* bytes of `in` */
    struct hello in;
    int64_t      at_ms;    /* time of connecting; while not connected: earliest retry */
};

struct dist_connect {
    struct dist_connect_config c;
    int                        listener;
    struct connection               callers[CALLERS];
    struct connection              *called; /* [world][DIST_LINK_CHANNELS] */
};

static int name_of(const struct dist_connect *d, int rank)
{
    return d->c.names ? d->c.names[rank] : rank;
}

static void end_connection(struct connection *v, int64_t not_before)
{
    if (v->fd >= 0)
        close(v->fd);
    v->fd = -1;
    v->greeted = false;
    v->have = 0;
    v->at_ms = not_before;
}

/* --- our address ------------------------------------------------------------------------- */

static bool fits(const struct ifaddrs *i, const char *wanted)
{
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP))
        return false;
    return wanted ? strcmp(i->ifa_name, wanted) == 0 : !(i->ifa_flags & IFF_LOOPBACK);
}

static bool is_address(const char *text)
{
    struct in_addr a;
    return text && inet_pton(AF_INET, text, &a) == 1;
}

/* "10.0.0.5:40123 192.168.1.5:40123": the addresses of this rank. The address by which the agents
 * of the nodes have connected comes first: others may be of networks that only this machine has. */
static int write_addresses(char text[ADDRESS], const struct dist_bootstrap *bootstrap, int port, struct err *err)
{
    struct ifaddrs *all = NULL;
    size_t n = 0;
    const char *wanted = bootstrap->interface;
    const char *known = !wanted && is_address(bootstrap->address) ? bootstrap->address : NULL;
    if (getifaddrs(&all) < 0)
        return err_set_errno(err, errno, "cannot list the network interfaces");
    if (known)
        n = (size_t)snprintf(text, ADDRESS, "%s:%d", known, port);
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char one[INET_ADDRSTRLEN];
        struct sockaddr_in a;
        if (!fits(i, wanted) || n + INET_ADDRSTRLEN + 8 > ADDRESS)
            continue;
        memcpy(&a, i->ifa_addr, sizeof(a));
        inet_ntop(AF_INET, &a.sin_addr, one, sizeof(one));
        if (known && strcmp(one, known) == 0)
            continue;
        n += (size_t)snprintf(text + n, ADDRESS - n, "%s%s:%d", n ? " " : "", one, port);
    }
    freeifaddrs(all);
    if (n == 0 && wanted)
        return err_set(err, ERR_USAGE, "the network interface %.40s does not exist, is down, or "
                       "has no IPv4 address: `ip addr` lists the interfaces", wanted);
    if (n == 0)
        snprintf(text, ADDRESS, "127.0.0.1:%d", port);
    return 0;
}

static int listen_anywhere(struct dist_connect *d, struct err *err)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof(a);
    char key[32], text[ADDRESS];
    d->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->listener < 0 || bind(d->listener, (struct sockaddr *)&a, size) < 0 ||
        listen(d->listener, BACKLOG) < 0 ||
        getsockname(d->listener, (struct sockaddr *)&a, &size) < 0)
        return err_set_errno(err, errno, "cannot listen for ranks on other nodes");
    snprintf(key, sizeof(key), "tcp.%d", name_of(d, d->c.rank));
    if (write_addresses(text, d->c.bootstrap, ntohs(a.sin_port), err) < 0)
        return -1;
    return d->c.bootstrap->put(d->c.bootstrap->arg, key, text, err);
}

/* Address number `tries` of the text, modulo the number of addresses. */
static bool choose_address(struct sockaddr_in *a, const char *text, int tries)
{
    char words[ADDRESS], *list[ADDRESS / 8], *save = NULL;
    int n = 0;
    snprintf(words, sizeof(words), "%s", text);
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
        list[n++] = w;
    char *colon = n ? strchr(list[tries % n], ':') : NULL;
    if (!colon)
        return false;
    *colon = '\0';
    *a = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
    return inet_pton(AF_INET, list[tries % n], &a->sin_addr) == 1;
}

/* --- hello ------------------------------------------------------------------------------- */

static bool say_hello(const struct dist_connect *d, int fd, int channel)
{
    struct hello h = {CONNECT_MAGIC, {d->c.key[0], d->c.key[1]}, d->c.rank, d->c.world, channel, 0};
    return send(fd, &h, sizeof(h), MSG_NOSIGNAL) == (ssize_t)sizeof(h);
}

/* 1: complete. 0: not yet. -1: the connection ended. */
static int hear_hello(struct connection *v)
{
    ssize_t n = recv(v->fd, (char *)&v->in + v->have, sizeof(v->in) - v->have, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    v->have += (size_t)n;
    return n == 0 ? -1 : v->have == sizeof(v->in);
}

static bool is_ours(const struct dist_connect *d, const struct hello *h)
{
    return h->magic == CONNECT_MAGIC && h->key[0] == d->c.key[0] && h->key[1] == d->c.key[1] &&
           h->world == d->c.world && h->channel >= 0 && h->channel < DIST_LINK_CHANNELS;
}

static void become_link(struct dist_connect *d, struct connection *v, int rank, int channel)
{
    int yes = 1;
    setsockopt(v->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    d->c.links[rank].fd[channel] = v->fd;
    v->fd = -1;
    end_connection(v, 0);
}

/* --- accepting --------------------------------------------------------------------------- */

static void welcome(struct dist_connect *d, struct connection *v)
{
    const struct hello *h = &v->in;
    int rc = hear_hello(v);
    if (rc == 0 && clock_ms() - v->at_ms < ATTEMPT_MS)
        return;
    if (rc == 1 && is_ours(d, h) && h->rank > d->c.rank && h->rank < d->c.world &&
        say_hello(d, v->fd, h->channel)) {
        /* A peer that calls again has given up its first call. */
        if (d->c.links[h->rank].fd[h->channel] >= 0)
            close(d->c.links[h->rank].fd[h->channel]);
        become_link(d, v, h->rank, h->channel);
        return;
    }
    end_connection(v, 0);
}

static void be_called(struct dist_connect *d)
{
    for (int i = 0; i < CALLERS; i++) {
        struct connection *v = &d->callers[i];
        if (v->fd < 0) {
            v->fd = accept4(d->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            v->at_ms = clock_ms();
        }
        if (v->fd >= 0)
            welcome(d, v);
    }
}

/* --- connecting -------------------------------------------------------------------------- */

static int begin_connection(struct dist_connect *d, struct connection *v, int rank, struct err *err)
{
    char key[32];
    struct sockaddr_in a;
    snprintf(key, sizeof(key), "tcp.%d", name_of(d, rank));
    const char *text = d->c.bootstrap->get(d->c.bootstrap->arg, key);
    if (!text)
        return 0;
    if (!choose_address(&a, text, v->tries++))
        return err_set(err, ERR_DATA, "rank %d gives its address as \"%.60s\", which is not valid",
                       name_of(d, rank), text);
    v->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (v->fd < 0)
        return err_set_errno(err, errno, "cannot make a socket");
    v->at_ms = clock_ms();
    if (connect(v->fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != EINPROGRESS)
        end_connection(v, clock_ms() + AGAIN_MS);
    return 0;
}

static bool is_connected(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) == 1;
}

static void go_on(struct dist_connect *d, struct connection *v, int rank, int channel)
{
    int64_t now = clock_ms();
    int rc = 0;
    if (!v->greeted && is_connected(v->fd)) {
        v->greeted = true;
        rc = say_hello(d, v->fd, channel) ? 0 : -1;
    }
    if (v->greeted && rc == 0)
        rc = hear_hello(v);
    if (rc == 1 && is_ours(d, &v->in) && v->in.rank == rank && v->in.channel == channel)
        become_link(d, v, rank, channel);
    else if (rc != 0 || now - v->at_ms >= ATTEMPT_MS)
        end_connection(v, now + AGAIN_MS);
}

static int call_others(struct dist_connect *d, struct err *err)
{
    for (int i = 0; i < d->c.rank * DIST_LINK_CHANNELS; i++) {
        struct connection *v = &d->called[i];
        int rank = i / DIST_LINK_CHANNELS, channel = i % DIST_LINK_CHANNELS;
        if (d->c.links[rank].fd[channel] >= 0)
            continue;
        if (v->fd < 0 && clock_ms() >= v->at_ms && begin_connection(d, v, rank, err) < 0)
            return -1;
        if (v->fd >= 0)
            go_on(d, v, rank, channel);
    }
    return 0;
}

/* --- create, destroy --------------------------------------------------------------------- */

int dist_connect_open(struct dist_connect **out, const struct dist_connect_config *config, struct err *err)
{
    size_t connections = (size_t)config->world * DIST_LINK_CHANNELS;
    struct dist_connect *d = calloc(1, sizeof(*d));
    struct connection *called = calloc(connections, sizeof(*called));
    if (!d || !called) {
        free(d);
        free(called);
        return err_set(err, ERR_MEMORY, "no memory to connect %d nodes", config->world);
    }
    d->c = *config;
    d->called = called;
    d->listener = -1;
    for (size_t i = 0; i < connections; i++)
        called[i].fd = -1;
    for (int i = 0; i < CALLERS; i++)
        d->callers[i].fd = -1;
    if (listen_anywhere(d, err) < 0) {
        dist_connect_close(d);
        return -1;
    }
    *out = d;
    return 0;
}

int dist_connect_poll(struct dist_connect *d, struct err *err)
{
    be_called(d);
    if (call_others(d, err) < 0)
        return -1;
    return dist_connect_absent(d) < 0;
}

int dist_connect_absent(const struct dist_connect *d)
{
    for (int i = 0; i < d->c.world; i++)
        for (int k = 0; i != d->c.rank && k < DIST_LINK_CHANNELS; k++)
            if (d->c.links[i].fd[k] < 0)
                return i;
    return -1;
}

void dist_connect_close(struct dist_connect *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->c.world * DIST_LINK_CHANNELS; i++)
        end_connection(&d->called[i], 0);
    for (int i = 0; i < CALLERS; i++)
        end_connection(&d->callers[i], 0);
    if (d->listener >= 0)
        close(d->listener);
    free(d->called);
    free(d);
}
