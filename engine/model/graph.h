/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - CUDA graphs of parts of a step, one per batch shape: recorded once, replayed per batch
 *
 * A step makes some hundred kernel calls, the same for every batch of a shape; replay helps if the host launches
 * kernels more slowly than the device runs them.  A part runs call by call the first time that its key is seen (memory
 * is allocated, algorithms are chosen), is recorded the second time, and from then on is one call.  Without support for
 * graphs, all parts run call by call, with the same results.
 */
#ifndef ENGINE_MODEL_GRAPH_H
#define ENGINE_MODEL_GRAPH_H

#include <stdbool.h>

struct err;
struct kern_graphs;

/* Everything that the calls of a part depend on and that may differ between batches. */
struct graph_key {
    int    part;
    int    batch, height, width, text;
    int    rows; /* of captions */
    double weight;
};

/* Makes the kernel calls. May be called twice for one run, before the first part has run. */
typedef int (*graph_fn)(void *arg, struct err *err);

struct graphs;

/* NULL: the device has no graphs, or no memory; graphs_run() accepts NULL. */
struct graphs *graphs_create(const struct kern_graphs *table);
void graphs_destroy(struct graphs *g);

/* -1: `fn` returned an error. */
int graphs_run(struct graphs *g, const struct graph_key *key, graph_fn fn, void *arg, struct err *err);

#endif
