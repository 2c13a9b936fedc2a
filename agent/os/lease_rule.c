/* SPDX-License-Identifier: Apache-2.0 */
/* lease_rule.c - see lease_rule.h */
#include "agent/os/lease_rule.h"

#include <string.h>

/* Beyond the process itself: has its beat changed, or been silent for long enough? */
static enum lease_word by_beat(struct lease_watch *w, const struct lease_look *look, int64_t wait_ms)
{
    const struct lease_record *h = look->holder;
    const int64_t ms = look->now_ms - w->at_ms;
    if (w->token && (h->token != w->token || h->beat != w->beat))
        return LEASE_HELD;
    if (w->token)
        w->silent_ms += ms < LEASE_LOOK_MAX_MS ? ms : LEASE_LOOK_MAX_MS;
    w->token = h->token;
    w->beat = h->beat;
    w->at_ms = look->now_ms;
    return w->silent_ms >= wait_ms ? LEASE_SILENT : LEASE_WATCH;
}

enum lease_word lease_rule(struct lease_watch *w, const struct lease_look *look, const char *origin, int64_t wait_ms)
{
    const struct lease_record *h = look->holder;
    if (h->token && origin && strcmp(h->origin, origin) != 0)
        return LEASE_FOREIGN;
    if (!h->token || h->released)
        return LEASE_FREE;
    if (look->here && !look->alive)
        return LEASE_DEAD;
    if (look->here && !look->stopped)
        return LEASE_HELD;
    return by_beat(w, look, wait_ms);
}
