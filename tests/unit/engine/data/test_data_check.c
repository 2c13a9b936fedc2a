/* SPDX-License-Identifier: Apache-2.0 */
/* test_data_check.c - the check of the data and a run agree on every damaged picture
 *
 * Pictures of each format, damaged in some hundreds of ways that a seed draws: cut off, a byte flipped, a piece taken
 * out, the end marker (IEND, EOI) missing or wrong. What a run does with each is asked of the functions that it reads
 * pictures with: dataset_open() for dct+hash, of a folder with this picture alone, and collection_picture(), which
 * encoders of models call for each sample.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef WITHOUT_LIBWEBP
#include <webp/encode.h>
#endif

#include "engine/base/err.h"
#include "engine/collection/collection.h"
#include "engine/contract/train_spec.h"
#include "engine/data/data_check.h"
#include "engine/data/dataset.h"
#include "engine/image/image.h"
#include "kernels/rng.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { WAYS = 40, MOST = 1 << 14 };

static char dir[256];
static struct rng draws;
static uint64_t drawn;

static size_t below(size_t bound)
{
    return (size_t)rng_below(&draws, drawn++, bound);
}

/* --- pictures ----------------------------------------------------------------------------- */

struct picture {
    const char   *format;
    unsigned char bytes[MOST];
    size_t        size, tail; /* bytes of what ends the file */
};

static void read_picture(struct picture *p, const char *path, const char *format, size_t tail)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    p->size = fread(p->bytes, 1, MOST, f);
    p->format = format;
    p->tail = tail;
    fclose(f);
}

static int read_pictures(struct picture *p)
{
    read_picture(&p[0], "tests/golden/data/img/cat.png", "png", 12);
    read_picture(&p[1], "tests/golden/data/img/alpha.png", "png", 12);
    read_picture(&p[2], "tests/golden/data/img/grey.png", "png", 12);
    read_picture(&p[3], "tests/golden/data/img/dog.jpg", "jpg", 2);
#ifdef WITHOUT_LIBWEBP
    return 4;
#else
    uint8_t rgb[16 * 16 * 3], *out = NULL;
    for (size_t i = 0; i < sizeof(rgb); i++)
        rgb[i] = (uint8_t)(i * 7 % 251);
    for (int lossless = 0; lossless < 2; lossless++) {
        struct picture *to = &p[4 + lossless];
        to->size = lossless ? WebPEncodeLosslessRGB(rgb, 16, 16, 48, &out) : WebPEncodeRGB(rgb, 16, 16, 48, 80, &out);
        assert_in_range(to->size, 1, MOST);
        memcpy(to->bytes, out, to->size);
        to->format = "webp";
        to->tail = 4;
        WebPFree(out);
    }
    return 6;
#endif
}

static void damage(struct picture *p, int way)
{
    size_t at = below(p->size - 1), n;
    switch (way % 5) {
    case 0: /* cut off, near the end half of the time */
        p->size -= 1 + (way % 2 ? below(4 * p->tail) : at);
        break;
    case 1: /* one byte is another */
        p->bytes[at] ^= (unsigned char)(1 + below(255));
        break;
    case 2: /* of the end marker */
        p->bytes[p->size - 1 - below(p->tail)] ^= (unsigned char)(1 + below(255));
        break;
    case 3: /* without a piece */
        n = 1 + below(p->size - at - 1);
        memmove(p->bytes + at, p->bytes + at + n, p->size - at - n);
        p->size -= n;
        break;
    case 4: /* without the end marker, or with others after it */
        if (way % 2)
            p->size -= p->tail;
        else
            memset(p->bytes + p->size - p->tail, (int)below(256), p->tail);
        break;
    }
}

