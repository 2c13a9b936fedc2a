/* SPDX-License-Identifier: Apache-2.0 */
/* test_image.c - three formats in, PNG out, damaged files named; the DCT and its inverse */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>
#ifndef WITHOUT_LIBWEBP
#include <webp/encode.h>
#endif

#include "engine/base/err.h"
#include "engine/image/dct.h"
#include "engine/image/image.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256];

static int make_dir(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "image");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

/* A smooth picture, which lossy formats reproduce closely. */
static void paint(struct image *im, int w, int h)
{
    struct err err = {0};
    assert_int_equal(image_create(im, w, h, &err), 0);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            uint8_t *p = im->rgb + (y * w + x) * 3;
            p[0] = (uint8_t)(40 + 150 * x / w);
            p[1] = (uint8_t)(60 + 120 * y / h);
            p[2] = (uint8_t)(200 - 100 * (x + y) / (w + h));
        }
}

static double worst(const struct image *a, const struct image *b)
{
    double most = 0;
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    for (int i = 0; i < a->width * a->height * 3; i++)
        most = fmax(most, abs((int)a->rgb[i] - (int)b->rgb[i]));
    return most;
}

static void png_round_trip(void **state)
{
    (void)state;
    struct image a, b;
    struct err err = {0};
    char path[300];
    snprintf(path, sizeof(path), "%s/a.png", dir);
    paint(&a, 37, 21);
    assert_int_equal(image_write_png(&a, path, &err), 0);
    assert_int_equal(image_read(&b, path, &err), 0);
    assert_true(worst(&a, &b) == 0);
    image_free(&b);
    /* truncated at every length: an error that names the file, never a picture */
    FILE *f = fopen(path, "rb");
    static unsigned char bytes[65536];
    size_t n = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    for (size_t cut = 0; cut + 12 < n; cut++) {
        struct err e = {0};
        assert_int_equal(image_decode(&b, bytes, cut, "cut.png", &e), -1);
        assert_int_equal(e.code, ERR_DATA);
        assert_non_null(strstr(e.text, "cut.png"));
        assert_null(b.rgb);
    }
    unlink(path);
    assert_int_equal(image_read(&b, path, &err), -1);
    image_free(&a);
}

static void transparency_is_blended_with_white(void **state)
{
    (void)state;
    const uint8_t rgba[] = {200, 0, 0, 0, 200, 0, 0, 255, 100, 100, 100, 128};
    png_image png = {.version = PNG_IMAGE_VERSION, .width = 3, .height = 1,
                     .format = PNG_FORMAT_RGBA};
    uint8_t file[4096];
    png_alloc_size_t size = sizeof(file);
    assert_true(png_image_write_to_memory(&png, file, &size, 0, rgba, 0, NULL));
    struct image im;
    struct err err = {0};
    assert_int_equal(image_decode(&im, file, size, "x", &err), 0);
    const uint8_t want[] = {255, 255, 255, 200, 0, 0, 177, 177, 177};
    assert_memory_equal(im.rgb, want, sizeof(want));
    image_free(&im);
}

static size_t to_jpeg(const struct image *im, unsigned char **bytes)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr mgr;
    unsigned long size = 0;
    c.err = jpeg_std_error(&mgr);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, bytes, &size);
    c.image_width = (JDIMENSION)im->width;
    c.image_height = (JDIMENSION)im->height;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = im->rgb + (size_t)c.next_scanline * (size_t)im->width * 3;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return size;
}

static void jpeg_is_read_unless_truncated(void **state)
{
    (void)state;
    struct image a, b;
    struct err err = {0};
    paint(&a, 48, 40);
    unsigned char *bytes = NULL;
    size_t n = to_jpeg(&a, &bytes);
    assert_int_equal(image_decode(&b, bytes, n, "a.jpg", &err), 0);
    assert_true(worst(&a, &b) < 12);
    image_free(&b);
    for (size_t cut = 0; cut < n - 2; cut += 7) {
        struct err e = {0};
        assert_int_equal(image_decode(&b, bytes, cut, "cut.jpg", &e), -1);
        assert_null(b.rgb);
    }
    free(bytes);
    image_free(&a);
}

