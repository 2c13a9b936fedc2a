/* SPDX-License-Identifier: Apache-2.0 */
/* step_pace.c - see step_pace.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/monitor/step_pace.h"

enum { ENOUGH = 20, MEMORY = 10 };

/* The time before the first report is that of the start. */
void step_pace_pass(struct step_pace *p, int64_t passed_ms, bool reported)
{
    p->since_ms += passed_ms;
    if (!reported)
        return;
    p->reports++;
    const int n = p->reports - 1;
    if (n > 0)
        p->mean_ms += ((double)p->since_ms - p->mean_ms) / (n < MEMORY ? n : MEMORY);
    p->since_ms = 0;
}

int64_t step_pace_usual_ms(const struct step_pace *p)
{
    return p->reports > ENOUGH ? (int64_t)p->mean_ms + 1 : 0;
}
