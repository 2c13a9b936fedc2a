/* SPDX-License-Identifier: Apache-2.0 */
/* printed_table.h - tables: a line of column heads, then rows of numbers
 *
 * Pure: no clock, no I/O.
 * fastai, spaCy and others print "epoch  train_loss  valid_loss  time" once, and rows of numbers below.
 */
#ifndef AGENT_PRINTED_PRINTED_TABLE_H
#define AGENT_PRINTED_PRINTED_TABLE_H

#include <stdbool.h>

#include "agent/printed/printed_progress.h"

enum { PRINTED_COLUMNS = 24 };

struct printed_table {
    int count;                     /* 0: no heads seen */
    int field[PRINTED_COLUMNS];    /* enum printed_field, -1: another column */
};

/* Whether the line is the head of a table of progress; keeps the head. */
bool printed_table_heads(struct printed_table *t, const char *line);
/* Whether the line is a row of the table; returns its numbers. */
bool printed_table_row(const struct printed_table *t, const char *line, struct printed_progress *out);

#endif
