/* SPDX-License-Identifier: Apache-2.0 */
/* test_aspect.c - bucket sizes for pictures of any shape */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/collection/aspect.h"

static void the_nearest_label_wins(void **state)
{
    (void)state;
    static const struct {
        int height, width, resolution, step, to_height, to_width;
    } rows[] = {
        {1000, 1000, 1024, 32, 1024, 1024},
        {1, 1, 512, 32, 512, 512},
        {26, 36, 1024, 32, 832, 1152},   /* 0.7222 is nearest to 0.72 */
        {1080, 1920, 512, 32, 384, 672}, /* 0.5625: 0.57 */
        {1920, 1080, 512, 32, 672, 384}, /* 1.7778: 1.75 */
        {1, 100, 1024, 32, 512, 2048},   /* beyond the table */
        {100, 1, 1024, 32, 2048, 512},
        {3, 1, 64, 4, 108, 36},
        {3, 1, 64, 8, 112, 40},          /* rounded to eights: 13.5 up, 4.5 up */
        {1, 4, 16, 16, 16, 32},          /* never below one step */
        {1, 4, 4, 4, 4, 8},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct aspect a = aspect_nearest(rows[i].height, rows[i].width, rows[i].resolution, rows[i].step);
        if (a.height != rows[i].to_height || a.width != rows[i].to_width)
            fail_msg("row %zu: %d x %d", i, a.height, a.width);
        assert_true(aspect_known(a.height, a.width, rows[i].resolution, rows[i].step));
    }
    assert_false(aspect_known(832, 1024, 1024, 32));
    assert_false(aspect_known(512, 512, 1024, 32));
}

/* A picture of a bucket's size stays in that bucket; areas stay near the square's. */
static void a_size_maps_to_itself(void **state)
{
    (void)state;
    int sizes = 0;
    for (int h = 512; h <= 2048; h += 64)
        for (int w = 512; w <= 2048; w += 64) {
            struct aspect a = aspect_nearest(h, w, 1024, 32);
            assert_true(a.height * a.width <= 1024 * 1024);
            assert_true(a.height * a.width >= 924 * 1024);
            if (!aspect_known(h, w, 1024, 32))
                continue;
            sizes++;
            assert_true(a.height == h && a.width == w);
        }
    assert_int_equal(sizes, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_label_wins),
        cmocka_unit_test(a_size_maps_to_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
