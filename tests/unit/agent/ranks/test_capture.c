/* SPDX-License-Identifier: Apache-2.0 */
/* test_capture.c - output that the disk refuses is counted, and reported on a separate line of the log */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/ranks/capture.h"

static char path[80];

static int up(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%.50s/capture.XXXXXX", tmp ? tmp : "/tmp");
    const int fd = mkstemp(path);
    signal(SIGXFSZ, SIG_IGN);
    close(fd);
    return fd < 0;
}

static int down(void **state)
{
    (void)state;
    return unlink(path);
}

/* Files take nothing beyond so many bytes. */
static void room(rlim_t bytes)
{
    struct rlimit r;
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void assert_log(const char *expected)
{
    char text[1000] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(text, expected);
}

static struct capture *open_log(void)
{
    struct capture *c;
    assert_int_equal(capture_open(&c, path, 1000, NULL), 0);
    return c;
}

static void put(struct capture *c, const char *text)
{
    capture_write(c, text, strlen(text));
}

static void lost_output_is_told(void **state)
{
    (void)state;
    struct capture *c = open_log();
    const int64_t before = capture_losses().bytes;
    put(c, "one\n");
    room(7);
    put(c, "two, which is torn\n");
    put(c, "three\n");
    assert_int_equal(capture_losses().logs, 1);
    assert_int_equal(capture_losses().bytes - before, 22);
    assert_string_equal(capture_tail(c), "one\ntwo, which is torn\nthree\n");
    room(20); /* too little for the sentence */
    put(c, "four\n");
    assert_int_equal(capture_losses().logs, 1);
    room(RLIM_INFINITY);
    put(c, "five\n");
    assert_int_equal(capture_losses().logs, 0);
    put(c, "six\n");
    assert_log("one\ntwo\n--- 22 bytes\n--- 27 bytes of output lost: disk full ---\nfive\nsix\n");
    assert_int_equal(capture_losses().bytes - before, 27);
    capture_close(c);
}

static void a_closed_log_lacks_nothing(void **state)
{
    (void)state;
    struct capture *c = open_log();
    room(2);
    put(c, "one\n");
    assert_int_equal(capture_losses().logs, 1);
    capture_close(c);
    room(RLIM_INFINITY);
    assert_int_equal(capture_losses().logs, 0);
    assert_log("on");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lost_output_is_told),
        TEST(a_closed_log_lacks_nothing),
    };
    return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
