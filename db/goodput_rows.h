/* SPDX-License-Identifier: Apache-2.0 */
/* goodput_rows.h - how the time of a job's ranks was spent: a row per generation, in buckets that
 * add up
 *
 * The names of the buckets are columns, in the order of agent/core/goodput.h. A row whose buckets
 * do not sum to its rank_ms is refused by the table itself.
 */
#ifndef DB_GOODPUT_ROWS_H
#define DB_GOODPUT_ROWS_H

#include <stdint.h>

struct err;
struct store;

enum { GOODPUT_ROWS_BUCKETS = 9 };

/* More of a generation: added to its row. */
int goodput_rows_add(struct store *s, int64_t job, int64_t attempt, int64_t generation,
                     int64_t rank_ms,
                     const int64_t ms[GOODPUT_ROWS_BUCKETS], struct err *err);
/* Of the whole job. */
int goodput_rows_sum(int64_t *rank_ms, int64_t ms[GOODPUT_ROWS_BUCKETS], struct store *s,
                     int64_t job,
                     struct err *err);

#endif
