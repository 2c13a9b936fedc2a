/* SPDX-License-Identifier: Apache-2.0 */
/* test_exit_code.c - an error of the system has the exit code of its class */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/contract/exit_code.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    int errnum, code;
} rows[] = {
    {ENOSPC, EXIT_DISK_FULL}, {EDQUOT, EXIT_DISK_FULL}, {EFBIG, EXIT_DISK_FULL},
    {EIO, EXIT_IO},           {ESTALE, EXIT_IO},        {ENOTCONN, EXIT_IO},
    {EMFILE, EXIT_LIMIT},     {ENFILE, EXIT_LIMIT},     {EAGAIN, EXIT_LIMIT},
    {ENOMEM, EXIT_HOST_MEMORY}, {EACCES, EXIT_DATA},    {ENOENT, EXIT_DATA},
};

static void test_classes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        assert_int_equal(err_set_errno(&err, rows[i].errnum, "cannot write %s", "x"), -1);
        assert_int_equal(exit_code_of(&err), rows[i].code);
        assert_int_equal(err.code, ERR_SYSTEM);
        assert_int_equal(strncmp(err.text, "cannot write x: ", 16), 0);
        assert_string_equal(err.text + 16, strerror(rows[i].errnum));
    }
}

/* The first failure stays, with its class; one without a class is none of the disk's. */
static void test_first_stays(void **state)
{
    (void)state;
    struct err err = {0}, plain = {0};
    err_set_errno(&err, ENOSPC, "first");
    err_set_errno(&err, EIO, "second");
    assert_int_equal(exit_code_of(&err), EXIT_DISK_FULL);
    err_set(&plain, ERR_SYSTEM, "no class");
    assert_int_equal(exit_code_of(&plain), EXIT_DATA);
    assert_int_equal(err_set_errno(NULL, EIO, "nobody asks"), -1);
}

static void test_long_sentence(void **state)
{
    (void)state;
    char many[600];
    struct err err = {0};
    memset(many, 'a', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    err_set_errno(&err, ENOSPC, "%s", many);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_string_equal(err.text + sizeof(err.text) - 4, "...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_first_stays),
        cmocka_unit_test(test_long_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
