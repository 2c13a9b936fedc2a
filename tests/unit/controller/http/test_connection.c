/* SPDX-License-Identifier: Apache-2.0 */
/* test_connection.c - which connections are closed, and when: late, gone, or the oldest idle one of too many */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "controller/http/connection.h"
#include "tests/unit/engine/contract/clock_fixture.h"

enum { MANY = 4 };

static struct connections all;
static struct connection *c[MANY];
static int client[MANY], server[MANY];

static int up(void **state)
{
    (void)state;
    now = 1000 * SECOND;
    all = (struct connections){ 0 };
    for (int i = 0; i < MANY; i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        client[i] = ends[0];
        server[i] = ends[1];
        c[i] = connection_open(&all, ends[1]);
        assert_non_null(c[i]);
        now++; /* so that one is older than the next */
    }
    assert_int_equal(all.count, MANY);
    return 0;
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++) {
        connection_close(&all, c[i]);
        connection_close(&all, c[i]); /* again: no effect */
        close(client[i]);
        close(server[i]);
    }
    return all.count != 0 || all.first;
}

/* Was it closed? Its client reads the end. */
static int ended(int i)
{
    char byte;
    return recv(client[i], &byte, 1, MSG_DONTWAIT) == 0;
}

static void each_phase_has_its_limit(void **state)
{
    (void)state;
    connection_enter(c[1], CONNECTION_BUSY);
    connection_enter(c[2], CONNECTION_KEPT);
    const int64_t begin = now;
    now = begin + REQUEST_S * SECOND - 10;
    connection_enter(c[3], CONNECTION_ASKING); /* another part has arrived */
    assert_false(connection_sweep(&all, 100));
    now = begin + REQUEST_S * SECOND + 1000;
    assert_true(connection_sweep(&all, 100));
    assert_true(ended(0) && !ended(1) && !ended(2) && !ended(3));
    now = begin + 2 * REQUEST_S * SECOND;
    connection_sweep(&all, 100);
    assert_true(ended(3) && !ended(1) && !ended(2));
    now = begin + IDLE_S * SECOND - 1;
    connection_sweep(&all, 100);
    assert_false(ended(2));
    now = begin + IDLE_S * SECOND + 1000;
    connection_sweep(&all, 100);
    assert_true(ended(2));
    now += 100 * HOUR;
    connection_sweep(&all, 100);
    assert_false(ended(1)); /* its answer has no limit here */
}

/* A client that is gone at two looks a second apart; what it still said is read first. */
static void a_client_that_is_gone(void **state)
{
    (void)state;
    assert_false(connection_sweep(&all, 100));
    shutdown(client[0], SHUT_WR);
    assert_int_equal(send(client[1], "GET", 3, 0), 3);
    shutdown(client[1], SHUT_WR);
    connection_enter(c[2], CONNECTION_BUSY);
    shutdown(client[2], SHUT_WR);
    shutdown(client[3], SHUT_WR);
    now += SECOND;
    assert_false(connection_sweep(&all, 100));
    connection_enter(c[3], CONNECTION_KEPT); /* its request was answered meanwhile */
    now += 999;
    assert_false(connection_sweep(&all, 100)); /* too early for another look */
    assert_false(ended(0));
    now++;
    assert_true(connection_sweep(&all, 100));
    assert_true(ended(0) && !ended(1) && !ended(2) && !ended(3));
    now += SECOND;
    assert_true(connection_sweep(&all, 100));
    assert_true(ended(3) && !ended(1) && !ended(2));
}

/* If all are taken, the one that has been idle for longest gives way, at once. */
static void room_for_another(void **state)
{
    (void)state;
    assert_false(connection_sweep(&all, MANY + 1));
    connection_enter(c[0], CONNECTION_BUSY);
    now += 5;
    connection_enter(c[1], CONNECTION_KEPT); /* later than 2 and 3 */
    assert_true(connection_sweep(&all, MANY));
    assert_true(ended(2) && !ended(0) && !ended(1) && !ended(3));
    connection_close(&all, c[2]);
    assert_int_equal(all.count, MANY - 1);
    assert_false(connection_sweep(&all, MANY));
    for (int i = 1; i < MANY; i++)
        if (i != 2)
            connection_enter(c[i], CONNECTION_BUSY);
    assert_false(connection_sweep(&all, 1)); /* all are being answered */
    assert_false(ended(0) || ended(1) || ended(3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_phase_has_its_limit, up, down),
        cmocka_unit_test_setup_teardown(a_client_that_is_gone, up, down),
        cmocka_unit_test_setup_teardown(room_for_another, up, down),
    };
    return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
