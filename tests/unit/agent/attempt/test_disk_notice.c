/* SPDX-License-Identifier: Apache-2.0 */
/* test_disk_notice.c - a full disk is reported once; so is the end of that state */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/attempt/disk_notice.h"

struct row {
    struct disk_state now;
    const char *says; /* NULL: nothing */
};

static void walk(const struct row *rows, size_t count)
{
    struct disk_notice d = {.full = false};
    for (size_t i = 0; i < count; i++) {
        char text[200] = "";
        const bool told = disk_notice_look(&d, &rows[i].now, "/run", text, sizeof(text));
        assert_int_equal(told, rows[i].says != NULL);
        if (rows[i].says)
            assert_non_null(strstr(text, rows[i].says));
    }
}

static void told_once(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {{0, 0, 0, 1000}, NULL},
        {{1, 0, 0, 2000}, "the disk of /run is full"},
        {{9, 2, 70, 3000}, NULL},
        {{0, 1, 80, 4000}, NULL}, /* a log still lacks output */
        {{0, 0, 80, 5000}, "has space again, after 3 s; 80 bytes of output were lost"},
        {{0, 0, 80, 6000}, NULL},
        {{0, 1, 85, 7000}, "is full"},
        {{0, 0, 85, 8000}, "after 1 s; 5 bytes"},
        {{2, 0, 85, 9000}, "is full"},
        {{0, 0, 85, 9500}, "has space again, after 0 s"},
    };
    walk(rows, sizeof(rows) / sizeof(rows[0]));
}

/* The rank lost output and has ended before anybody looked. */
static void short_lack(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {{0, 0, 7, 1000}, "is full"},
        {{0, 0, 7, 1000}, "7 bytes of output were lost"},
        {{0, 0, 7, 2000}, NULL},
    };
    walk(rows, sizeof(rows) / sizeof(rows[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_once),
        cmocka_unit_test(short_lack),
    };
    return cmocka_run_group_tests_name("disk_notice", tests, NULL, NULL);
}
