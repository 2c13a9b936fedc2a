/* SPDX-License-Identifier: Apache-2.0 */
/* goodput_rows.h - how a job's ranks spent their time: one row per generation, in buckets
 *
 * The columns are the buckets of agent/core/goodput.h. A table constraint rejects a row whose
 * buckets do not sum to its rank_ms.
 */
#ifndef DB_GOODPUT_ROWS_H
#define DB_GOODPUT_ROWS_H

#include <stdint.h>

struct err;
struct goodput;
struct store;

/* Adds time to the row of a generation. */
int goodput_rows_add(struct store *s, int64_t job, int64_t attempt, int64_t generation,
                     const struct goodput *spent, struct err *err);
/* Deletes those of a job. */
int goodput_rows_forget(struct store *s, int64_t job, struct err *err);
/* The sum over the whole job. */
int goodput_rows_sum(struct goodput *spent, struct store *s, int64_t job, struct err *err);

#endif
