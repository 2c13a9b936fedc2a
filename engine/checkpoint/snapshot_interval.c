/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_interval.c - see snapshot_interval.h */
#include "engine/checkpoint/snapshot_interval.h"

#include <math.h>

int snapshot_interval(const struct snapshot_pace *p)
{
    if (!(p->bytes > 0) || !(p->rate > 0) || !(p->step_s > 0))
        return 1;
    const double steps = ceil(p->bytes / p->rate / (SNAPSHOT_COST * p->step_s));
    return steps < 1 ? 1 : steps > SNAPSHOT_INTERVAL_MOST ? SNAPSHOT_INTERVAL_MOST : (int)steps;
}
