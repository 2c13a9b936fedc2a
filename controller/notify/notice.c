/* SPDX-License-Identifier: Apache-2.0 */
/* notice.c - see notice.h */
#include "controller/notify/notice.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"

#define DAY_MS (24 * 3600 * 1000LL)
#define HOUR_MS (3600 * 1000LL)

const struct notice_times NOTICE_TIMES = { .settle_ms = 30000, .quiet_ms = 600000, .backoff_ms = 5000,
                                           .refill_ms = 60000 };

static const char *const names[NOTICE_EVENTS] = {
    [NOTICE_NONE] = "", [NOTICE_RECOVERING] = "recovering", [NOTICE_HUNG] = "hung", [NOTICE_BUDGET] = "budget",
    [NOTICE_DONE] = "done", [NOTICE_FAILED] = "failed",
};

const char *notice_event_name(enum notice_event e)
{
    return names[e];
}

enum notice_event notice_event_of(const char *name)
{
    int e = NOTICE_EVENTS - 1;
    while (e > 0 && (!name || strcmp(names[e], name) != 0))
        e--;
    return (enum notice_event)e;
}

/* `first` doubled `times` times, at most `most`. */
static int64_t doubled(int64_t first, int64_t times, int64_t most)
{
    int64_t ms = first;
    while (times-- > 0 && ms < most)
        ms *= 2;
    return ms < most ? ms : most;
}

/* ---- rows ---- */

static int64_t trouble_due(const struct notice_row *n, int64_t now_ms, const struct notice_times *t)
{
    const int64_t settled = now_ms + t->settle_ms;
    const int64_t quiet = n->sent > 0 ? n->sent_ms + doubled(t->quiet_ms, n->sent - 1, DAY_MS) : 0;
    return quiet > settled && quiet <= now_ms + DAY_MS ? quiet : settled;
}

static void write_down(struct notice_row *n, const struct notice_news *news)
{
    if (news->event >= notice_event_of(n->event)) { /* the reason is that of the event */
        snprintf(n->event, sizeof(n->event), "%s", names[news->event]);
        snprintf(n->reason, sizeof(n->reason), "%s", news->reason);
        err_make_printable(n->reason);
    }
    snprintf(n->name, sizeof(n->name), "%s", news->name);
    n->restarts += news->event == NOTICE_RECOVERING;
    n->hangs += news->event == NOTICE_HUNG;
    n->last_ms = news->at_ms;
    if (n->due_ms == 0)
        n->first_ms = news->at_ms;
}

/* Trouble that was still waiting is told with the end. */
static enum notice_fate end(struct notice_row *n, const struct notice_news *news)
{
    if (news->event == NOTICE_NONE || (!news->wanted && n->due_ms == 0))
        return n->sent > 0 || n->due_ms > 0 ? NOTICE_REMOVE : NOTICE_SAME;
    write_down(n, news);
    n->ended = true;
    n->due_ms = news->at_ms;
    return NOTICE_PUT;
}

enum notice_fate notice_add(struct notice_row *n, const struct notice_news *news, const struct notice_times *t)
{
    if (news->ended)
        return end(n, news);
    if (!news->wanted || n->ended)
        return NOTICE_SAME;
    write_down(n, news);
    if (n->due_ms == 0)
        n->due_ms = trouble_due(n, news->at_ms, t);
    return NOTICE_PUT;
}

bool notice_is_due(const struct notice_row *n, int64_t now_ms)
{
    return n->due_ms > 0 && (n->due_ms <= now_ms || n->due_ms > now_ms + DAY_MS + HOUR_MS);
}

enum notice_fate notice_sent(struct notice_row *n, const struct notice_row *was, int64_t now_ms,
                             const struct notice_times *t)
{
    if (was->ended)
        return NOTICE_REMOVE;
    const bool more = n->restarts > was->restarts || n->hangs > was->hangs || n->ended ||
                      strcmp(n->event, was->event) != 0;
    n->restarts -= was->restarts;
    n->hangs -= was->hangs;
    n->sent++;
    n->sent_ms = now_ms;
    n->tries = 0;
    if (!more)
        n->event[0] = '\0';
    if (!n->ended)
        n->due_ms = more ? trouble_due(n, now_ms, t) : 0;
    return NOTICE_PUT;
}

enum notice_fate notice_failed(struct notice_row *n, bool refused, int64_t now_ms)
{
    n->tries++;
    if ((refused && n->tries >= NOTICE_REFUSALS) || now_ms - n->due_ms >= NOTICE_KEEP_MS)
        return NOTICE_REMOVE;
    return NOTICE_PUT;
}

/* ---- lanes ---- */

static void refill(struct notice_lane *lane, int64_t now_ms, const struct notice_times *t)
{
    const int64_t more = (now_ms - lane->refilled_ms) / t->refill_ms;
    if (more <= 0)
        return;
    lane->used = more >= lane->used ? 0 : lane->used - (int)more;
    lane->refilled_ms += more * t->refill_ms;
}

size_t notice_lane_take(struct notice_lane *lane, size_t due, int64_t now_ms, const struct notice_times *t)
{
    refill(lane, now_ms, t);
    const size_t left = (size_t)(NOTICE_BURST - lane->used);
    if (due == 0 || left == 0 || now_ms < lane->next_ms)
        return 0;
    lane->used++;
    return due <= left ? 1 : due < NOTICE_BUNDLE ? due : NOTICE_BUNDLE;
}

void notice_lane_ended(struct notice_lane *lane, bool ok, int64_t now_ms, const struct notice_times *t)
{
    if (ok) {
        lane->fails = 0;
        lane->next_ms = 0;
        return;
    }
    lane->used -= lane->used > 0;      /* the back-off is its limit */
    lane->next_ms = now_ms + doubled(t->backoff_ms, lane->fails++, HOUR_MS);
}
