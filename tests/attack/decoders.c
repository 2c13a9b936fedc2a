/* SPDX-License-Identifier: Apache-2.0 */
/* decoders.c - feeds mutated pictures to the decoders of engine/image/image.h, without libFuzzer
 *
 *   decoders SEED CASES [FIRST]
 *
 * Pictures of every kind that the formats' libraries write are made on the spot; each case damages one of them:
 * bits, extreme numbers, a cut, a piece twice or of another picture; of a PNG often with a right checksum, without
 * which the library looks no further. tests/fuzz/fuzz_image.c states what must hold. Meant for a build with
 * sanitizers. A case depends on SEED and its number alone: `decoders SEED 1 CASE` repeats it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>
#ifndef WITHOUT_LIBWEBP
#include <webp/encode.h>
#endif

#include "tests/fuzz/target.h"

enum { EDGE = 24, SAMPLES_MAX = 32, ROOM = 1 << 16, CASE_S = 60 };

struct sample {
    size_t  size;
    uint8_t bytes[ROOM];
};
static struct sample sample[SAMPLES_MAX];
static int samples;
static uint8_t pixels[EDGE * EDGE * 4];

/* SplitMix64: a stream per case. */
static uint64_t dice;
static uint64_t roll(uint64_t below)
{
    uint64_t z = dice += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return (z ^ z >> 31) % below;
}

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "decoders: cannot make a picture to begin with: %s\n", what);
    exit(2);
}

static void keep(const void *bytes, size_t size)
{
    must(samples < SAMPLES_MAX && size > 0 && size <= ROOM, "too large");
    memcpy(sample[samples].bytes, bytes, size);
    sample[samples++].size = size;
}

