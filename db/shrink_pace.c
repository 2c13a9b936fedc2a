/* SPDX-License-Identifier: Apache-2.0 */
/* shrink_pace.c - see shrink_pace.h
 *
 * Pure: no clock, no I/O.
 */
#include "db/shrink_pace.h"

bool shrink_pace_allows(struct shrink_pace *p, int64_t rows, int64_t now_ms)
{
    const bool busy = (rows - p->rows) * 1000 > SHRINK_BUSY_ROWS * (now_ms - p->looked_ms);
    p->looked_ms = now_ms;
    p->busy = busy ? p->busy + 1 : 0;
    return p->busy % SHRINK_BUSY_LOOKS == 0;
}
