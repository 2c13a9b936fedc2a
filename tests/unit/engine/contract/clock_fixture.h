/* SPDX-License-Identifier: Apache-2.0 */
/* clock_fixture.h - virtual clock in place of engine/base/clock.c: waits advance the time */
#ifndef TESTS_CLOCK_FIXTURE_H
#define TESTS_CLOCK_FIXTURE_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/clock.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };

static int64_t now; /* ms */

/* NULL, or the simulated world: runs its first event up to `until`, and returns the
 * event's time. */
static int64_t (*happen)(int64_t until);

int64_t clock_ms(void)
{
    return now;
}

uint64_t clock_ns(void)
{
    return (uint64_t)now * 1000000u;
}

int64_t clock_unix_ns(void)
{
    return now * 1000000;
}

void clock_wait(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 0) == 0)
        now = happen ? happen(now + ms) : now + ms;
}

#endif
