/* SPDX-License-Identifier: Apache-2.0 */
/* printed_bar.h - progress bars: tqdm, rich, Keras, notebooks
 *
 * Pure: no clock, no I/O.
 * text_line_screen() has made '#' of blocks and lines of all shapes.
 */
#ifndef AGENT_PRINTED_PRINTED_BAR_H
#define AGENT_PRINTED_PRINTED_BAR_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/printed/printed_number.h"

struct printed_bar {
    const char *label, *tail;       /* the text before the bar and behind its counters: "loss=0.4, lr=1e-5" */
    size_t label_size, tail_size;
    double step, steps, percent;    /* NAN = not told */
    double eta_s;
    double rate;                    /* in `unit` */
    struct printed_unit unit;
    int    times;                   /* how many durations it has */
    bool   epoch;                   /* a bar of one epoch by its shape */
};

/* The last bar of the line; false: it has none. */
bool printed_bar_read(struct printed_bar *out, const char *line);

#endif
