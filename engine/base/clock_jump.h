/* SPDX-License-Identifier: Apache-2.0 */
/* clock_jump.h - notices that the wall clock was set, or that the machine was suspended
 *
 * Pure: no clock, no I/O.
 * CLOCK_MONOTONIC and CLOCK_BOOTTIME cannot be set. The difference between the wall clock and CLOCK_BOOTTIME changes
 * only if the wall clock is set; the difference between CLOCK_BOOTTIME and CLOCK_MONOTONIC grows only while the machine
 * is suspended. NTP slewing changes all of them equally. Small steps add up until they are large enough to report.
 * Both differences are valid for one boot only.
 */
#ifndef ENGINE_BASE_CLOCK_JUMP_H
#define ENGINE_BASE_CLOCK_JUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/clock.h"

enum { CLOCK_JUMP_MS = 2000 };      /* less is not reported: leap seconds, readings at different moments */

struct clock_jump {
    int64_t ahead_ms;       /* wall clock minus CLOCK_BOOTTIME */
    int64_t asleep_ms;      /* CLOCK_BOOTTIME minus CLOCK_MONOTONIC */
};

struct clock_change {
    int64_t jump_ms;        /* below 0: set back */
    int64_t suspended_ms;
};

struct clock_jump clock_jump_of(const struct clock_reading *now);

/* True: *out is what changed since *c, which is then updated. */
bool clock_jump_look(struct clock_jump *c, const struct clock_reading *now, struct clock_change *out);

/* One sentence. */
void clock_jump_text(char *out, size_t size, const struct clock_change *change);

#endif
