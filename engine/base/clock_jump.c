/* SPDX-License-Identifier: Apache-2.0 */
/* clock_jump.c - see clock_jump.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/base/clock_jump.h"

#include <stdio.h>

struct clock_jump clock_jump_of(const struct clock_reading *now)
{
    return (struct clock_jump){.ahead_ms = now->wall_ms - now->boot_ms, .asleep_ms = now->boot_ms - now->mono_ms};
}

bool clock_jump_look(struct clock_jump *c, const struct clock_reading *now, struct clock_change *out)
{
    const struct clock_jump is = clock_jump_of(now);
    *out = (struct clock_change){.jump_ms = is.ahead_ms - c->ahead_ms, .suspended_ms = is.asleep_ms - c->asleep_ms};
    if (out->jump_ms > -CLOCK_JUMP_MS && out->jump_ms < CLOCK_JUMP_MS)
        out->jump_ms = 0;
    if (out->suspended_ms < CLOCK_JUMP_MS)
        out->suspended_ms = 0;
    if (out->jump_ms)
        c->ahead_ms = is.ahead_ms;
    if (out->suspended_ms)
        c->asleep_ms = is.asleep_ms;
    return out->jump_ms || out->suspended_ms;
}

/* "35 s", "2 min 5 s", "3 h 0 min", "2 d 5 h" */
static void duration(char out[48], int64_t ms)
{
    const long long s = (ms + 500) / 1000;
    if (s < 60)
        snprintf(out, 48, "%lld s", s);
    else if (s < 3600)
        snprintf(out, 48, "%lld min %lld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, 48, "%lld h %lld min", s / 3600, s % 3600 / 60);
    else
        snprintf(out, 48, "%lld d %lld h", s / 86400, s % 86400 / 3600);
}

void clock_jump_text(char *out, size_t size, const struct clock_change *change)
{
    char time[48];
    int n = 0;
    out[0] = '\0';
    if (change->suspended_ms) {
        duration(time, change->suspended_ms);
        n = snprintf(out, size, "the machine was suspended for %s; limits for hangs and silence do not count this "
                     "time, max_duration does", time);
    }
    if (change->jump_ms && n >= 0 && (size_t)n < size) {
        duration(time, change->jump_ms < 0 ? -change->jump_ms : change->jump_ms);
        snprintf(out + n, size - (size_t)n, "%sthe wall clock was set %s by %s; deadlines, back-off and max_duration "
                 "do not depend on it; times shown earlier use the old clock", n ? ". Also, " : "",
                 change->jump_ms < 0 ? "back" : "forward", time);
    }
}
