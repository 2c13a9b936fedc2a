/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - see clock.h */
#include "engine/contract/clock.h"

#include <poll.h>
#include <time.h>

int64_t clock_ms(void)
{
    return (int64_t)(clock_ns() / 1000000);
}

uint64_t clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void clock_wait(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    poll(&p, 1, ms);
}
