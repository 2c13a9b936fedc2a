/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - see channel.h */
#include "agent/wire/channel.h"

#include <stdlib.h>

enum {
    ROOM = 16,
    RECONNECT_MIN_MS = 1500,
    RECONNECT_MAX_MS = 4000 /* after this silence, even if the limit is long */
};

static struct channel_frame *slot(const struct channel *c, int64_t seq)
{
    return &c->kept[(size_t)seq % c->room];
}

/* --- connections ---------------------------------------------------------------------------- */

void channel_try(struct channel *c)
{
    c->tried = true;
    c->quiet_ms = 0;
}

void channel_up(struct channel *c)
{
    c->up = true;
    c->silent_ms = 0;
}

void channel_down(struct channel *c)
{
    c->tried = c->up = c->open = false;
}

bool channel_can_open(const struct channel *c, int64_t received)
{
    return received >= c->acked && received <= c->newest;
}

void channel_open(struct channel *c, int64_t received)
{
    channel_ack(c, received);
    c->sent = received > c->acked ? received : c->acked;
    c->open = true;
}

/* --- sending -------------------------------------------------------------------------------- */

static int grow(struct channel *c)
{
    struct channel bigger = {.room = c->room ? 2 * c->room : ROOM};
    bigger.kept = calloc(bigger.room, sizeof(*bigger.kept));
    if (!bigger.kept)
        return -1;
    for (int64_t seq = c->acked + 1; seq <= c->newest; seq++)
        *slot(&bigger, seq) = *slot(c, seq);
    free(c->kept);
    c->kept = bigger.kept;
    c->room = bigger.room;
    return 0;
}

int channel_keep(struct channel *c, void *bytes, size_t size)
{
    if ((size_t)(c->newest - c->acked) == c->room && grow(c) < 0)
        return -1;
    *slot(c, ++c->newest) = (struct channel_frame){bytes, size};
    c->kept_bytes += size;
    return 0;
}

const struct channel_frame *channel_next(const struct channel *c)
{
    return c->open && c->kept && c->sent < c->newest ? slot(c, c->sent + 1) : NULL;
}

void channel_said(struct channel *c, int64_t seq, int64_t now_ms)
{
    if (seq > 0)
        c->sent = seq;
    c->said_ms = now_ms;
}

int64_t channel_tell(struct channel *c)
{
    return c->told = c->received;
}

bool channel_ack(struct channel *c, int64_t seq)
{
    if (seq > c->newest)
        return false;
    while (c->kept && c->acked < seq) {
        struct channel_frame *f = slot(c, ++c->acked);
        c->kept_bytes -= f->size;
        free(f->bytes);
    }
    c->acked = seq > c->acked ? seq : c->acked;
    c->sent = c->sent > c->acked ? c->sent : c->acked;
    return true;
}

void channel_free(struct channel *c)
{
    channel_ack(c, c->newest);
    free(c->kept);
    c->kept = NULL;
}

/* --- receiving ------------------------------------------------------------------------------ */

enum channel_order channel_order(int64_t received, int64_t seq)
{
    return seq <= received ? CHANNEL_REPEATED : seq == received + 1 ? CHANNEL_NEW : CHANNEL_GAP;
}

enum channel_order channel_take(struct channel *c, int64_t seq)
{
    const enum channel_order order = channel_order(c->received, seq);
    if (order == CHANNEL_NEW)
        c->received = seq;
    return order;
}

void channel_heard(struct channel *c)
{
    c->silent_ms = c->quiet_ms = 0;
}

/* --- silence -------------------------------------------------------------------------------- */

/* A quarter of the limit: several tries before it expires. */
static int64_t reconnect_ms(const struct channel *c)
{
    const int64_t ms = c->limit_ms / 4;
    return ms < RECONNECT_MIN_MS ? RECONNECT_MIN_MS : ms > RECONNECT_MAX_MS ? RECONNECT_MAX_MS : ms;
}

enum channel_due channel_look(struct channel *c, int64_t now_ms, int every_ms)
{
    const int64_t gone = now_ms - c->looked_ms;
    const int64_t counts = gone < 2 * every_ms ? gone : 2 * every_ms;
    c->looked_ms = now_ms;
    c->silent_ms += counts;
    c->quiet_ms += counts;
    if (c->limit_ms && c->silent_ms >= c->limit_ms)
        return CHANNEL_LOST;
    if (c->tried && c->quiet_ms >= reconnect_ms(c))
        return CHANNEL_RECONNECT;
    if (c->up && (c->told != c->received || now_ms - c->said_ms >= CHANNEL_ALIVE_MS * 3 / 4))
        return CHANNEL_SAY_ALIVE;
    return CHANNEL_FINE;
}
