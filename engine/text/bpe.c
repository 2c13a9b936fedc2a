/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.c - see bpe.h
 *
 * The symbols are a linked list over an array; a heap has the pairs that may be merged.  A merge leaves pairs in the
 * heap whose symbols are gone: they are recognised when they come up.
 */
#include "engine/text/bpe.h"

#include <stdbool.h>
#include <stdlib.h>

#include "engine/base/err.h"

enum { NONE = -1 };

struct merge {
    uint64_t pair;   /* left << 32 | right; ids are not negative, so all ones is free */
    uint32_t rank;
    int32_t  merged;
};

struct bpe {
    struct merge *slot;
    size_t        slots, taken; /* slots: a power of 2 */
};

struct candidate {
    uint64_t order; /* rank << 32 | place of the left symbol */
    uint64_t pair;
    int32_t  merged;
};

struct run {
    const struct bpe *b;
    int32_t          *symbol; /* NONE: merged into one before */
    int32_t          *before, *after;
    struct candidate *heap;
    size_t            len;
};

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static struct merge *find(const struct bpe *b, uint64_t pair)
{
    for (size_t i = (pair * 0x9E3779B97F4A7C15u) >> 32;; i++) {
        struct merge *m = &b->slot[i & (b->slots - 1)];
        if (m->pair == pair || m->pair == UINT64_MAX)
            return m;
    }
}

static struct merge *new_slots(size_t n)
{
    struct merge *m = malloc(n * sizeof(*m));
    for (size_t i = 0; m && i < n; i++)
        m[i].pair = UINT64_MAX;
    return m;
}

int bpe_create(struct bpe **out, struct err *err)
{
    struct bpe *b = calloc(1, sizeof(*b));
    if (!b || !(b->slot = new_slots(b->slots = 1024))) {
        free(b);
        return err_set(err, ERR_MEMORY, "no memory for merges");
    }
    *out = b;
    return 0;
}

void bpe_destroy(struct bpe *b)
{
    if (!b)
        return;
    free(b->slot);
    free(b);
}

static int grow(struct bpe *b, struct err *err)
{
    if (2 * (b->taken + 1) <= b->slots)
        return 0;
    struct bpe twice = {new_slots(2 * b->slots), 2 * b->slots, b->taken};
    if (!twice.slot || b->taken >= INT32_MAX) {
        free(twice.slot);
        return err_set(err, ERR_MEMORY, "no memory for %zu merges", b->taken);
    }
    for (size_t i = 0; i < b->slots; i++)
        if (b->slot[i].pair != UINT64_MAX)
            *find(&twice, b->slot[i].pair) = b->slot[i];
    free(b->slot);
    *b = twice;
    return 0;
}

int bpe_add(struct bpe *b, int32_t left, int32_t right, int32_t merged, struct err *err)
{
    if (grow(b, err) < 0)
        return -1;
    const uint64_t pair = pair_of(left, right);
    struct merge *m = find(b, pair);
    if (m->pair != pair)
        *m = (struct merge){pair, (uint32_t)b->taken++, merged};
    return 0;
}

/* --- the heap ---------------------------------------------------------------------------- */

static void push(struct run *r, struct candidate c)
{
    size_t i = r->len++;
    for (; i && c.order < r->heap[(i - 1) / 2].order; i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = c;
}

static struct candidate pop(struct run *r)
{
    const struct candidate first = r->heap[0], c = r->heap[--r->len];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < r->len; i = child) {
        if (child + 1 < r->len && r->heap[child + 1].order < r->heap[child].order)
            child++;
        if (c.order <= r->heap[child].order)
            break;
        r->heap[i] = r->heap[child];
    }
    r->heap[i] = c;
    return first;
}

/* --- merging ----------------------------------------------------------------------------- */

/* The symbol at `left` and the one after it, if they can be merged. */
static void consider(struct run *r, int32_t left)
{
    if (left == NONE || r->after[left] == NONE)
        return;
    const uint64_t pair = pair_of(r->symbol[left], r->symbol[r->after[left]]);
    const struct merge *m = find(r->b, pair);
    if (m->pair == pair)
        push(r, (struct candidate){(uint64_t)m->rank << 32 | (uint32_t)left, pair, m->merged});
}

static bool still_there(const struct run *r, const struct candidate *c)
{
    const int32_t left = (int32_t)(uint32_t)c->order;
    return r->symbol[left] != NONE && r->after[left] != NONE &&
           pair_of(r->symbol[left], r->symbol[r->after[left]]) == c->pair;
}

static void merge(struct run *r, const struct candidate *c)
{
    const int32_t left = (int32_t)(uint32_t)c->order, right = r->after[left];
    r->symbol[left] = c->merged;
    r->symbol[right] = NONE;
    r->after[left] = r->after[right];
    if (r->after[left] != NONE)
        r->before[r->after[left]] = left;
    consider(r, r->before[left]);
    consider(r, left);
}

static void link_all(struct run *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        r->before[i] = (int32_t)i - 1;
        r->after[i] = i + 1 < n ? (int32_t)i + 1 : NONE;
    }
    for (size_t i = 0; i < n; i++)
        consider(r, (int32_t)i);
}

static int64_t close_up(int32_t *symbol, size_t n)
{
    int64_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (symbol[i] != NONE)
            symbol[left++] = symbol[i];
    return left;
}

/* Each merge adds at most two candidates, and there are fewer merges than symbols. */
int64_t bpe_run(const struct bpe *b, int32_t *symbol, size_t n, struct err *err)
{
    if (n < 2)
        return (int64_t)n;
    struct run r = {.b = b, .symbol = symbol};
    if (n > INT32_MAX / 4 || !(r.heap = malloc(3 * n * sizeof(*r.heap))) ||
        !(r.before = malloc(2 * n * sizeof(*r.before)))) {
        free(r.heap);
        return err_set(err, ERR_MEMORY, "no memory to tokenize %zu characters", n);
    }
    r.after = r.before + n;
    link_all(&r, n);
    while (r.len) {
        const struct candidate c = pop(&r);
        if (still_there(&r, &c))
            merge(&r, &c);
    }
    free(r.heap);
    free(r.before);
    return close_up(symbol, n);
}
