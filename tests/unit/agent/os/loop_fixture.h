/* SPDX-License-Identifier: Apache-2.0 */
/* loop_fixture.h - one event loop for a test, and waiting in it for a counter to be reached */
#ifndef TESTS_LOOP_FIXTURE_H
#define TESTS_LOOP_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

static uv_loop_t loop;

static inline void on_tick(uv_timer_t *t)
{
    (void)t;
}

/* Runs until *n reaches `least`, at most `ms`; false: it did not. NULL: just so long. UV_RUN_ONCE polls behind the
 * timers that are due, perhaps for ever: a tick ends that. */
static inline bool run_until(const int *n, int least, int ms)
{
    const uint64_t end = uv_hrtime() + (uint64_t)ms * 1000000;
    uv_timer_t tick;
    uv_timer_init(&loop, &tick);
    uv_timer_start(&tick, on_tick, 10, 10);
    while (!(n && *n >= least) && uv_hrtime() < end)
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    return n && *n >= least;
}

#endif
