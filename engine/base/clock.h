/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - monotonic clock for deadlines, a wait until a deadline, and the time of day
 *
 * A separate file, so that tests can replace it by a virtual clock
 * (tests/unit/engine/contract/clock_fixture.h).
 */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdint.h>

/* Since an arbitrary moment in the past; never goes back. */
int64_t clock_ms(void);
uint64_t clock_ns(void);

static inline double clock_s(void)
{
    return 1e-9 * (double)clock_ns();
}

/* Seconds since a moment of this clock; 0 if it lies ahead, as in a record of an earlier boot. */
static inline double clock_ago_s(uint64_t then_ns)
{
    const uint64_t now = clock_ns();
    return now > then_ns ? 1e-9 * (double)(now - then_ns) : 0;
}

/* Like clock_ms(), but continues while the machine is suspended: for limits that people set in hours. */
int64_t clock_boot_ms(void);

/* Since 1970, by the system's clock, which may be set back. */
int64_t clock_unix_ns(void);

static inline int64_t clock_unix_ms(void)
{
    return clock_unix_ns() / 1000000;
}

/* All three at one moment, in ms: see clock_jump.h. */
struct clock_reading {
    int64_t wall_ms, mono_ms, boot_ms;
};
struct clock_reading clock_read(void);

/* Until the descriptor is readable or the time is up; -1: only wait for the time. */
void clock_wait(int fd, int ms);

#endif
