/* SPDX-License-Identifier: Apache-2.0 */
/* test_tile.c - tiles of CUDA kernels cover the image and fit into shared memory */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/tile.h"

static const size_t rooms[] = {(size_t)64 << 10, (size_t)99 << 10, (size_t)163 << 10, (size_t)227 << 10};

/* Bands cover the image once, the tile fits, and it is not smaller than necessary. */
static void check(struct glumbconv_tile z, int height, int width, int channels, int planes,
                  int halo,
                  size_t number, size_t room)
{
    const int bands = (height + z.rows - 1) / z.rows;
    assert_true(z.rows >= 1 && z.rows <= height);
    assert_true(z.channels >= 4 && z.channels <= channels);
    assert_true((bands - 1) * z.rows < height && bands * z.rows >= height);
    assert_true(glumbconv_bytes(z, width, planes, halo, number) <= room);
    const struct glumbconv_tile wider = {2 * z.channels, height < 8 ? height : 8};
    if (z.channels < channels)
        assert_true(glumbconv_bytes(wider, width, planes, halo, number) > room);
}

static void tiles_fit_and_cover(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof(rooms) / sizeof(rooms[0]); r++)
        for (size_t number = 2; number <= 4; number += 2)
            for (int height = 1; height <= 130; height += height < 40 ? 1 : 7)
                for (int width = 1; width <= 130; width += width < 40 ? 1 : 7) {
                    check(glumbconv_tile(height, width, 32, 1, 2, number, rooms[r]), height, width,
                          32,
                          1, 2, number, rooms[r]);
                    check(glumbconv_back_tile(height, width, number, rooms[r]), height, width,
                          MIX_BACK_SLICE, 2, MIX_BACK_HALO, number, rooms[r] - GLUMBCONV_SCRATCH);
                }
}

/* The case that the kernels were designed for: a 32 x 32 image of 32 + 32 channels in bf16 is one
 * tile. */
static void a_whole_image_of_1024_px_fits(void **state)
{
    (void)state;
    const struct glumbconv_tile forward = glumbconv_tile(32, 32, 32, 1, 2, 2, rooms[2]);
    const struct glumbconv_tile back = glumbconv_back_tile(32, 32, 2, rooms[2]);
    assert_int_equal(forward.rows, 32);
    assert_int_equal(forward.channels, 32);
    assert_int_equal(back.rows, 32);
    assert_int_equal(back.channels, 16);
}

static void too_wide_is_reported(void **state)
{
    (void)state;
    assert_int_equal(glumbconv_back_tile(8, 100000, 4, rooms[0]).rows, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_fit_and_cover),
        cmocka_unit_test(a_whole_image_of_1024_px_fits),
        cmocka_unit_test(too_wide_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
