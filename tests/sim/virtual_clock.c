/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_clock.c - engine/base/clock.h on the clock of virtual_process.h */
#include "engine/base/clock.h"

#include <poll.h>

#include "tests/sim/virtual_process.h"

enum { MS = 1000000 };

int64_t clock_ms(void)
{
    return sim_now() / MS;
}

uint64_t clock_ns(void)
{
    return (uint64_t)sim_now();
}

int64_t clock_boot_ms(void)
{
    return sim_boot_ns() / MS;
}

int64_t clock_unix_ns(void)
{
    return sim_wall_ns();
}

struct clock_reading clock_read(void)
{
    return (struct clock_reading){ .wall_ms = sim_wall_ns() / MS, .mono_ms = clock_ms(), .boot_ms = clock_boot_ms() };
}

static bool readable(void *arg)
{
    return poll(arg, 1, 0) > 0;
}

void clock_wait(int fd, int ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    sim_wait(fd >= 0 ? readable : NULL, &p, ms < 0 ? INT64_MAX : sim_now() + (int64_t)ms * MS);
}
