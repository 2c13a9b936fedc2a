/* SPDX-License-Identifier: Apache-2.0 */
/* nan_policy.c - see nan_policy.h */
#include "agent/core/nan_policy.h"

bool nan_policy_decide(struct nan_policy *s, int64_t step)
{
    if (step < 0)
        return true; /* the step is unknown, so none can be skipped: the restart policy decides */
    if (s->any && step <= s->step + NAN_POLICY_NEAR)
        return false;
    *s = (struct nan_policy){.any = true, .step = step, .back = true};
    return true;
}
