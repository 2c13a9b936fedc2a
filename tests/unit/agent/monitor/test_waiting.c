/* SPDX-License-Identifier: Apache-2.0 */
/* test_waiting.c - CPU time of threads that only wait, and sockets between the ranks of a job */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/monitor/waiting.h"
#include "agent/os/tcp_sockets.h"

static const uint64_t MS = 1000000;

static void waking_up_is_no_work(void **state)
{
    (void)state;
    assert_int_equal(waiting_work_us(17 * MS, 986, 10000), 0);
    assert_int_equal(waiting_work_us(44 * MS, 99, 10000), 0); /* torchrun's agent */
    assert_int_equal(waiting_work_us(30 * MS, 10, 10000), 24000);
    assert_int_equal(waiting_work_us(2790 * MS, 0, 10000), 2790000);
}

static void waiting_costs_two_percent_at_most(void **state)
{
    (void)state;
    assert_int_equal(waiting_work_us(732 * MS, 5000, 10000), 532000);
    assert_int_equal(waiting_work_us(732 * MS, -1, 10000), 532000); /* not known */
    assert_int_equal(waiting_work_us(30 * MS, -1, 1000), 10000);
    assert_int_equal(waiting_work_us(5 * MS, -1, 1000), 0);
}

static const uint8_t nowhere[16], far_first[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1};

static struct tcp_socket connected(const char *local, uint16_t port, const char *peer, uint16_t to)
{
    struct tcp_socket s = {.local.port = port, .peer.port = to};
    tcp_sockets_address(s.local.address, local);
    tcp_sockets_address(s.peer.address, peer);
    return s;
}

static void only_sockets_to_others_show_work(void **state)
{
    (void)state;
    const struct tcp_socket own[] = {
        connected("127.0.0.1", 4000, "127.0.0.1", 5000), /* two ranks */
        connected("::ffff:127.0.0.1", 5000, "127.0.0.1", 4000),
        {.listens = true, .local.port = 29500},                 /* a store, */
        connected("10.0.0.1", 29500, "10.0.0.2", 41000),        /* its client on another machine */
        connected("10.0.0.2", 41002, "10.0.0.1", 29500),        /* and the other way round */
        connected("10.0.0.2", 41003, "151.101.0.223", 443),     /* a download */
        connected("127.0.0.1", 41004, "127.0.0.1", 3128),       /* by a proxy on this machine */
        connected("2001:db8::2", 41005, "2001:db8::1", 443),
    };
    static const bool outside[] = {false, false, false, false, true, true, true, true};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        assert_int_equal(waiting_for_others(&own[i], own, sizeof(own) / sizeof(own[0]), nowhere), outside[i]);
    assert_false(waiting_for_others(&own[4], own, sizeof(own) / sizeof(own[0]), far_first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waking_up_is_no_work),
        cmocka_unit_test(waiting_costs_two_percent_at_most),
        cmocka_unit_test(only_sockets_to_others_show_work),
    };
    return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}
