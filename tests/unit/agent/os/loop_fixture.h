/* SPDX-License-Identifier: Apache-2.0 */
/* loop_fixture.h - one event loop for a test, and waiting in it for a counter to be reached */
#ifndef TESTS_LOOP_FIXTURE_H
#define TESTS_LOOP_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

static uv_loop_t loop;

static inline void on_alarm(uv_timer_t *t)
{
    *(bool *)t->data = true;
}

/* Runs until *n reaches `least`, at most `ms`; false: it did not. NULL: just so long. The alarm repeats: libuv runs
 * timers that are due before it polls, and with none left UV_RUN_ONCE polls for ever. */
static inline bool run_until(const int *n, int least, int ms)
{
    bool over = false;
    uv_timer_t alarm;
    uv_timer_init(&loop, &alarm);
    alarm.data = &over;
    uv_timer_start(&alarm, on_alarm, (uint64_t)ms, ms > 0 ? (uint64_t)ms : 1);
    while (!over && !(n && *n >= least))
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&alarm, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    return !over;
}

#endif
