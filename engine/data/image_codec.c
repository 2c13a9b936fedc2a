/* SPDX-License-Identifier: Apache-2.0 */
/* image_codec.c - decode PNG, JPEG and WebP, encode PNG, with the formats' libraries */
#include "engine/data/image.h"

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

#include "engine/contract/err.h"
#include "engine/contract/scratch.h"

enum { FILE_MAX = 256 << 20 };

bool image_name_ok(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
                   strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".webp") == 0);
}

static int broken(const char *name, const char *kind, const char *why, struct err *err)
{
    return err_set(err, ERR_DATA, "%s is not a readable %s picture: %s", name, kind, why);
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

static int decode_png(struct image *out, const void *bytes, size_t size, const char *name,
                      struct err *err)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    uint8_t *rgba = NULL;
    int rc = -1;
    if (!png_image_begin_read_from_memory(&png, bytes, size)) {
        broken(name, "PNG", png.message, err);
        goto out;
    }
    png.format = PNG_FORMAT_RGBA;
    if (png.width > IMAGE_MAX_EDGE || png.height > IMAGE_MAX_EDGE) {
        broken(name, "PNG", "more than 16384 pixels along an edge", err);
        goto out;
    }
    rgba = malloc(PNG_IMAGE_SIZE(png));
    if (!rgba) {
        err_set(err, ERR_MEMORY, "out of memory to read %s", name);
        goto out;
    }
    if (!png_image_finish_read(&png, NULL, rgba, 0, NULL)) {
        broken(name, "PNG", png.message, err);
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

static int decode_jpeg(struct image *out, const void *bytes, size_t size, const char *name,
                       struct err *err)
{
    struct jpeg_decompress_struct d;
    struct jpeg_trap trap;
    d.err = jpeg_std_error(&trap.mgr);
    trap.mgr.error_exit = jpeg_fail;
    trap.mgr.emit_message = jpeg_message;
    if (setjmp(trap.back)) {
        jpeg_destroy_decompress(&d);
        image_free(out);
        return broken(name, "JPEG", trap.why, err);
    }
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, bytes, size);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    if (image_create(out, (int)d.output_width, (int)d.output_height, err) < 0) {
        jpeg_destroy_decompress(&d);
        return -1;
    }
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = out->rgb + (size_t)d.output_scanline * (size_t)out->width * 3;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    return 0;
}

#ifdef WITHOUT_LIBWEBP
static int decode_webp(struct image *out, const void *bytes, size_t size, const char *name,
                       struct err *err)
{
    (void)out, (void)bytes, (void)size;
    return err_set(err, ERR_DATA,
                   "%s is a WebP picture, and jobctl was built without libwebp: install it and build "
                   "again, or convert the picture to PNG",
                   name);
}
#else
static int decode_webp(struct image *out, const void *bytes, size_t size, const char *name,
                       struct err *err)
{
    int w = 0, h = 0;
    if (!WebPGetInfo(bytes, size, &w, &h))
        return broken(name, "WebP", "its header is malformed", err);
    uint8_t *rgba = WebPDecodeRGBA(bytes, size, &w, &h);
    if (!rgba)
        return broken(name, "WebP", "its data is truncated or malformed", err);
    int rc = image_create(out, w, h, err);
    if (rc == 0)
        over_white(out->rgb, rgba, (size_t)w * (size_t)h);
    WebPFree(rgba);
    return rc;
}
#endif

int image_decode(struct image *out, const void *bytes, size_t size, const char *name,
                 struct err *err)
{
    const unsigned char *b = bytes;
    *out = (struct image){0};
    if (size >= 8 && memcmp(b, "\x89PNG\r\n\x1a\n", 8) == 0)
        return decode_png(out, bytes, size, name, err);
    if (size >= 3 && memcmp(b, "\xff\xd8\xff", 3) == 0)
        return decode_jpeg(out, bytes, size, name, err);
    if (size >= 12 && memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "WEBP", 4) == 0)
        return decode_webp(out, bytes, size, name, err);
    return err_set(err, ERR_DATA, "%s is not a picture: its first bytes are not of a PNG, JPEG "
                                  "or WebP file",
                   name);
}

int image_read(struct image *out, const char *path, struct err *err)
{
    *out = (struct image){0};
    FILE *f = fopen(path, "rbe");
    struct stat st;
    void *bytes = NULL;
    int rc = -1;
    if (!f || fstat(fileno(f), &st) < 0) {
        errno == ENOENT ? err_set(err, ERR_DATA, "cannot read %s: %s", path, strerror(errno))
                        : err_set_errno(err, errno, "cannot read %s", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
        err_set(err, ERR_DATA, "%s is not a picture: not a regular file of at most 256 MiB", path);
        goto out;
    }
    size_t size = (size_t)st.st_size;
    bytes = malloc(size + 1);
    if (!bytes) {
        err_set(err, ERR_MEMORY, "out of memory to read %s", path);
        goto out;
    }
    if (fread(bytes, 1, size, f) != size) {
        err_set(err, ERR_DATA, "cannot read %s: the file shrank while it was read", path);
        goto out;
    }
    rc = image_decode(out, bytes, size, path, err);
out:
    if (f)
        fclose(f);
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
