/* SPDX-License-Identifier: Apache-2.0 */
/* job_rhythm.c - see job_rhythm.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/job/job_rhythm.h"

enum { TIMES = 10, LEAST_MS = 30 * 1000 };

void job_rhythm_begin(struct job_rhythm *r, int64_t at_ms)
{
    *r = (struct job_rhythm){.since_ms = at_ms, .step = -1};
}

void job_rhythm_step(struct job_rhythm *r, int64_t step, int64_t at_ms)
{
    const int32_t low = (int32_t)(step & INT32_MAX);
    const float passed = r->since_ms && at_ms > r->since_ms ? (float)(at_ms - r->since_ms) : 0;
    if (r->since_ms && r->step == low)
        return;
    r->usual_ms = r->usual_ms > 0 ? 0.9f * r->usual_ms + 0.1f * passed : passed;
    r->step = low;
    r->since_ms = at_ms;
}

int64_t job_rhythm_still_since(const struct job_rhythm *r, int64_t now_ms)
{
    const int64_t age = now_ms - r->since_ms;
    return r->since_ms && r->step >= 0 && age > LEAST_MS && (float)age > TIMES * r->usual_ms ? r->since_ms : 0;
}
