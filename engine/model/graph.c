/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - see graph.h */
#include "engine/model/graph.h"

#include <stdint.h>
#include <stdlib.h>

#include "kernels/cuda.h"

/* A run with pictures of many shapes has some forty of them, each in two parts; the least recently
 * used recording makes room for a new shape. */
enum { GRAPHS_MAX = 64 };

struct graph {
    struct graph_key key;
    void            *recorded; /* NULL: seen once, not recorded */
    unsigned         moves;    /* when it was recorded */
    uint64_t         used;     /* 0: this slot is free */
};

struct graphs {
    const struct kern_graphs *table;
    struct graph              graph[GRAPHS_MAX];
    uint64_t                  uses;
    bool                      off; /* recording failed once: never try again */
};

struct graphs *graphs_create(const struct kern_graphs *table)
{
    struct graphs *g = table ? calloc(1, sizeof(*g)) : NULL;
    if (g)
        g->table = table;
    return g;
}

static void forget(struct graphs *g, struct graph *one)
{
    if (one->recorded)
        g->table->drop(one->recorded);
    one->recorded = NULL;
}

void graphs_destroy(struct graphs *g)
{
    for (int i = 0; g && i < GRAPHS_MAX; i++)
        forget(g, &g->graph[i]);
    free(g);
}

static bool same(const struct graph_key *a, const struct graph_key *b)
{
    return a->part == b->part && a->batch == b->batch && a->height == b->height &&
           a->width == b->width && a->text == b->text && a->rows == b->rows &&
           !(a->weight < b->weight) && !(a->weight > b->weight);
}

/* The slot of this key, or a new one in place of the least recently used. */
static struct graph *find(struct graphs *g, const struct graph_key *key, bool *is_new)
{
    struct graph *oldest = &g->graph[0];
    *is_new = false;
    for (int i = 0; i < GRAPHS_MAX; i++) {
        struct graph *one = &g->graph[i];
        if (one->used && same(&one->key, key))
            return one;
        if (one->used < oldest->used)
            oldest = one;
    }
    forget(g, oldest);
    oldest->key = *key;
    *is_new = true;
    return oldest;
}

/* 0: recorded, or g->off is set; -1: `fn` failed. Nothing has run. */
static int record(struct graphs *g, struct graph *one, graph_fn fn, void *arg, struct err *err)
{
    forget(g, one);
    g->off = g->table->begin() < 0;
    if (g->off)
        return 0;
    const int r = fn(arg, err);
    one->recorded = g->table->end();
    one->moves = g->table->moves();
    if (r < 0)
        forget(g, one);
    else
        g->off = !one->recorded;
    return r;
}

int graphs_run(struct graphs *g, const struct graph_key *key, graph_fn fn, void *arg, struct err *err)
{
    bool is_new;
    if (!g || g->off)
        return fn(arg, err);
    struct graph *one = find(g, key, &is_new);
    one->used = ++g->uses;
    if (is_new)
        return fn(arg, err);
    if ((!one->recorded || one->moves != g->table->moves()) && record(g, one, fn, arg, err) < 0)
        return -1;
    if (!one->recorded)
        return fn(arg, err);
    g->table->run(one->recorded);
    return 0;
}
