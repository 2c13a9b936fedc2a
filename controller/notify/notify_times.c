/* SPDX-License-Identifier: Apache-2.0 */
/* notify_times.c - see notify_times.h */
#include "controller/notify/notify_times.h"

#include <stdlib.h>

struct notice_times notify_times(void)
{
    const char *faster = getenv("JOBCTL_TEST_NOTIFY_FASTER");
    const int64_t by = faster ? strtoll(faster, NULL, 10) : 1;
    const struct notice_times t = NOTICE_TIMES;
    if (by <= 1)
        return t;
    return (struct notice_times){ t.settle_ms / by, t.quiet_ms / by, t.backoff_ms / by, t.refill_ms / by };
}
