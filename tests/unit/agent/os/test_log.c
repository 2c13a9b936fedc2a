/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - lines that the disk refuses are counted, and reported once it accepts lines again */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/os/log.h"

static void room(rlim_t bytes)
{
    struct rlimit r;
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void lost_lines_are_told(void **state)
{
    (void)state;
    char text[1000] = "";
    FILE *f = tmpfile();
    assert_non_null(f);
    signal(SIGXFSZ, SIG_IGN);
    log_open(fileno(f), "test", LOG_LEVEL_INFO);
    room(30);
    log_info(NULL, "one");
    log_info(NULL, "two");
    room(RLIM_INFINITY);
    log_info(NULL, "three");
    log_info(NULL, "four");
    log_open(-1, "", LOG_LEVEL_INFO);
    text[pread(fileno(f), text, sizeof(text) - 1, 0)] = '\0';
    fclose(f);
    assert_int_equal(text[30], '\n'); /* the torn line */
    static const char lost[] = "--- 2 lines lost: disk full ---\n";
    assert_memory_equal(text + 31, lost, strlen(lost));
    const char *three = strstr(text, "three\n"), *four = strstr(text, "four\n");
    assert_true(three && four && three < four && !strstr(text, "two"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_lines_are_told),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
