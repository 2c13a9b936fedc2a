/* SPDX-License-Identifier: Apache-2.0 */
/* shrink_pace.h - when a store in use may be shrunk
 *
 * Pure: no clock, no I/O.
 * Moving pages to the front of the file writes as much to the disk as everything else that a busy daemon does, and a
 * busy store reuses unused pages anyway. So while more than SHRINK_BUSY_ROWS rows are written per second (a few short
 * jobs starting), only every SHRINK_BUSY_LOOKS-th check may shrink it.
 */
#ifndef DB_SHRINK_PACE_H
#define DB_SHRINK_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum { SHRINK_BUSY_ROWS = 200, SHRINK_BUSY_LOOKS = 10 };

/* The state at the last check. Start: looked_ms is the time from which the first check counts, the rest is zero. */
struct shrink_pace {
    int64_t rows, looked_ms;    /* rows written in total, until then */
    int     busy;               /* consecutive checks at which the store was busy */
};

/* `rows`: the total written so far (store_rows_written()). Code that writes rows for upkeep sets p->rows afterwards. */
bool shrink_pace_allows(struct shrink_pace *p, int64_t rows, int64_t now_ms);

#endif
