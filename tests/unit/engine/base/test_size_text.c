/* SPDX-License-Identifier: Apache-2.0 */
/* test_size_text.c - a number of bytes in a suitable unit */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/size_text.h"

static void each_unit(void **state)
{
    (void)state;
    static const struct {
        int64_t     bytes;
        const char *text;
    } all[] = {{0, "0 bytes"}, {1023, "1023 bytes"}, {1024, "1.0 KiB"}, {3500, "3.4 KiB"}, {104857, "102.4 KiB"},
               {104858, "0.1 MiB"}, {1536 << 10, "1.5 MiB"}, {INT64_C(1) << 30, "1.00 GiB"},
               {INT64_MAX, "8589934592.00 GiB"}};
    char out[SIZE_TEXT];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_string_equal(size_text(all[i].bytes, out), all[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_unit)};
    return cmocka_run_group_tests_name("size text", tests, NULL, NULL);
}
