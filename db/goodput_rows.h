/* SPDX-License-Identifier: Apache-2.0 */
/* goodput_rows.h - how a job's ranks spent their time: one row per generation, in buckets
 *
 * The columns are the buckets, in the order of agent/core/goodput.h. A table constraint rejects a
 * row whose buckets do not sum to its rank_ms.
 */
#ifndef DB_GOODPUT_ROWS_H
#define DB_GOODPUT_ROWS_H

#include <stdint.h>

struct err;
struct store;

enum { GOODPUT_ROWS_BUCKETS = 9 };

/* Adds time to the row of a generation. */
int goodput_rows_add(struct store *s, int64_t job, int64_t attempt, int64_t generation,
                     int64_t rank_ms,
                     const int64_t ms[GOODPUT_ROWS_BUCKETS], struct err *err);
/* The sum over the whole job. */
int goodput_rows_sum(int64_t *rank_ms, int64_t ms[GOODPUT_ROWS_BUCKETS], struct store *s,
                     int64_t job,
                     struct err *err);

#endif
