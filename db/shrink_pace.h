/* SPDX-License-Identifier: Apache-2.0 */
/* shrink_pace.h - when a store that is in use may be made smaller
 *
 * Pure: no clock, no I/O.
 * Moving pages to the front of the file writes as much to the disk as everything else that a busy daemon does, and a
 * busy store reuses unused pages anyway. So while more than SHRINK_BUSY_ROWS rows a second are written, as by some
 * short jobs that start, only each SHRINK_BUSY_LOOKS-th look may shrink it.
 */
#ifndef DB_SHRINK_PACE_H
#define DB_SHRINK_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum { SHRINK_BUSY_ROWS = 200, SHRINK_BUSY_LOOKS = 10 };

/* What is known of the last look; looked_ms: from when the first one counts, the rest is zero. */
struct shrink_pace {
    int64_t rows, looked_ms;    /* written in all, until then */
    int     busy;               /* looks in a row at which the store was busy */
};

/* `rows`: written in all by now (store_rows_written()). Code that writes rows for upkeep sets p->rows afterwards. */
bool shrink_pace_allows(struct shrink_pace *p, int64_t rows, int64_t now_ms);

#endif
