/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - see clock.h */
#include "engine/base/clock.h"

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

/* Read again if this process did not run in between. */
struct clock_reading clock_read(void)
{
    enum { TRIES = 5, MOMENT_MS = 5 };
    struct clock_reading r;
    for (int i = 0; i < TRIES; i++) {
        r = (struct clock_reading){.mono_ms = clock_ms()};
        r.boot_ms = clock_boot_ms();
        r.wall_ms = clock_unix_ms();
        if (clock_ms() - r.mono_ms <= MOMENT_MS)
            break;
    }
    return r;
}

void clock_wait(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    poll(&p, 1, ms);
}
