/* SPDX-License-Identifier: Apache-2.0 */
/* image_codec.c - decode PNG, JPEG and WebP, encode PNG, with the formats' libraries */
#include "engine/image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>
#ifndef WITHOUT_LIBWEBP
#include <webp/decode.h>
#endif

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/image/image_internal.h"

enum { FILE_MAX = 256 << 20 };

bool image_name_ok(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
                   strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".webp") == 0);
}

/* RGBA over white to RGB. */
static void over_white(uint8_t *rgb, const uint8_t *rgba, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++) {
        unsigned a = rgba[4 * i + 3];
        for (size_t c = 0; c < 3; c++)
            rgb[3 * i + c] = (uint8_t)((rgba[4 * i + c] * a + 255 * (255 - a) + 127) / 255);
    }
}

static int decode_png(struct image *out, const void *bytes, size_t size, const char *name, struct err *err)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    uint8_t *rgba = NULL;
    int rc = -1;
    if (!png_image_begin_read_from_memory(&png, bytes, size)) {
        image_broken(name, "PNG", png.message, err);
        goto out;
    }
    png.format = PNG_FORMAT_RGBA;
    if (png.width > IMAGE_MAX_EDGE || png.height > IMAGE_MAX_EDGE) {
        image_broken(name, "PNG", "more than 16384 pixels along an edge", err);
        goto out;
    }
    rgba = malloc(PNG_IMAGE_SIZE(png));
    if (!rgba) {
        err_set(err, ERR_MEMORY, "out of memory to read %s", name);
        goto out;
    }
    if (!png_image_finish_read(&png, NULL, rgba, 0, NULL)) {
        image_broken(name, "PNG", png.message, err);
        goto out;
    }
    if (image_create(out, (int)png.width, (int)png.height, err) < 0)
        goto out;
    over_white(out->rgb, rgba, (size_t)png.width * png.height);
    rc = 0;
out:
    free(rgba);
    png_image_free(&png);
    return rc;
}

struct jpeg_trap {
    struct jpeg_error_mgr mgr; /* first member: libjpeg gets a pointer to it only */
    jmp_buf               back;
    char                  why[JMSG_LENGTH_MAX];
};

static void jpeg_fail(j_common_ptr cinfo)
{
    struct jpeg_trap *trap = (struct jpeg_trap *)cinfo->err;
    cinfo->err->format_message(cinfo, trap->why);
    longjmp(trap->back, 1);
}

/* A warning means missing or damaged bytes: for training data that is an error. */
static void jpeg_message(j_common_ptr cinfo, int level)
{
    if (level < 0)
        jpeg_fail(cinfo);
}

/* CMYK as most programs write it: 255 is not an ink. */
static void from_cmyk(uint8_t *rgb, const uint8_t *cmyk, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < 3; c++) {
            const unsigned x = (255u - cmyk[4 * i + c]) * cmyk[4 * i + 3] + 128;
            const int v = cmyk[4 * i + 3] - (int)((x + (x >> 8)) >> 8);
            rgb[3 * i + c] = (uint8_t)(v < 0 ? 0 : v);
        }
}

/* One row; `ink` has room for one of CMYK, or is NULL. */
static void read_row(struct jpeg_decompress_struct *d, uint8_t *rgb, uint8_t *ink)
{
    JSAMPROW row = ink ? ink : rgb;
    jpeg_read_scanlines(d, &row, 1);
    if (ink)
        from_cmyk(rgb, ink, d->output_width);
}

/* Errors jump to trap->back, which the caller sets before it calls anything else. */
static void catch_jpeg(struct jpeg_decompress_struct *d, struct jpeg_trap *trap)
{
    d->err = jpeg_std_error(&trap->mgr);
    trap->mgr.error_exit = jpeg_fail;
    trap->mgr.emit_message = jpeg_message;
}

static void open_jpeg(struct jpeg_decompress_struct *d, const void *bytes, size_t size)
{
    jpeg_create_decompress(d);
    jpeg_mem_src(d, bytes, size);
    jpeg_read_header(d, TRUE);
}