static void png_append(png_structp png, png_bytep bytes, png_size_t size)
{
    struct sample *to = png_get_io_ptr(png);
    must(to->size + size <= ROOM, "too large");
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

static void make_png(int color, int depth, int interlace)
{
    struct sample *to = &sample[samples++];
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color palette[4] = {{0, 0, 0}, {255, 0, 0}, {0, 255, 0}, {0, 0, 255}};
    png_byte alpha[2] = {0, 128};
    uint8_t row[EDGE * 8];
    memset(row, color == PNG_COLOR_TYPE_PALETTE && depth != 2 ? 0 : 0x1b, sizeof(row));
    png_set_write_fn(png, to, png_append, NULL);
    png_set_IHDR(png, info, EDGE, EDGE, depth, color, interlace, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (color == PNG_COLOR_TYPE_PALETTE) {
        png_set_PLTE(png, info, palette, depth == 1 ? 2 : 4);
        png_set_tRNS(png, info, alpha, 2, NULL);
    }
    png_set_gAMA(png, info, 0.45455);
    png_write_info(png, info);
    int passes = png_set_interlace_handling(png);
    for (int y = 0; y < passes * EDGE; y++)
        png_write_row(png, depth == 8 && color != PNG_COLOR_TYPE_PALETTE ? pixels + y % EDGE * EDGE : row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
}

static void make_jpeg(J_COLOR_SPACE space, int channels, bool progressive, unsigned restart)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr mgr;
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    c.err = jpeg_std_error(&mgr);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &size);
    c.image_width = c.image_height = EDGE;
    c.input_components = channels;
    c.in_color_space = space;
    jpeg_set_defaults(&c);
    c.restart_interval = restart;
    if (progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < EDGE) {
        JSAMPROW row = pixels + c.next_scanline * EDGE;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    keep(bytes, size);
    free(bytes);
}

static void make_webp(void)
{
#ifndef WITHOUT_LIBWEBP
    uint8_t *bytes = NULL;
    keep(bytes, WebPEncodeRGB(pixels, EDGE, EDGE, EDGE * 3, 60, &bytes));
    WebPFree(bytes);
    keep(bytes, WebPEncodeRGBA(pixels, EDGE, EDGE, EDGE * 4, 60, &bytes));
    WebPFree(bytes);
    keep(bytes, WebPEncodeLosslessRGBA(pixels, EDGE, EDGE, EDGE * 4, &bytes));
    WebPFree(bytes);
#endif
}

static void make_samples(void)
{
    static const int color[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                PNG_COLOR_TYPE_RGBA};
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * i / 97 + (i >> 3));
    for (int i = 0; i < 4; i++) {
        make_png(color[i], 8, PNG_INTERLACE_NONE);
        make_png(color[i], 16, PNG_INTERLACE_ADAM7);
    }
    for (int depth = 1; depth <= 8; depth *= 2)
        make_png(PNG_COLOR_TYPE_PALETTE, depth, depth == 2 ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE);
    for (unsigned restart = 0; restart < 3; restart += 2) {
        make_jpeg(JCS_RGB, 3, restart == 0, restart);
        make_jpeg(JCS_RGB, 3, restart != 0, restart);
        make_jpeg(JCS_GRAYSCALE, 1, restart != 0, restart);
        make_jpeg(JCS_CMYK, 4, restart != 0, restart);
    }
    make_webp();
}

static void put_number(uint8_t *at, size_t room)
{
    static const uint32_t extreme[] = {0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 16384,
                                       16385};
    uint32_t n = extreme[roll(sizeof(extreme) / sizeof(*extreme))];
    size_t width = (size_t)1 << roll(3);
    bool big = roll(2);
    for (size_t i = 0; i < width && i < room; i++)
        at[i] = (uint8_t)(n >> 8 * (big ? width - 1 - i : i));
}

/* A piece of another picture, or of the same one, over what is there or between. */
static void splice(struct sample *s)
{
    const struct sample *from = &sample[roll((uint64_t)samples)];
    size_t at = roll(s->size), begin = roll(from->size), len = 1 + roll(from->size - begin);
    if (roll(2) && s->size + len <= ROOM) {
        memmove(s->bytes + at + len, s->bytes + at, s->size - at);
        s->size += len;
    }
    len = len < s->size - at ? len : s->size - at;
    memcpy(s->bytes + at, from->bytes + begin, len);
}

static void damage(struct sample *s)
{
    size_t at = roll(roll(2) ? s->size : s->size < 64 ? s->size : 64);
    switch (roll(8)) {
    case 0:
    case 1:
        s->bytes[at] ^= (uint8_t)(1 << roll(8));
        break;
    case 2:
    case 3:
        s->bytes[at] = (uint8_t)roll(256);
        break;
    case 4:
    case 5:
        put_number(s->bytes + at, s->size - at);
        break;
    case 6:
        splice(s);
        break;
    default:
        s->size = 1 + roll(s->size);
    }
}

static void put_be32(uint8_t *p, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(n >> (24 - 8 * i));
}

static void mend_checksums(struct sample *s)
{
    if (s->size < 8 || s->bytes[1] != 'P')
        return;
    for (size_t at = 8; at + 12 <= s->size;) {
        const uint8_t *p = s->bytes + at;
        size_t len = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (len > s->size - at - 12)
            return;
        put_be32(s->bytes + at + 8 + len, (uint32_t)crc32(0, p + 4, (uInt)len + 4));
        at += 12 + len;
    }
}

static void run_case(uint64_t seed, uint64_t number)
{
    static struct sample s;
    dice = seed * 0x2545f4914f6cdd1dU ^ number;
    const struct sample *from = &sample[roll((uint64_t)samples)];
    s.size = from->size;
    memcpy(s.bytes, from->bytes, s.size);
    for (uint64_t n = 1 + roll(4); n > 0; n--)
        damage(&s);
    if (roll(4))
        mend_checksums(&s);
    uint8_t *exact = malloc(s.size);
    must(exact, "out of memory");
    memcpy(exact, s.bytes, s.size);
    LLVMFuzzerTestOneInput(exact, s.size);
    free(exact);
}

/* A header that asks for gigabytes gets none: there must be a sentence then, too. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "max_allocation_size_mb=64:allocator_may_return_null=1";
}

/* All cases in a child, which says how far it is. */
static int run_all(uint64_t seed, uint64_t first, uint64_t cases, volatile uint64_t *at)
{
    for (int i = 0; i < samples; i++)
        LLVMFuzzerTestOneInput(sample[i].bytes, sample[i].size);
    for (uint64_t k = first; k < first + cases; k++) {
        *at = k;
        alarm(CASE_S);
        run_case(seed, k);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "usage: decoders SEED CASES [FIRST]\n"), 2;
    uint64_t seed = strtoull(argv[1], NULL, 10), cases = strtoull(argv[2], NULL, 10);
    uint64_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    uint64_t *at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED && cases > 0, "no cases, or no memory");
    make_samples();
    pid_t pid = fork();
    if (pid == 0)
        exit(run_all(seed, first, cases, at));
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || status != 0) {
        printf("FAILED decoders, seed %llu, case %llu: repeat with %s %s 1 %llu\n", (unsigned long long)seed,
               (unsigned long long)*at, argv[0], argv[1], (unsigned long long)*at);
        return 1;
    }
    printf("decoders: seed %llu, %llu damaged pictures of %d kinds\n", (unsigned long long)seed,
           (unsigned long long)cases, samples);
    return 0;
}
