/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - parts of a step written down once, then asked of the device at once
 *
 * A step is some hundred calls of kernels, the same for every batch of a shape:
 * where the host is slower at asking than the device at computing, this is what
 * helps.  A part runs call by call the first time that its key is seen (memory
 * grows, algorithms are chosen), is written down the second time, and from then
 * on is one call.  Where that cannot be, all runs call by call, with the same
 * results.
 */
#ifndef ENGINE_MODEL_GRAPH_H
#define ENGINE_MODEL_GRAPH_H

#include <stdbool.h>

struct err;
struct kern_graphs;

/* All that the calls of a part depend on and that may change from one time to the next. */
struct graph_key {
    int    part;
    int    batch, height, width, text;
    int    rows; /* of captions */
    double weight;
};

/* The calls. They may be made twice in a row in place of once, before anything has run. */
typedef int (*graph_fn)(void *arg, struct err *err);

struct graphs;

/* NULL: the device has no such thing, or there is no memory; graphs_run() takes it. */
struct graphs *graphs_create(const struct kern_graphs *table);
void graphs_destroy(struct graphs *g);

/* -1: what `fn` returned. */
int graphs_run(struct graphs *g, const struct graph_key *key, graph_fn fn, void *arg,
               struct err *err);

#endif
