/* SPDX-License-Identifier: Apache-2.0 */
/* printed_progress.h - step, loss, speed and so on, as training programs print them
 *
 * Pure: no clock, no I/O.
 * Bars (tqdm, rich, Keras), records ("step 10/100 | loss 2.1", {'loss': 2.1, 'epoch': 0.3}, JSON), tables of one
 * number a row, and banners with the total. Evaluations, downloads, loading, checkpoints and settings are ignored.
 * Numbers are reported as printed: a step that counts from 0 is not corrected.
 */
#ifndef AGENT_PRINTED_PRINTED_PROGRESS_H
#define AGENT_PRINTED_PRINTED_PROGRESS_H

#include <stdbool.h>

#include "agent/printed/printed_number.h"
#include "agent/printed/text_line.h"

enum printed_field {
    PRINTED_STEP,       /* done */
    PRINTED_STEPS,      /* total */
    PRINTED_EPOCH,
    PRINTED_EPOCHS,
    PRINTED_PERCENT,    /* only if there is no step with a total */
    PRINTED_LOSS,       /* NAN if "nan" was printed */
    PRINTED_LR,
    PRINTED_PER_S,      /* `rate_counts` per second */
    PRINTED_S_PER_STEP, /* seconds per one of `rate_counts` */
    PRINTED_ETA_S,
    PRINTED_FIELDS
};

struct printed_progress {
    unsigned told; /* bits 1 << field */
    double   value[PRINTED_FIELDS];
    enum printed_count counts, rate_counts;
    bool of_epoch; /* the counters restart with each epoch */
    int  rank;     /* from a prefix "[rank1]:"; -1 = none */
};

enum { PRINTED_COLUMNS = 24 };

/* Column heads of a table: fastai, spaCy and others print "epoch train_loss valid_loss time" once, and rows of numbers
 * below it. */
struct printed_table {
    int count;                     /* 0: no heads seen yet */
    int field[PRINTED_COLUMNS];    /* enum printed_field, -1: another column */
};

/* Reads one line, without its newline, and overwrites it. Frames of a bar are separated by '\r'; a later one
 * replaces an earlier one. told == 0: no progress. */
void printed_progress_line(struct printed_progress *out, char *line, struct printed_table *table);
/* Adds what a later piece of output reported. */
void printed_progress_merge(struct printed_progress *out, const struct printed_progress *later);

/* The fields that one line reports, as `told`; and whether the line is a training step: it has a step and a loss. */
unsigned printed_progress_told(struct text_line line);
bool printed_progress_is_step(struct text_line line);

static inline bool printed_progress_has(const struct printed_progress *p, enum printed_field f)
{
    return p->told & 1u << f;
}

static inline const char *printed_field_name(enum printed_field f)
{
    static const char *const names[PRINTED_FIELDS] = {"step", "steps", "epoch", "epochs",     "percent",
                                                      "loss", "lr",    "per_s", "s_per_step", "eta_s"};
    return names[f];
}

#endif