#ifdef WITHOUT_LIBWEBP
static void webp_is_read_unless_truncated(void **state)
{
    (void)state;
    struct image b;
    struct err err = {0};
    assert_int_equal(image_decode(&b, "RIFF....WEBPVP8 ", 16, "a.webp", &err), -1);
    assert_non_null(strstr(err.text, "built without libwebp"));
}
#else
static void webp_is_read_unless_truncated(void **state)
{
    (void)state;
    struct image a, b;
    struct err err = {0};
    paint(&a, 48, 40);
    uint8_t *webp = NULL;
    size_t n = WebPEncodeRGB(a.rgb, a.width, a.height, a.width * 3, 95, &webp);
    assert_int_equal(image_decode(&b, webp, n, "a.webp", &err), 0);
    assert_true(worst(&a, &b) < 24);
    image_free(&b);
    for (size_t cut = 0; cut < n - 4; cut += 5) {
        struct err e = {0};
        assert_int_equal(image_decode(&b, webp, cut, "cut.webp", &e), -1);
    }
    WebPFree(webp);
    image_free(&a);
}
#endif

static void fitting_keeps_the_centre(void **state)
{
    (void)state;
    struct image a, b;
    struct err err = {0};
    assert_int_equal(image_create(&a, 90, 30, &err), 0);
    image_fill(&a, 0, 0, 90, 30, 0x102030);
    image_fill(&a, 30, 0, 30, 30, 0xA0B0C0);
    static const int edges[] = {1, 10, 30, 47, 64};
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        assert_int_equal(image_fit(&b, &a, edges[i], edges[i], &err), 0);
        assert_int_equal(b.width, edges[i]);
        const uint8_t *mid = b.rgb + (edges[i] / 2 * edges[i] + edges[i] / 2) * 3;
        assert_int_equal(mid[0], 0xA0);
        assert_int_equal(mid[2], 0xC0);
        image_free(&b);
    }
    /* to another shape: the middle two thirds of the width, all of the height */
    assert_int_equal(image_fit(&b, &a, 20, 10, &err), 0);
    assert_true(b.width == 20 && b.height == 10);
    for (int x = 0; x < 20; x++) /* 15 of the 30 pixels of each side remain; edges are soft */
        if (x % 5 != 0 && x % 5 != 4)
            assert_int_equal(b.rgb[(5 * 20 + x) * 3], x < 5 || x >= 15 ? 0x10 : 0xA0);
    image_free(&b);
    assert_int_equal(image_fit(&b, &a, 10, 20, &err), 0); /* upright: the middle half */
    for (int i = 0; i < 200; i++)
        assert_int_equal(b.rgb[i * 3], 0xA0);
    image_free(&b);
    image_free(&a);
    paint(&a, 64, 64);
    assert_int_equal(image_fit(&b, &a, 64, 64, &err), 0);
    assert_true(worst(&a, &b) == 0);
    image_free(&b);
    image_free(&a);
}

static void the_dct_is_orthonormal(void **state)
{
    (void)state;
    static const int blocks[] = {1, 2, 4, 8, 16};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        int b = blocks[i];
        struct image a, back;
        struct err err = {0};
        paint(&a, 3 * b, 2 * b);
        for (int k = 0; k < a.width * a.height * 3; k++)
            a.rgb[k] = (uint8_t)(a.rgb[k] ^ (k * 37 & 63));
        float *latent = malloc(sizeof(float) * (size_t)(a.width * a.height * 3));
        assert_int_equal(dct_encode(latent, &a, b, &err), 0);
        double pixels = 0, coefs = 0;
        for (int k = 0; k < a.width * a.height * 3; k++) {
            double p = a.rgb[k] / 127.5 - 1;
            pixels += p * p;
            coefs += (double)latent[k] * latent[k];
        }
        assert_true(fabs(coefs / pixels - 1) < 1e-5);
        assert_int_equal(dct_decode(&back, latent, b, 2, 3, &err), 0);
        assert_true(worst(&a, &back) == 0);
        assert_int_equal(dct_encode(latent, &a, 2 * b + 1, &err), -1);
        free(latent);
        image_free(&a);
        image_free(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_round_trip),
        cmocka_unit_test(transparency_is_blended_with_white),
        cmocka_unit_test(jpeg_is_read_unless_truncated),
        cmocka_unit_test(webp_is_read_unless_truncated),
        cmocka_unit_test(fitting_keeps_the_centre),
        cmocka_unit_test(the_dct_is_orthonormal),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
