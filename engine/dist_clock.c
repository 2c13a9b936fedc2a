/* SPDX-License-Identifier: Apache-2.0 */
/* dist_clock.c - the clock of deadlines, by itself: a test brings another one (test_dist_clock.c) */
#include <time.h>

#include "engine/dist_parts.h"

int64_t dist_clock_ms(void)
{
    return (int64_t)(dist_clock_ns() / 1000000);
}

uint64_t dist_clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
