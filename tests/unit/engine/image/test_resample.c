/* SPDX-License-Identifier: Apache-2.0 */
/* test_resample.c - pictures of another size: Pillow's pixels are in the golden case, here what holds at every size */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/image/image.h"
#include "engine/image/resample.h"
#include "tests/verify/verify.h"

static void golden_pictures_are_exact(void **state)
{
    (void)state;
    struct verify_result r;
    struct err err = {0};
    assert_int_equal(verify_case(&r, "tests/golden/data/resize.json", NULL, &err), 0);
    assert_int_equal(r.failed, 0);
    assert_int_equal(r.tensors, 15);
}

static void paint(struct image *im, int w, int h, uint8_t level)
{
    assert_int_equal(image_create(im, w, h, NULL), 0);
    memset(im->rgb, level, (size_t)w * (size_t)h * 3);
}

/* Weights have the sum 1, also where a span is cut at an edge. */
static void one_colour_stays(void **state)
{
    (void)state;
    static const int sizes[][4] = {{1, 1, 9, 7}, {9, 7, 1, 1}, {3, 200, 200, 3}, {64, 64, 63, 65}, {1000, 2, 31, 2}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int f = RESAMPLE_BILINEAR; f <= RESAMPLE_LANCZOS; f++) {
            struct image in, out;
            paint(&in, sizes[i][0], sizes[i][1], 201);
            assert_int_equal(resample_image(&out, &in, sizes[i][2], sizes[i][3], (enum resample_filter)f, NULL), 0);
            assert_int_equal(out.width, sizes[i][2]);
            for (int k = 0; k < out.width * out.height * 3; k++)
                assert_in_range(out.rgb[k], 200, 202);
            image_free(&in);
            image_free(&out);
        }
}

/* Computed by hand from the formula: 2 pixels 0 and 100 to 4, bilinear: centres at 0.25, 0.75, 1.25, 1.75. */
static void weights_are_those_of_the_formula(void **state)
{
    (void)state;
    static const uint8_t want[] = {0, 25, 75, 100};
    struct image in, out;
    paint(&in, 2, 1, 0);
    memset(in.rgb + 3, 100, 3);
    assert_int_equal(resample_image(&out, &in, 4, 1, RESAMPLE_BILINEAR, NULL), 0);
    for (int x = 0; x < 4; x++)
        assert_int_equal(out.rgb[3 * x], want[x]);
    image_free(&in);
    image_free(&out);
}

static void sizes_out_of_range_are_refused(void **state)
{
    (void)state;
    struct image in, out;
    struct err err = {0};
    paint(&in, 2, 2, 0);
    assert_int_equal(resample_image(&out, &in, 0, 4, RESAMPLE_BICUBIC, &err), -1);
    assert_int_equal(err.code, ERR_DATA);
    assert_null(out.rgb);
    assert_int_equal(resample_image(&out, &in, 4, IMAGE_MAX_EDGE + 1, RESAMPLE_BICUBIC, NULL), -1);
    image_free(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_pictures_are_exact),
        cmocka_unit_test(one_colour_stays),
        cmocka_unit_test(weights_are_those_of_the_formula),
        cmocka_unit_test(sizes_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
