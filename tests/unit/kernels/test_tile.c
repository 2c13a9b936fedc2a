/* SPDX-License-Identifier: Apache-2.0 */
/* test_tile.c - what CUDA kernels keep in shared memory fits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/tile.h"

static const size_t rooms[] = {(size_t)64 << 10, (size_t)99 << 10, (size_t)163 << 10, (size_t)227 << 10};

/* The slice fits, and one of twice the channels would not. */
static void slices_fit(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof(rooms) / sizeof(rooms[0]); r++)
        for (int steps = GLUMBCONV_STEPS; steps <= MIX_BACK_STEPS; steps += MIX_BACK_STEPS - GLUMBCONV_STEPS)
            for (size_t number = 2; number <= 4; number += 2)
                for (int width = 1; width <= 90; width++) {
                    const int c = glumbconv_slice(width, steps, number, rooms[r]);
                    assert_true(c == 4 || c == 8 || c == 16);
                    assert_true(glumbconv_bytes(c, width, steps, number) <= rooms[r]);
                    assert_true(c == 16 || glumbconv_bytes(2 * c, width, steps, number) > rooms[r]);
                }
}

/* A zero on each side, also beside the second column that a thread makes of an odd width. */
static void rows_have_zeros_on_both_sides(void **state)
{
    (void)state;
    for (int width = 1; width <= 300; width++) {
        assert_true(glumbconv_pitch(width) >= (width + 1) / 2 * 2 + 2);
        assert_int_equal(glumbconv_pitch(width) % 2, 0);
    }
}

/* The case that the kernels were designed for, 32 columns in bf16: four blocks on an H200, three on an A100. */
static void several_blocks_of_an_image_of_1024_px_fit(void **state)
{
    (void)state;
    assert_int_equal(glumbconv_slice(32, MIX_BACK_STEPS, 2, rooms[2]), 16);
    assert_true(4 * glumbconv_bytes(16, 32, MIX_BACK_STEPS, 2) <= rooms[3]);
    assert_true(3 * glumbconv_bytes(16, 32, MIX_BACK_STEPS, 2) <= rooms[2]);
    for (size_t blocks = 3; blocks <= 4; blocks++) /* a block takes 1 KB more */
        assert_true(blocks * (glumbconv_mma_bytes(32, 2) + 1024) <= rooms[blocks - 1] + 1024);
}

/* On tensor cores: whole tiles between two zeros, and rows of a multiple of 16 bytes, which mma_load() reads. */
static void tiles_have_zeros_on_both_sides(void **state)
{
    (void)state;
    for (int width = 1; width <= 300; width++) {
        const int pitch = glumbconv_mma_pitch(width);
        assert_int_equal((pitch - 2) % GLUMBCONV_MMA_TILE, 0);
        assert_true(pitch >= width + 2 && pitch < width + 2 + GLUMBCONV_MMA_TILE);
        assert_int_equal(glumbconv_mma_bytes(width, 1) % 16, 0);
        assert_true(glumbconv_mma_bytes(width, 2) - glumbconv_mma_bytes(width, 1) ==
                    (size_t)GLUMBCONV_MMA_ROWS * 2 * (size_t)pitch * GLUMBCONV_SLICE * 2);
    }
}

static void too_wide_is_reported(void **state)
{
    (void)state;
    assert_int_equal(glumbconv_slice(100000, MIX_BACK_STEPS, 4, rooms[0]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_fit),
        cmocka_unit_test(rows_have_zeros_on_both_sides),
        cmocka_unit_test(tiles_have_zeros_on_both_sides),
        cmocka_unit_test(several_blocks_of_an_image_of_1024_px_fit),
        cmocka_unit_test(too_wide_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
