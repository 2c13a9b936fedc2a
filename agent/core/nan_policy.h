/* SPDX-License-Identifier: Apache-2.0 */
/* nan_policy.h - a loss of NaN: once more without the batch that made it, then no more
 *
 * Pure: no clock, no I/O.
 * The first time all go back to the newest checkpoint (not to the snapshot in memory, which
 * may be spoilt already) and leave out the step that failed.  Another NaN within NAN_POLICY_NEAR
 * steps of it is no accident of one batch: the run diverges, and trying on would waste time.
 */
#ifndef AGENT_CORE_NAN_POLICY_H
#define AGENT_CORE_NAN_POLICY_H

#include <stdbool.h>
#include <stdint.h>

enum { NAN_POLICY_NEAR = 100 };

struct nan_policy {
    bool    any;  /* a step is to be left out */
    int64_t step; /* this one: so many were done before it */
    bool    back; /* the next generation begins at a checkpoint, not from memory */
};

/* It failed at this step (-1: not known). False: enough. */
bool nan_policy_decide(struct nan_policy *s, int64_t step);

#endif