static int decode_jpeg(struct image *out, const void *bytes, size_t size, const char *name, struct err *err)
{
    uint8_t *volatile ink = NULL;
    struct jpeg_decompress_struct d;
    struct jpeg_trap trap;
    catch_jpeg(&d, &trap);
    if (setjmp(trap.back)) {
        jpeg_destroy_decompress(&d);
        image_free(out);
        free(ink);
        return image_broken(name, "JPEG", trap.why, err);
    }
    open_jpeg(&d, bytes, size);
    const bool inks = d.jpeg_color_space == JCS_CMYK || d.jpeg_color_space == JCS_YCCK;
    d.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&d);
    if (image_create(out, (int)d.output_width, (int)d.output_height, err) < 0 ||
        (inks && !(ink = malloc((size_t)d.output_width * 4)))) {
        jpeg_destroy_decompress(&d);
        image_free(out);
        return err_set(err, ERR_MEMORY, "out of memory to read %s", name);
    }
    while (d.output_scanline < d.output_height)
        read_row(&d, out->rgb + (size_t)d.output_scanline * (size_t)out->width * 3, ink);
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    free(ink);
    return 0;
}

static int measure_jpeg(int *width, int *height, const void *bytes, size_t size, const char *name, struct err *err)
{
    struct jpeg_decompress_struct d;
    struct jpeg_trap trap;
    catch_jpeg(&d, &trap);
    if (setjmp(trap.back)) {
        jpeg_destroy_decompress(&d);
        return image_broken(name, "JPEG", trap.why, err);
    }
    open_jpeg(&d, bytes, size);
    *width = (int)d.image_width;
    *height = (int)d.image_height;
    jpeg_destroy_decompress(&d);
    return 0;
}

#ifdef WITHOUT_LIBWEBP
static int without_webp(const char *name, struct err *err)
{
    return err_set(err, ERR_DATA,
                   "%s is a WebP picture, and jobctl was built without libwebp: install it and build "
                   "again, or convert the picture to PNG",
                   name);
}

static int measure_webp(int *width, int *height, const void *bytes, size_t size, const char *name, struct err *err)
{
    (void)width, (void)height, (void)bytes, (void)size;
    return without_webp(name, err);
}

static int decode_webp(struct image *out, const void *bytes, size_t size, bool drop, const char *name, struct err *err)
{
    (void)out, (void)bytes, (void)size, (void)drop;
    return without_webp(name, err);
}
#else
static int measure_webp(int *width, int *height, const void *bytes, size_t size, const char *name, struct err *err)
{
    if (!WebPGetInfo(bytes, size, width, height))
        return image_broken(name, "WebP", "its header is malformed", err);
    return 0;
}

static void without_alpha(uint8_t *rgb, const uint8_t *rgba, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        memcpy(rgb + 3 * i, rgba + 4 * i, 3);
}

static int decode_webp(struct image *out, const void *bytes, size_t size, bool drop, const char *name, struct err *err)
{
    int w = 0, h = 0;
    if (!WebPGetInfo(bytes, size, &w, &h))
        return image_broken(name, "WebP", "its header is malformed", err);
    uint8_t *rgba = WebPDecodeRGBA(bytes, size, &w, &h);
    if (!rgba)
        return image_broken(name, "WebP", "its data is truncated or malformed", err);
    int rc = image_create(out, w, h, err);
    if (rc == 0)
        (drop ? without_alpha : over_white)(out->rgb, rgba, (size_t)w * (size_t)h);
    WebPFree(rgba);
    return rc;
}
#endif

enum format { FORMAT_NONE, FORMAT_PNG, FORMAT_JPEG, FORMAT_WEBP };

static enum format format_of(const unsigned char *b, size_t size)
{
    if (size >= 8 && memcmp(b, "\x89PNG\r\n\x1a\n", 8) == 0)
        return FORMAT_PNG;
    if (size >= 3 && memcmp(b, "\xff\xd8\xff", 3) == 0)
        return FORMAT_JPEG;
    if (size >= 12 && memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "WEBP", 4) == 0)
        return FORMAT_WEBP;
    return FORMAT_NONE;
}

