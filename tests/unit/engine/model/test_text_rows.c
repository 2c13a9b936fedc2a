/* SPDX-License-Identifier: Apache-2.0 */
/* test_text_rows.c - rows of the packed captions of a batch */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/model/text_rows.h"

enum { MOST = 8, TEXT = 6 };

static const struct row {
    const char *what;
    int         batch, step;
    const char *mask[MOST];
    int         first[MOST + 1];
} rows[] = {
    {"full", 2, 1, {"111111", "111111"}, {0, 6, 12}},
    {"padding is dropped", 3, 1, {"111000", "111111", "100000"}, {0, 3, 9, 10}},
    {"a hole is inside", 2, 1, {"101000", "010100"}, {0, 3, 7}},
    {"no token at all", 2, 1, {"000000", "110000"}, {0, 6, 8}},
    {"rounded up: the first have room", 3, 4, {"111000", "111110", "100000"}, {0, 6, 11, 12}},
    {"more rows than one sample has", 3, 8, {"111110", "111100", "100000"}, {0, 6, 12, 16}},
    {"never more rows than tokens", 2, 7, {"111111", "111000"}, {0, 6, 12}},
};

static void rows_are_tokens(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *r = &rows[i];
        float mask[MOST * TEXT];
        int first[MOST + 1];
        for (int b = 0; b < r->batch; b++)
            for (int l = 0; l < TEXT; l++)
                mask[b * TEXT + l] = (float)(r->mask[b][l] - '0');
        const int n = text_rows_find(first, mask, r->batch, TEXT, r->step);
        for (int b = 0; b <= r->batch; b++)
            if (first[b] != r->first[b])
                fail_msg("%s: sample %d begins at %d, expected %d", r->what, b, first[b], r->first[b]);
        assert_int_equal(n, r->first[r->batch]);
    }
}

static void row_counts_are_some_32_multiples(void **state)
{
    (void)state;
    assert_int_equal(text_rows_step(32, 300), 256);
    assert_int_equal(text_rows_step(8, 300), 64);
    assert_int_equal(text_rows_step(4, 77), 9);
    assert_int_equal(text_rows_step(1, 12), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_tokens),
        cmocka_unit_test(row_counts_are_some_32_multiples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
