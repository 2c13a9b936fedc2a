/* SPDX-License-Identifier: Apache-2.0 */
/* goodput.c - see goodput.h */
#include "agent/core/goodput.h"

#include "engine/base/json_make.h"

#define NAME(id, name) #name,
static const char *const names[BUCKETS] = { GOODPUT_BUCKETS(NAME) };

const char *bucket_name(enum bucket bucket)
{
    return names[bucket];
}

void goodput_put(struct goodput *s, enum bucket bucket, int64_t ms)
{
    if (ms <= 0)
        return;
    s->ms[bucket] += ms;
    s->rank_ms += ms;
}

void goodput_add(struct goodput *sum, const struct goodput *s)
{
    sum->rank_ms += s->rank_ms;
    for (int i = 0; i < BUCKETS; i++)
        sum->ms[i] += s->ms[i];
}

bool goodput_adds_up(const struct goodput *s)
{
    int64_t sum = 0;
    for (int i = 0; i < BUCKETS; i++) {
        if (s->ms[i] < 0)
            return false;
        sum += s->ms[i];
    }
    return sum == s->rank_ms;
}

static int64_t within(int64_t at, int64_t low, int64_t high)
{
    return at < low ? low : at > high ? high : at;
}

/* Moves `ms` of working time, in proportion from both kinds, to another bucket. */
static void move(int64_t *fresh, int64_t *again, struct goodput *s, enum bucket to, int64_t ms)
{
    int64_t both = *fresh + *again;
    ms = within(ms, 0, both);
    if (ms == 0)
        return;
    int64_t of_fresh = (int64_t)((double)ms * (double)*fresh / (double)both);
    of_fresh = within(of_fresh, ms - *again, *fresh);
    *fresh -= of_fresh;
    *again -= ms - of_fresh;
    goodput_put(s, to, ms);
}

/* Waits for a full disk lie before `last`, except one that did not end, which lasts until the failure. */
static void rank_waited(int64_t *fresh, int64_t *again, struct goodput *s, const struct spell *spell,
                        const struct spell_rank *rank, int64_t *tail, int64_t noticed)
{
    const int64_t open = spell->disk_since < 0 ? 0 : noticed - within(spell->disk_since, 0, noticed);
    const int64_t all = open + (spell->disk_ms > 0 ? spell->disk_ms : 0), late = within(open, 0, *tail);
    *tail -= late;
    goodput_put(s, BUCKET_DISK, late);
    move(fresh, again, s, BUCKET_DISK, all - late);
    move(fresh, again, s, BUCKET_CHECKPOINT, rank->checkpoint_ms - all);
}

/* Time with data before the rank reported its start: data is encoded then. 0 for a rank that reports nothing. */
static int64_t prepared(const struct spell *spell, const struct spell_rank *rank, int64_t init, int64_t noticed)
{
    const int64_t until = spell->started >= 0 ? spell->started : spell->failed >= 0 ? noticed : init;
    return within(rank->data_ms, 0, within(until - init, 0, noticed - init));
}

void goodput_rank(struct goodput *s, const struct spell *spell, const struct spell_rank *rank)
{
    const int64_t wall = spell->wall > 0 ? spell->wall : 0;
    const int64_t exit = within(rank->exit, 0, wall);
    /* Work ends at the last step if the failure came after it; else when the rank ended. */
    const int64_t noticed = spell->failed < 0 ? exit : within(spell->failed, 0, exit);
    const int64_t init = within(rank->init_ms > 0 ? rank->init_ms : spell->started, 0, noticed);
    const int64_t begin = init + prepared(spell, rank, init, noticed);
    const int64_t last = spell->failed < 0 ? noticed : within(spell->last, begin, noticed);
    const int64_t turn = spell->fresh < 0 ? last : within(spell->fresh, begin, last);
    int64_t fresh = last - turn, again = turn - begin, tail = noticed - last;

    if (spell->started < 0 && spell->last < 0 && spell->failed < 0) { /* no lines, ended well: all productive */
        fresh = noticed - begin;
        again = 0;
    }
    goodput_put(s, BUCKET_INIT, init);
    goodput_put(s, BUCKET_DATA, begin - init);
    move(&fresh, &again, s, BUCKET_DATA, rank->data_ms - (begin - init));
    rank_waited(&fresh, &again, s, spell, rank, &tail, noticed);
    goodput_put(s, BUCKET_PRODUCTIVE, fresh);
    goodput_put(s, BUCKET_REPLAYED, again);
    goodput_put(s, spell->hung ? BUCKET_HANG : BUCKET_REPLAYED, tail);
    goodput_put(s, BUCKET_RESTART, wall - noticed);
}

json_t *goodput_print(const struct goodput *s)
{
    json_t *body = json_make("{s:I}", "rank_ms", (json_int_t)s->rank_ms);
    for (int i = 0; i < BUCKETS && body; i++)
        json_object_set_new(body, names[i], json_integer(s->ms[i]));
    return body;
}

int goodput_parse(struct goodput *s, const json_t *body)
{
    const json_t *all = json_object_get(body, "rank_ms");
    *s = (struct goodput){ .rank_ms = json_integer_value(all) };
    for (int i = 0; i < BUCKETS; i++)
        s->ms[i] = json_integer_value(json_object_get(body, names[i]));
    return json_is_integer(all) && goodput_adds_up(s) ? 0 : -1;
}
