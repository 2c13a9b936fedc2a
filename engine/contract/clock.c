/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - see clock.h */
#include "engine/contract/clock.h"

#include <poll.h>
#include <time.h>

int64_t clock_ms(void)
{
    return (int64_t)(clock_ns() / 1000000);
}

static int64_t read_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

uint64_t clock_ns(void)
{
    return (uint64_t)read_ns(CLOCK_MONOTONIC);
}

int64_t clock_boot_ms(void)
{
    return read_ns(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_unix_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}

void clock_wait(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    poll(&p, 1, ms);
}
