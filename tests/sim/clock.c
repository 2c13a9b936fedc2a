/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - see world.h: a heap of what is to happen, and chance from the seed */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/world.h"

uint64_t chance(struct world *w)
{
    uint64_t z = (w->chance += UINT64_C(0x9e3779b97f4a7c15));   /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t between(struct world *w, int64_t low, int64_t high)
{
    return low + (int64_t)(chance(w) % (uint64_t)(high - low + 1));
}

bool fault(struct world *w, int n, enum harm kind)
{
    if (chance(w) % (uint64_t)(n * w->calm) != 0 || w->now >= FAULTS_UNTIL_MS)
        return false;
    w->cover.harms[kind]++;
    say(w, "! %s", harm_name(kind));
    return true;
}

int64_t wall(const struct world *w)
{
    return INT64_C(1700000000000) + w->now + w->skew;
}

static bool sooner(const struct happening *a, const struct happening *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

/* The result may be filled further until the next call. */
struct happening *plan(struct world *w, int64_t in_ms, enum what what, int job, int attempt, uint64_t life)
{
    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : 256;
        w->heap = reallocarray(w->heap, w->room, sizeof(*w->heap));
        if (!w->heap)
            abort();
    }
    const struct happening h = { .at = w->now + in_ms, .order = w->order++, .what = what,
                                 .job = job, .attempt = attempt, .life = life };
    size_t i = w->count++;
    for (; i > 0 && sooner(&h, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = h;
    return &w->heap[i];
}

bool next(struct world *w, struct happening *out)
{
    if (w->count == 0)
        return false;
    *out = w->heap[0];
    const struct happening last = w->heap[--w->count];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < w->count; i = c) {
        if (c + 1 < w->count && sooner(&w->heap[c + 1], &w->heap[c]))
            c++;
        if (!sooner(&w->heap[c], &last))
            break;
        w->heap[i] = w->heap[c];
    }
    w->heap[i] = last;
    w->now = out->at;
    return true;
}

void broke(struct world *w, const char *fmt, ...)
{
    if (w->broken[0])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->broken, sizeof(w->broken), fmt, ap);
    va_end(ap);
}

void say(const struct world *w, const char *fmt, ...)
{
    if (!w->verbose)
        return;
    va_list ap;
    va_start(ap, fmt);
    printf("%9.3f ", (double)w->now / 1000);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}
