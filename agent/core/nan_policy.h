/* SPDX-License-Identifier: Apache-2.0 */
/* nan_policy.h - after a NaN loss: retry once without the offending batch, then give up
 *
 * Pure: no clock, no I/O.
 * After the first NaN all ranks return to the newest checkpoint (not to the snapshot in memory,
 * which may already be corrupt) and skip the step that failed. Another NaN within NAN_POLICY_NEAR steps of it is not
 * caused by a single batch: the run diverges, and retries would waste time.
 */
#ifndef AGENT_CORE_NAN_POLICY_H
#define AGENT_CORE_NAN_POLICY_H

#include <stdbool.h>
#include <stdint.h>

enum { NAN_POLICY_NEAR = 100 };

struct nan_policy {
    bool any;     /* a step is to be skipped */
    int64_t step; /* that step, as the number of steps done before it */
    bool back;    /* the next generation resumes from a checkpoint, not from memory */
};

/* Records a NaN at this step (-1: not known). False: give up. */
bool nan_policy_decide(struct nan_policy *s, int64_t step);

#endif
