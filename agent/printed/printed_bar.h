/* SPDX-License-Identifier: Apache-2.0 */
/* printed_bar.h - progress bars: tqdm, rich, Keras, notebooks
 *
 * Pure: no clock, no I/O.
 * Input comes from text_line_screen(), which replaces block and line characters by '#'.
 */
#ifndef AGENT_PRINTED_PRINTED_BAR_H
#define AGENT_PRINTED_PRINTED_BAR_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/printed/printed_number.h"

struct printed_bar {
    const char *label, *tail;       /* the text before the bar and after its counters: "loss=0.4, lr=1e-5" */
    size_t label_size, tail_size;
    double step, steps, percent;    /* NAN = not printed */
    double eta_s;
    double rate;                    /* in `unit` */
    struct printed_unit unit;
    int    times;                   /* the number of durations in the bar */
    bool   epoch;                   /* its shape shows that it covers one epoch */
};

/* The last bar in the line; false: there is none. */
bool printed_bar_read(struct printed_bar *out, const char *line);

#endif
