/* SPDX-License-Identifier: Apache-2.0 */
/* test_shell_text.c - where a shell text sends its output */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "agent/os/shell_text.h"

static void the_file_of_the_output_is_found(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"python train.py > train.log 2>&1", "train.log"},
        {"mkdir -p logs\nexec python train.py >>logs/a.log 2>logs/b.log", "logs/b.log"},
        {"python train.py &>/tmp/x.log", "/tmp/x.log"},
        {"python train.py >| x; true", "x"},
        {"python train.py 2>&1 | tee x.log", ""},
        {"python train.py >/dev/null", ""},
        {"python train.py > \"$LOG\"", ""},
        {"python train.py > log-$RANK.txt", ""},
        {"python -c 'print(1 > 0)' # > x", ""},
        {"a > x 2>&1; b >", "x"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[64];
        shell_text_output(out, sizeof(out), rows[i][0]);
        if (strcmp(out, rows[i][1]) != 0)
            fail_msg("%s: %s", rows[i][0], out);
    }
    char out[8];
    shell_text_output(out, sizeof(out), NULL);
    assert_string_equal(out, "");
    assert_false(shell_text_has_background(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_file_of_the_output_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
