/* SPDX-License-Identifier: Apache-2.0 */
/* connection.c - see connection.h */
#include "controller/http/connection.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "engine/base/clock.h"

enum { LOOK_MS = 1000 };

struct connection *connection_open(struct connections *all, int fd)
{
    struct connection *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    *c = (struct connection){.fd = fd, .since_ms = clock_ms(), .next = all->first};
    all->first = c;
    all->count++;
    return c;
}

void connection_close(struct connections *all, struct connection *c)
{
    for (struct connection **at = &all->first; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            all->count--;
            free(c);
            return;
        }
}

void connection_enter(struct connection *c, enum connection_phase phase)
{
    c->phase = phase;
    c->since_ms = clock_ms();
    c->gone = false;
}

static int unread(int fd)
{
    int bytes = 0;
    return ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : 0;
}

/* Its client is gone at two looks, so that a request that was read at the first has been handled; or it is late. */
static bool is_over(struct connection *c, int64_t now_ms)
{
    if (c->phase == CONNECTION_BUSY || unread(c->fd) > 0)
        return false;
    const bool gone_before = c->gone;
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    c->gone = poll(&p, 1, 0) > 0;
    const int most_s = c->phase == CONNECTION_KEPT ? IDLE_S : REQUEST_S;
    return (c->gone && gone_before) || now_ms - c->since_ms >= most_s * 1000;
}

static struct connection *oldest(const struct connections *all)
{
    struct connection *found = NULL;
    for (struct connection *c = all->first; c; c = c->next)
        if (c->phase != CONNECTION_BUSY && (!found || c->since_ms <= found->since_ms))
            found = c;
    return found;
}

static void end(struct connection *c)
{
    shutdown(c->fd, SHUT_RDWR);
}

bool connection_sweep(struct connections *all, unsigned most)
{
    const int64_t now_ms = clock_ms();
    const bool full = all->count >= most;
    bool ended = false;
    if (full || now_ms - all->looked_ms >= LOOK_MS) {
        all->looked_ms = now_ms;
        for (struct connection *c = all->first; c; c = c->next)
            if (is_over(c, now_ms)) {
                end(c);
                ended = true;
            }
    }
    struct connection *idle = ended || !full ? NULL : oldest(all);
    if (idle)
        end(idle);
    return ended || idle;
}