static int no_picture(const char *name, struct err *err)
{
    return err_set(err, ERR_DATA, "%s is not a picture: its first bytes are not of a PNG, JPEG "
                                  "or WebP file",
                   name);
}

static int decode(struct image *out, const void *bytes, size_t size, bool drop, const char *name, struct err *err)
{
    *out = (struct image){0};
    switch (format_of(bytes, size)) {
    case FORMAT_PNG:
        return (drop ? image_png_rgb : decode_png)(out, bytes, size, name, err);
    case FORMAT_JPEG:
        return decode_jpeg(out, bytes, size, name, err);
    case FORMAT_WEBP:
        return decode_webp(out, bytes, size, drop, name, err);
    default:
        return no_picture(name, err);
    }
}

int image_decode(struct image *out, const void *bytes, size_t size, const char *name, struct err *err)
{
    return decode(out, bytes, size, false, name, err);
}

int image_decode_rgb(struct image *out, const void *bytes, size_t size, const char *name, struct err *err)
{
    return decode(out, bytes, size, true, name, err);
}

int image_measure(int *width, int *height, const void *bytes, size_t size, const char *name, struct err *err)
{
    switch (format_of(bytes, size)) {
    case FORMAT_PNG:
        return image_png_measure(width, height, bytes, size, name, err);
    case FORMAT_JPEG:
        return measure_jpeg(width, height, bytes, size, name, err);
    case FORMAT_WEBP:
        return measure_webp(width, height, bytes, size, name, err);
    default:
        return no_picture(name, err);
    }
}

int image_load(void **bytes, size_t *size, const char *path, struct err *err)
{
    FILE *f = fopen(path, "rbe");
    struct stat st;
    int rc = -1;
    *bytes = NULL;
    if (!f || fstat(fileno(f), &st) < 0) {
        errno == ENOENT ? err_set(err, ERR_DATA, "cannot read %s: %s", path, strerror(errno))
                        : err_set_errno(err, errno, "cannot read %s", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
        err_set(err, ERR_DATA, "%s is not a picture: not a regular file of at most 256 MiB", path);
        goto out;
    }
    *size = (size_t)st.st_size;
    *bytes = malloc(*size + 1);
    if (!*bytes) {
        err_set(err, ERR_MEMORY, "out of memory to read %s", path);
        goto out;
    }
    if (fread(*bytes, 1, *size, f) != *size) {
        err_set(err, ERR_DATA, "cannot read %s: the file shrank while it was read", path);
        goto out;
    }
    rc = 0;
out:
    if (f)
        fclose(f);
    if (rc < 0) {
        free(*bytes);
        *bytes = NULL;
    }
    return rc;
}

int image_read(struct image *out, const char *path, struct err *err)
{
    void *bytes;
    size_t size;
    *out = (struct image){0};
    if (image_load(&bytes, &size, path, err) < 0)
        return -1;
    int rc = image_decode(out, bytes, size, path, err);
    free(bytes);
    return rc;
}

int image_write_png(const struct image *im, const char *path, struct err *err)
{
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)im->width,
                     .height = (png_uint_32)im->height,
                     .format = PNG_FORMAT_RGB};
    char tmp[SCRATCH_PATH];
    FILE *f = NULL;
    int rc = -1;
    if (scratch_name(tmp, path, err) < 0)
        return -1;
    f = fopen(tmp, "wbe");
    if (!f)
        return err_set_errno(err, errno, "cannot write %s", path);
    if (!png_image_write_to_stdio(&png, f, 0, im->rgb, 0, NULL)) {
        ferror(f) ? err_set_errno(err, errno, "cannot write %s", path)
                  : err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, png.message);
        goto out;
    }
    int closed = fclose(f);
    f = NULL;
    if (closed != 0 || rename(tmp, path) < 0) {
        err_set_errno(err, errno, "cannot write %s", path);
        goto out;
    }
    rc = 0;
out:
    if (f)
        fclose(f);
    if (rc < 0)
        unlink(tmp);
    return rc;
}
