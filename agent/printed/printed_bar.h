/* SPDX-License-Identifier: Apache-2.0 */
/* printed_bar.h - progress bars: tqdm, rich, Keras, notebooks
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_PRINTED_PRINTED_BAR_H
#define AGENT_PRINTED_PRINTED_BAR_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/printed/printed_unit.h"

struct printed_bar {
    size_t label;                   /* length of the text before the bar, which begins at `begin` */
    size_t begin;
    size_t tail, tail_size;         /* the text behind its counters: "loss=0.4, lr=1e-5" */
    double step, steps, percent;    /* NAN = not told */
    double eta_s;
    double rate;                    /* in `unit` */
    struct printed_unit unit;
    bool   epoch;                   /* a bar of one epoch by its shape */
};

/* The last bar of the line; false: it has none. */
bool printed_bar_read(struct printed_bar *out, const char *line);

#endif