static const char *__attribute__((format(printf, 1, 2))) at(const char *fmt, ...)
{
    static char path[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    va_list ap;
    va_start(ap, fmt);
    const int n = snprintf(path[turn], sizeof(path[0]), "%s/", dir);
    vsnprintf(path[turn] + n, sizeof(path[0]) - (size_t)n, fmt, ap);
    va_end(ap);
    return path[turn];
}

static void put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* all/000.png with 000.txt, and the same pictures alone in 000/. */
static int make_pictures(void)
{
    static struct picture whole[6], p;
    const int formats = read_pictures(whole);
    int n = 0;
    assert_int_equal(mkdir(at("all"), 0700), 0);
    for (int f = 0; f < formats; f++)
        for (int way = -1; way < WAYS; way++, n++) {
            p = whole[f];
            if (way >= 0)
                damage(&p, way);
            assert_int_equal(mkdir(at("%03d", n), 0700), 0);
            put(at("all/%03d.%s", n, p.format), p.bytes, p.size);
            put(at("all/%03d.txt", n), "a cat", 5);
            assert_int_equal(link(at("all/%03d.%s", n, p.format), at("%03d/%03d.%s", n, n, p.format)), 0);
            assert_int_equal(link(at("all/%03d.txt", n), at("%03d/%03d.txt", n, n)), 0);
        }
    return n;
}

/* --- both sides --------------------------------------------------------------------------- */

static void spec_of(struct train_spec *s, const char *path, const char *encoders)
{
    struct err err = {0};
    json_t *job = json_pack("{s:{s:i, s:{s:s}, s:{s:s, s:s, s:i}}}", "train", "steps", 1, "model", "preset", "tiny",
                            "data", "path", path, "encoders", encoders, "resolution", 32);
    json_t *data = json_object_get(json_object_get(job, "train"), "data");
    if (strcmp(encoders, "sana") == 0) {
        json_object_set_new(data, "vae", json_string("/v"));
        json_object_set_new(data, "text_encoder", json_string("/t"));
    }
    if (train_spec_parse(s, job, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(job);
}

static void on_problem(void *arg, bool error, const char *where, const char *what)
{
    bool *wrong = arg;
    (void)what;
    if (error)
        wrong[atoi(where)] = true;
}

static bool run_takes(const char *encoders, int i)
{
    struct train_spec s;
    struct collection_options o;
    struct collection *all;
    struct dataset *d = NULL;
    struct image im;
    struct err err = {0};
    spec_of(&s, at("%03d", i), encoders);
    if (s.encoders == ENCODERS_DCT_HASH) {
        const bool good = dataset_open(&d, &s, NULL, NULL, &err) == 0;
        dataset_close(d);
        return good;
    }
    collection_options(&o, &s);
    assert_int_equal(collection_open(&all, &o, NULL, NULL, &err), 0);
    const bool good = collection_picture(&im, all, 0, &err) == 0;
    image_free(&im);
    collection_close(all);
    return good;
}

static void the_check_and_the_run_agree(void **state)
{
    static const char *const encoders[] = {"dct+hash", "sana"};
    const int n = make_pictures();
    (void)state;
    assert_int_equal(mkdir(at("cache"), 0700), 0);
    for (int e = 0; e < 2; e++) {
        bool *wrong = calloc((size_t)n, sizeof(*wrong));
        struct train_spec s;
        struct data_check sum;
        struct err err = {0};
        int refused = 0;
        spec_of(&s, at("all"), encoders[e]);
        assert_int_equal(data_check_run(&sum, &s, e ? 32 : 0, on_problem, wrong, &err), 0);
        assert_int_equal(sum.samples, n);
        for (int i = 0; i < n; i++) {
            const bool takes = run_takes(encoders[e], i);
            if (takes == wrong[i])
                fail_msg("%s, picture %d (way %d of format %d): the run %s it, the check does not", encoders[e], i,
                         i % (WAYS + 1) - 1, i / (WAYS + 1), takes ? "takes" : "refuses");
            if (i % (WAYS + 1) == 0)
                assert_true(takes);
            refused += !takes;
        }
        assert_in_range(refused, n / 4, n - n / 8); /* both kinds are there */
        free(wrong);
    }
}

/* --- the run's encoders tell sizes, and prior pictures are read too ----------------------- */

static int64_t errors_of(struct train_spec *s, int factor, struct data_check *sum)
{
    bool wrong[8] = {false};
    struct err err = {0};
    assert_int_equal(data_check_run(sum, s, factor, on_problem, wrong, &err), 0);
    return sum->errors;
}

static void sizes_and_prior_pictures_are_checked(void **state)
{
    static struct picture whole[6];
    struct data_check sum;
    struct train_spec s;
    (void)state;
    read_pictures(whole);
    assert_int_equal(mkdir(at("few"), 0700), 0);
    assert_int_equal(mkdir(at("prior"), 0700), 0);
    put(at("few/0.png"), whole[0].bytes, whole[0].size);
    put(at("few/0.txt"), "a cat", 5);
    put(at("prior/1.png"), whole[0].bytes, whole[0].size);
    put(at("prior/1.txt"), "a cat", 5);
    spec_of(&s, at("few"), "sana");
    assert_int_equal(errors_of(&s, 32, &sum), 0);
    assert_int_equal(errors_of(&s, 64, &sum), 1); /* 32 pixels are half a latent */
    snprintf(s.prior.path, sizeof(s.prior.path), "%s", at("prior"));
    assert_int_equal(errors_of(&s, 32, &sum), 0);
    assert_int_equal(sum.samples, 1);
    assert_int_equal(sum.prior, 1);
    put(at("prior/1.png"), whole[0].bytes, whole[0].size / 2);
    assert_int_equal(errors_of(&s, 32, &sum), 1);
}

static int make_dir(void **state)
{
    (void)state;
    draws = rng_make(20, 0, 0, RNG_TEST);
    scratch_dir_create(dir, sizeof(dir), "data-check");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return scratch_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_check_and_the_run_agree),
        cmocka_unit_test(sizes_and_prior_pictures_are_checked),
    };
    return cmocka_run_group_tests_name("data_check", tests, make_dir, remove_dir);
}
