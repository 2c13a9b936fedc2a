/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - how the time of a job was spent: a row per generation that is over */
#ifndef DB_LEDGER_H
#define DB_LEDGER_H

#include <stdint.h>

struct err;
struct store;

/* `kept_ms` of `wall_ms` led to steps that were not trained again. The same
 * generation again replaces its row. */
int ledger_put(struct store *s, int64_t job, int64_t attempt, int64_t generation,
               int64_t wall_ms, int64_t kept_ms, struct err *err);
int ledger_sum(int64_t *wall_ms, int64_t *kept_ms, struct store *s, int64_t job,
               struct err *err);

#endif
