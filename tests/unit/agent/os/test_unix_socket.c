/* SPDX-License-Identifier: Apache-2.0 */
/* test_unix_socket.c - long paths, stale files, modes, foreign files in the way; also buf and log */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/buf.h"
#include "agent/os/log.h"
#include "agent/os/unix_socket.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

/* A directory of its own, 200 bytes deep, and the socket's path in it. */
struct place {
    char top[64], dir[300], path[320];
};

static int make_place(void **state)
{
    static struct place p;
    scratch_dir_create(p.top, sizeof(p.top), "sock");
    snprintf(p.dir, sizeof(p.dir), "%s/%0200d", p.top, 1);
    assert_int_equal(mkdir(p.dir, 0700), 0);
    snprintf(p.path, sizeof(p.path), "%s/agent.sock", p.dir);
    *state = &p;
    return 0;
}

static int drop_place(void **state)
{
    struct place *p = *state;
    unlink(p->path);
    rmdir(p->dir);
    return rmdir(p->top);
}

static void long_paths_work(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    assert_int_equal(unix_socket_connect(p->path, false, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);

    err = (struct err){0};
    int fd = unix_socket_listen(p->path, &err);
    if (fd < 0)
        fail_msg("%s", err.text);
    struct stat st;
    assert_int_equal(stat(p->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);

    int c = unix_socket_connect(p->path, true, &err);
    assert_true(c >= 0);
    int s = accept(fd, NULL, NULL);
    assert_true(s >= 0);
    assert_int_equal(unix_socket_check_peer(s, &err), 0);
    assert_int_equal(write(c, "x", 1), 1);
    char got;
    assert_int_equal(read(s, &got, 1), 1);
    close(s);
    close(c);
    close(fd);
}

static void a_stale_file_is_replaced_a_live_one_not(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    int fd = unix_socket_listen(p->path, &err);
    assert_true(fd >= 0);
    assert_int_equal(unix_socket_listen(p->path, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    close(fd);
    err = (struct err){0};
    fd = unix_socket_listen(p->path, &err);
    assert_true(fd >= 0);
    close(fd);
    unlink(p->path);
    fclose(fopen(p->path, "w"));
    assert_int_equal(unix_socket_listen(p->path, &err), -1);
    assert_non_null(strstr(err.text, "is not a socket"));
}

/* Directories keep others out; should one get in, the kernel says who it is. */
static void another_user_is_refused(void **state)
{
    int pair[2];
    struct err err = {0};
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(seteuid(65534), 0);
    int rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(rc, 0);
    assert_int_equal(unix_socket_check_peer(pair[0], &err), -1);
    assert_string_equal(err.text, "user 65534 may not connect to a process of user 0");
    close(pair[0]);
    close(pair[1]);
}

static void buf_grows_and_shrinks(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(buf_print(&b, "%d,", i), 0);
    assert_int_equal(b.size, 10 * 2 + 90 * 3 + 900 * 4);
    buf_consume(&b, 20);
    assert_memory_equal(b.data, "10,11,", 6);
    assert_int_equal(buf_append(&b, b.data, SIZE_MAX / 2), -1);
    buf_consume(&b, SIZE_MAX);
    assert_int_equal(b.size, 0);
    char *text = buf_take(&b);
    assert_string_equal(text, "");
    free(text);
    buf_fini(&b);
}

static void a_log_line_stays_one_line(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    log_open(fds[1], "agent", LOG_LEVEL_INFO);
    log_debug("7.1", "not shown");
    log_warn("7.1", "two\nlines %d", 5);
    char line[200] = "";
    ssize_t n = read(fds[0], line, sizeof(line) - 1);
    assert_true(n > 0);
    assert_string_equal(line + 24, " warn  agent 7.1 two\\x0alines 5\n");
    log_open(-1, "", LOG_LEVEL_INFO);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_paths_work, make_place, drop_place),
        cmocka_unit_test_setup_teardown(a_stale_file_is_replaced_a_live_one_not, make_place, drop_place),
        cmocka_unit_test(another_user_is_refused),
        cmocka_unit_test(buf_grows_and_shrinks),
        cmocka_unit_test(a_log_line_stays_one_line),
    };
    return cmocka_run_group_tests_name("unix_socket", tests, NULL, NULL);
}
