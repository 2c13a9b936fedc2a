/* SPDX-License-Identifier: Apache-2.0 */
/* job_order.c - see job_order.h */
#include "controller/job/job_order.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool before(const struct job_order_entry *e, int64_t a, int64_t b)
{
    return e->a != a ? e->a < a : e->b < b;
}

const struct job_order_entry *job_order_at(const struct job_order *o, size_t i)
{
    return &o->list[o->first + i];
}

size_t job_order_find(const struct job_order *o, int64_t a, int64_t b)
{
    size_t low = 0, high = o->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (before(job_order_at(o, mid), a, b))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Room for one more entry at each end. */
static int make_room(struct job_order *o)
{
    if (o->first > 0 && o->first + o->count < o->room)
        return 0;
    const size_t room = 2 * o->count + 16, first = (room - o->count) / 2;
    struct job_order_entry *list = calloc(room, sizeof(*list));
    if (!list)
        return -1;
    if (o->count > 0)
        memcpy(list + first, o->list + o->first, o->count * sizeof(*list));
    free(o->list);
    *o = (struct job_order){ .list = list, .first = first, .count = o->count, .room = room };
    return 0;
}

static bool has(const struct job_order *o, size_t i, int64_t a, int64_t b)
{
    return i < o->count && job_order_at(o, i)->a == a && job_order_at(o, i)->b == b;
}

int job_order_put(struct job_order *o, int64_t a, int64_t b, void *of)
{
    const size_t i = job_order_find(o, a, b);
    if (!has(o, i, a, b)) {
        if (make_room(o) < 0)
            return -1;
        struct job_order_entry *at = o->list + o->first;
        if (i < o->count / 2) {
            memmove(at - 1, at, i * sizeof(*at));
            o->first--;
        } else {
            memmove(at + i + 1, at + i, (o->count - i) * sizeof(*at));
        }
        o->count++;
    }
    o->list[o->first + i] = (struct job_order_entry){ a, b, of };
    return 0;
}

void job_order_drop(struct job_order *o, int64_t a, int64_t b)
{
    const size_t i = job_order_find(o, a, b);
    if (!has(o, i, a, b))
        return;
    struct job_order_entry *at = o->list + o->first;
    o->count--;
    if (i < o->count / 2) {
        memmove(at + 1, at, i * sizeof(*at));
        o->first++;
    } else {
        memmove(at + i, at + i + 1, (o->count - i) * sizeof(*at));
    }
}

void job_order_fini(struct job_order *o)
{
    free(o->list);
    *o = (struct job_order){ 0 };
}
