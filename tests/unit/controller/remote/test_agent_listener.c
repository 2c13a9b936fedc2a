/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_listener.c - what an agent is given to connect with, and that nothing of it stays */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/run_dir.h"
#include "controller/remote/agent_listener.h"
#include "engine/base/err.h"
#include "tests/unit/agent/os/loop_fixture.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { AGENTS = 3 };

static char dir[80], run_dir[AGENTS][120], file[AGENTS][200];
static struct expected_agent *g[AGENTS];

static int up(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "listener");
    uv_loop_init(&loop);
    for (int i = 0; i < AGENTS; i++) {
        snprintf(run_dir[i], sizeof(run_dir[i]), "%s/%d", dir, i);
        snprintf(file[i], sizeof(file[i]), "%.119s/" RUN_DIR_CALL, run_dir[i]);
        assert_int_equal(mkdir(run_dir[i], 0700), 0);
        g[i] = NULL;
    }
    alarm(120); /* ends a list that does not */
    return setenv("JOBCTL_CALL_ADDRESS", "127.0.0.1", 1);
}

static int down(void **state)
{
    (void)state;
    alarm(0);
    for (int i = 0; i < AGENTS; i++)
        agent_listener_forget(g[i]);
    run_until(NULL, 0, 1);
    unsetenv("JOBCTL_CALL_ADDRESS");
    return uv_loop_close(&loop) == 0 ? scratch_dir_remove(dir) : -1;
}

static int expect_agent(int i, struct err *err)
{
    char name[40];
    snprintf(name, sizeof(name), "%d.1.0", i);
    return agent_listener_expect(&g[i], &loop, run_dir[i], name, NULL, NULL, err);
}

static bool is_open(int port)
{
    const struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)},
                                  .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is = connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0;
    close(fd);
    return is;
}

static void each_agent_has_a_key_of_its_own(void **state)
{
    (void)state;
    struct err err = {0};
    char keys[AGENTS][100], name[40];
    int port = 0;
    for (int i = 0; i < AGENTS; i++) {
        struct stat st;
        if (expect_agent(i, &err) < 0)
            fail_msg("%s", err.text);
        json_t *said = json_load_file(file[i], 0, NULL);
        assert_non_null(said);
        assert_int_equal(stat(file[i], &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        snprintf(keys[i], sizeof(keys[i]), "%s", json_string_value(json_object_get(said, "key")));
        assert_true(strlen(keys[i]) >= 32);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(keys[i], keys[k]);
        snprintf(name, sizeof(name), "%d.1.0", i);
        assert_string_equal(json_string_value(json_object_get(said, "name")), name);
        assert_string_equal(json_string_value(json_array_get(json_object_get(said, "addresses"), 0)), "127.0.0.1");
        assert_true(i == 0 || port == json_integer_value(json_object_get(said, "port"))); /* one for all */
        port = (int)json_integer_value(json_object_get(said, "port"));
        json_decref(said);
    }
    /* The port is open as long as one is expected; in whatever order they are forgotten. */
    static const int order[] = {1, 2, 0};
    for (int i = 0; i < AGENTS; i++) {
        assert_true(is_open(port));
        agent_listener_forget(g[order[i]]);
        g[order[i]] = NULL;
        for (int k = 0; k < AGENTS; k++)
            assert_int_equal(access(file[k], F_OK) == 0, g[k] != NULL);
    }
    run_until(NULL, 0, 1);
    assert_false(is_open(port));
    agent_listener_forget(NULL);
}

/* A key is only written where nobody else could have written or read; nothing is left open then. */
static void where_no_key_is_written(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(chmod(run_dir[0], 0755), 0);
    assert_int_equal(expect_agent(0, &err), -1);
    assert_true(err.code != 0);
    assert_int_equal(access(file[0], F_OK), -1);
    err = (struct err){0};
    assert_int_equal(setenv("JOBCTL_CALL_ADDRESS", "none", 1), 0);
    assert_int_equal(expect_agent(1, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_non_null(strstr(err.text, "is not an address"));
    err = (struct err){0};
    assert_int_equal(setenv("JOBCTL_CALL_ADDRESS", "no such name", 1), 0);
    assert_int_equal(expect_agent(1, &err), -1);
    assert_non_null(strstr(err.text, "JOBCTL_CALL_ADDRESS"));
    assert_int_equal(access(file[1], F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_agent_has_a_key_of_its_own, up, down),
        cmocka_unit_test_setup_teardown(where_no_key_is_written, up, down),
    };
    return cmocka_run_group_tests_name("agent_listener", tests, NULL, NULL);
}
