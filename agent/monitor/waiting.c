/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.c - see waiting.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/monitor/waiting.h"

#include <string.h>

#include "agent/os/tcp_sockets.h"

enum { WAKE_UP_US = 600, MOST_US_PER_MS = 20 };

uint64_t waiting_work_us(uint64_t cpu_ns, int64_t switches, int64_t window_ms)
{
    const int64_t most = MOST_US_PER_MS * window_ms;
    const int64_t cost = switches >= 0 && switches < most / WAKE_UP_US ? switches * WAKE_UP_US : most;
    const int64_t work = (int64_t)(cpu_ns / 1000) - cost;
    return work > 0 ? (uint64_t)work : 0;
}

static bool same(const struct tcp_end *a, const struct tcp_end *b)
{
    return a->port == b->port && memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

bool waiting_for_others(const struct tcp_socket *s, const struct tcp_socket *own, size_t n, const uint8_t first[16])
{
    if (s->listens || memcmp(s->peer.address, first, sizeof(s->peer.address)) == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (own[i].listens ? own[i].local.port == s->local.port
                           : same(&own[i].local, &s->peer) && same(&own[i].peer, &s->local))
            return false;
    return true;
}
