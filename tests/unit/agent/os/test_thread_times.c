/* SPDX-License-Identifier: Apache-2.0 */
/* test_thread_times.c - the counters of a thread, from kernels that show all of them or fewer */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/thread_times.h"

static const char schedstat[] = "17451234 982611 992\n",
                  status[] = "Name:\tpt_main\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t9\n"
                             "voluntary_ctxt_switches:\t985\nnonvoluntary_ctxt_switches:\t7\n",
                  stat[] = "14 (a) D (b) D 1 9 9 0 -1 4194368 5 0 0 0 2 3 0 0 20 0 8 0 630214621 0 0\n";

static struct thread_times t;

static void nanoseconds_are_read(void **state)
{
    (void)state;
    assert_true(thread_times_parse(&t, schedstat, status, stat, 100));
    assert_true(t.cpu_ns == 17451234 && t.waits == 985 && t.state == 'S' && !t.ticks);
}

/* A kernel without CONFIG_SCHED_INFO has no such file; one with it switched off shows zeros. */
static void ticks_take_their_place(void **state)
{
    (void)state;
    static const char *const none[] = {"", "0 0 0\n"};
    for (int i = 0; i < 2; i++) {
        assert_true(thread_times_parse(&t, none[i], status, stat, 100));
        assert_true(t.cpu_ns == 50000000 && t.waits == 985 && t.state == 'D' && t.ticks);
    }
}

static void switches_may_be_unknown(void **state)
{
    (void)state;
    assert_true(thread_times_parse(&t, "", "Name:\tx\nState:\tR (running)\n", stat, 100)); /* gVisor */
    assert_true(t.cpu_ns == 50000000 && t.waits == -1 && t.ticks);
}

static void a_thread_that_has_ended_shows_nothing(void **state)
{
    (void)state;
    assert_false(thread_times_parse(&t, "", "", "", 100));
    assert_false(thread_times_read(&t, getpid(), 0x7fffffff));
}

/* The kernel adds up a running thread's time when it looks at it, which may be late: the reading is waited for. */
static void this_thread_is_read(void **state)
{
    uint64_t read_ns = 0;
    (void)state;
    while (read_ns < 40000000) {
        double used_s = (double)clock() / CLOCKS_PER_SEC;
        assert_true(thread_times_read(&t, getpid(), syscall(SYS_gettid)));
        read_ns = t.cpu_ns;
        assert_true(used_s < 20);
    }
    assert_true(read_ns < 1e9 * ((double)clock() / CLOCKS_PER_SEC + 0.1));
    assert_int_equal(t.state, 'R');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nanoseconds_are_read),
        cmocka_unit_test(ticks_take_their_place),
        cmocka_unit_test(switches_may_be_unknown),
        cmocka_unit_test(a_thread_that_has_ended_shows_nothing),
        cmocka_unit_test(this_thread_is_read),
    };
    return cmocka_run_group_tests_name("thread_times", tests, NULL, NULL);
}
