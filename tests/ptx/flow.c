/* SPDX-License-Identifier: Apache-2.0 */
/* flow.c - finds where the sides of a branch meet again: its immediate post-dominator
 *
 * By the iteration of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed graph of
 * instructions; the node after the last instruction is the end of the kernel.
 */
#include "tests/ptx/code.h"

#include <stdlib.h>
#include <string.h>

struct graph {
    const struct ptx_entry *e;
    int  nodes, end, found;
    int *before, *first;  /* predecessors: those of i are before[first[i]] to before[first[i + 1] - 1] */
    int *order, *number;  /* nodes in postorder of the reversed graph; each one's place there, -1: cannot end */
    int *up;              /* immediate post-dominator */
};

/* 0 to 2 successors */
static int successors(const struct graph *g, int i, int *to)
{
    int n = 0;
    if (i == g->end)
        return 0;
    const struct ptx_ins *x = &g->e->code[i];
    if (x->kind == PTX_BRANCH)
        to[n++] = x->target;
    else if (x->kind == PTX_RETURN || x->kind == PTX_TRAP)
        to[n++] = g->end;
    if (n == 0 || x->guard >= 0)
        to[n++] = i + 1;
    return n;
}

static void list_predecessors(struct graph *g)
{
    int to[2];
    for (int i = 0; i < g->nodes; i++)
        for (int k = successors(g, i, to); k-- > 0;)
            g->first[to[k] + 1]++;
    for (int i = 0; i < g->nodes; i++)
        g->first[i + 1] += g->first[i];
    for (int i = g->nodes - 1; i >= 0; i--)
        for (int k = successors(g, i, to); k-- > 0;)
            g->before[g->first[to[k]] + g->up[to[k]]++] = i; /* `up` counts here */
}

static void walk(struct graph *g)
{
    int *stack = malloc(sizeof(int) * (size_t)(g->nodes + 1)), depth = 0;
    int *next = calloc((size_t)g->nodes + 1, sizeof(int));
    if (!stack || !next)
        abort();
    memset(g->number, -1, sizeof(int) * (size_t)g->nodes);
    stack[depth++] = g->end;
    g->number[g->end] = 0;
    while (depth) {
        const int i = stack[depth - 1], k = g->first[i] + next[i]++;
        if (k >= g->first[i + 1]) {
            g->number[i] = g->found;
            g->order[g->found++] = i;
            depth--;
        } else if (g->number[g->before[k]] < 0) {
            g->number[g->before[k]] = 0;
            stack[depth++] = g->before[k];
        }
    }
    free(stack);
    free(next);
}

static int meet(const struct graph *g, int a, int b)
{
    while (a != b) {
        while (g->number[a] < g->number[b])
            a = g->up[a];
        while (g->number[b] < g->number[a])
            b = g->up[b];
    }
    return a;
}

static int up_of(const struct graph *g, int i)
{
    int to[2], up = -1;
    for (int k = successors(g, i, to); k-- > 0;)
        if (g->number[to[k]] >= 0 && g->up[to[k]] >= 0)
            up = up < 0 ? to[k] : meet(g, up, to[k]);
    return up;
}

static void iterate(struct graph *g)
{
    bool changed = true;
    memset(g->up, -1, sizeof(int) * (size_t)g->nodes);
    g->up[g->end] = g->end;
    while (changed) {
        changed = false;
        for (int n = g->found - 2; n >= 0; n--) {
            const int i = g->order[n], up = up_of(g, i);
            changed = changed || g->up[i] != up;
            g->up[i] = up;
        }
    }
}

void ptx_flow(struct ptx_entry *e)
{
    const size_t n = (size_t)e->count + 1;
    int *room = calloc(6 * n + 2, sizeof(int));
    if (!room)
        abort();
    struct graph g = {e, (int)n, e->count, 0, room, room + 2 * n, room + 3 * n + 1, room + 4 * n + 1, room + 5 * n + 1};
    list_predecessors(&g);
    walk(&g);
    iterate(&g);
    for (int i = 0; i < e->count; i++)
        e->code[i].join = g.up[i] < 0 || g.up[i] == g.end ? PTX_EXIT : g.up[i];
    free(room);
}
