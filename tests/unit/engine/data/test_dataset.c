/* SPDX-License-Identifier: Apache-2.0 */
/* test_dataset.c - a folder becomes samples; shards of features too */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/collection/caption.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/files/safetensors.h"
#include "engine/image/image.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256];

static int make_dir(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "data");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return scratch_remove(dir, NULL);
}

static const char *at(const char *name)
{
    static char path[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[0]), "%s/%s", dir, name);
    return path[turn];
}

static void put_text(const char *name, const char *text)
{
    FILE *f = fopen(at(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_wide_picture(const char *name, uint32_t rgb, int width, int height)
{
    struct image im;
    struct err err = {0};
    assert_int_equal(image_create(&im, width, height, &err), 0);
    image_fill(&im, width / 4, height / 4, width / 2, height / 2, rgb);
    assert_int_equal(image_write_png(&im, at(name), &err), 0);
    image_free(&im);
}

static void put_picture(const char *name, uint32_t rgb, int edge)
{
    put_wide_picture(name, rgb, edge, edge);
}

static struct train_spec spec_for(const char *name)
{
    struct train_spec s = {.dct_block = 4, .caption_words = 3, .caption_channels = 16};
    s.model.patch = 1;
    snprintf(s.data_path, sizeof(s.data_path), "%s", at(name));
    return s;
}

static void three_pictures(const char *folder)
{
    char name[300];
    static const struct {
        const char *stem, *caption;
        uint32_t    rgb;
    } all[] = {{"b", "red square\n", 0xFF0000}, {"a", " green  square ", 0x00FF00},
               {"c", "blue square", 0x0000FF}};
    mkdir(at(folder), 0700);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s/%s.png", folder, all[i].stem);
        put_picture(name, all[i].rgb, 16);
        snprintf(name, sizeof(name), "%s/%s.txt", folder, all[i].stem);
        put_text(name, all[i].caption);
    }
}

static void a_folder_becomes_samples(void **state)
{
    (void)state;
    struct dataset *d;
    struct err err = {0};
    three_pictures("abc");
    struct train_spec s = spec_for("abc");
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), 0);
    struct dataset_shape sh = dataset_shape(d);
    assert_int_equal(sh.samples, 3);
    assert_int_equal(sh.channels, 48);
    assert_int_equal(sh.height, 4);
    assert_int_equal(sh.words, 3);
    assert_string_equal(dataset_name(d, 0), "a.png");
    assert_string_equal(dataset_caption(d, 0), "green  square");
    float latent[48 * 16], caption[3 * 16], mask[3], want[3 * 16], want_mask[3];
    for (int i = 0; i < 3; i++) {
        struct image back, orig;
        char name[300];
        assert_int_equal(dataset_get(d, i, latent, caption, mask, &err), 0);
        caption_encode(want, want_mask, dataset_caption(d, i), 3, 16);
        assert_memory_equal(caption, want, sizeof(want));
        assert_memory_equal(mask, want_mask, sizeof(want_mask));
        assert_int_equal(dataset_picture(d, &back, latent, 4, 4, &err), 0);
        snprintf(name, sizeof(name), "abc/%s", dataset_name(d, i));
        assert_int_equal(image_read(&orig, at(name), &err), 0);
        assert_memory_equal(back.rgb, orig.rgb, 16 * 16 * 3);
        image_free(&back);
        image_free(&orig);
    }
    assert_int_equal(dataset_get(d, 3, latent, caption, mask, &err), -1);
    /* the settings that a checkpoint keeps suffice to decode */
    struct dataset *alone;
    struct image a, b;
    json_t *codec = dataset_codec(d);
    char *text = json_dumps(codec, 0);
    json_decref(codec);
    codec = json_loads(text, 0, NULL);
    free(text);
    assert_int_equal(dataset_get(d, 1, latent, NULL, NULL, &err), 0);
    err = (struct err){0};
    assert_int_equal(dataset_from_codec(&alone, codec, &err), 0);
    assert_int_equal(dataset_shape(alone).channels, 48);
    assert_int_equal(dataset_shape(alone).samples, 0);
    assert_int_equal(dataset_picture(d, &a, latent, 4, 4, &err), 0);
    assert_int_equal(dataset_picture(alone, &b, latent, 4, 4, &err), 0);
    assert_memory_equal(a.rgb, b.rgb, 16 * 16 * 3);
    image_free(&a);
    image_free(&b);
    dataset_close(alone);
    json_array_clear(json_object_get(codec, "mean"));
    assert_int_equal(dataset_from_codec(&alone, codec, &err), -1);
    json_decref(codec);
    dataset_close(d);
}

static void equal_inputs_have_an_equal_digest(void **state)
{
    (void)state;
    static char sum[4][64];
    struct err err = {0};
    three_pictures("once");
    struct train_spec s = spec_for("once");
    for (int i = 0; i < 4; i++) {
        struct dataset *d;
        if (i == 2)
            put_text("once/a.txt", "a yellow square");
        if (i == 3)
            s.caption_words = 2;
        assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), 0);
        snprintf(sum[i], sizeof(sum[i]), "%s", dataset_digest(d));
        dataset_close(d);
    }
    assert_string_equal(sum[0], sum[1]);
    assert_string_not_equal(sum[1], sum[2]);
    assert_string_not_equal(sum[2], sum[3]);
}

static void errors_name_the_file(void **state)
{
    (void)state;
    struct dataset *d;
    mkdir(at("bad"), 0700);
    struct train_spec s = spec_for("bad");
    static const struct {
        const char *file, *text, *says;
    } steps[] = {
        {NULL, NULL, "bad holds no pictures"},
        {"bad/p.png", "not a png", "bad/p.png has no caption: there is no p.txt, and no p.json"},
        {"bad/p.txt", "a thing", "bad/p.png is not a picture"},
        {"bad/captions.jsonl", "{\"file\":\"p.png\"}\n", "captions.jsonl:1: expected {\"file\""},
        {"bad/captions.jsonl", "\n{\"file\":\"q.png\",\"text\":\"x\"}\n",
         "captions.jsonl:2: cannot read"},
        {"bad/captions.jsonl", "\n{\"file\":\"p.png\",\"text\":\"x\"}\n",
         "bad/p.png is not a picture"},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct err err = {0};
        if (steps[i].file)
            put_text(steps[i].file, steps[i].text);
        assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), -1);
        assert_int_equal(err.code, ERR_DATA);
        if (!strstr(err.text, steps[i].says))
            fail_msg("gave: %s\n expected: %s", err.text, steps[i].says);
    }
    put_picture("bad/p.png", 0xFF00FF, 16);
    put_picture("bad/r.png", 0xFF00FF, 24);
    put_text("bad/captions.jsonl",
             "{\"file\":\"p.png\",\"text\":\"x\"}\n{\"file\":\"r.png\",\"text\":\"y\"}\n");
    struct err err = {0};
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), -1);
    assert_non_null(strstr(err.text, "bad/r.png is 24 x 24 pixels, but p.png is 16 x 16"));
    s.resolution = 8; /* scaled, both fit */
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), 0);
    assert_int_equal(dataset_shape(d).height, 2);
    dataset_close(d);
}

/* A shard of features with a group of tensors per bucket. */
static void put_groups(const char *name, const struct dataset_bucket *b, int n)
{
    static const float zeros[2 * 48 * 64];
    static const char *const kind[] = {"latent", "caption", "mask"};
    struct st_writer *w;
    int64_t bytes;
    assert_int_equal(st_writer_create(&w, NULL), 0);
    for (int g = 0; g < n; g++)
        for (int k = 0; k < 3; k++) {
            const int64_t latent[] = {b[g].samples, 48, b[g].height, b[g].width}, caption[] = {b[g].samples, 3, 16};
            char tensor[32];
            snprintf(tensor, sizeof(tensor), g > 0 ? "%s.%d" : "%s", kind[k], g);
            assert_int_equal(st_writer_add(w, tensor, ST_F32, 4 - k, k > 0 ? caption : latent, zeros, NULL), 0);
        }
    int fd = open(at(name), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(st_writer_write(w, fd, &bytes, NULL), 0);
    close(fd);
    st_writer_destroy(w);
}

/* Pictures a to f in three shapes: samples are in the order of shapes, decodable, with their captions. */
static void shapes_are_sorted_into_buckets(void **state)
{
    (void)state;
    static const struct {
        const char *name, *caption;
        uint32_t    rgb;
        int         width, height;
    } in[] = {{"a", "wide one", 0xFF0000, 64, 16}, {"b", "square", 0x00FF00, 40, 40},
              {"c", "tall", 0x0000FF, 20, 80},     {"d", "wide two", 0x808000, 128, 32},
              {"e", "square two", 0x008080, 32, 32}, {"f", "tall two", 0x800080, 16, 64}};
    static const char *const order[] = {"a.png", "d.png", "b.png", "e.png", "c.png", "f.png"};
    static const struct dataset_bucket want[] = {{0, 2, 4, 16}, {2, 2, 8, 8}, {4, 2, 16, 4}};
    struct dataset *d;
    struct err err = {0};
    char name[300];
    mkdir(at("shapes"), 0700);
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof(name), "shapes/%s.png", in[i].name);
        put_wide_picture(name, in[i].rgb, in[i].width, in[i].height);
        snprintf(name, sizeof(name), "shapes/%s.txt", in[i].name);
        put_text(name, in[i].caption);
    }
    struct train_spec s = spec_for("shapes");
    s.multi_scale = true;
    s.resolution = 32;
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), 0);
    struct dataset_shape shape = dataset_shape(d);
    assert_int_equal(shape.samples, 6);
    assert_int_equal(shape.buckets, 3);
    assert_true(shape.height == 8 && shape.width == 8); /* all of one area: the square counts */
    for (int i = 0; i < 3; i++) {
        struct dataset_bucket b = dataset_bucket(d, i);
        assert_int_equal(b.first, want[i].first);
        assert_int_equal(b.samples, want[i].samples);
        assert_int_equal(b.height, want[i].height);
        assert_int_equal(b.width, want[i].width);
    }
    for (int i = 0; i < 6; i++) {
        struct dataset_bucket b = dataset_bucket_of(d, i);
        struct image im;
        float latent[48 * 64], caption[48], mask[3], expected[48], expected_mask[3];
        assert_string_equal(dataset_name(d, i), order[i]);
        assert_int_equal(b.first, i / 2 * 2);
        assert_int_equal(dataset_get(d, i, latent, caption, mask, &err), 0);
        caption_encode(expected, expected_mask, dataset_caption(d, i), 3, 16);
        assert_memory_equal(caption, expected, sizeof(expected));
        assert_int_equal(dataset_picture(d, &im, latent, b.height, b.width, &err), 0);
        const uint8_t *mid = im.rgb + (im.height / 2 * im.width + im.width / 2) * 3;
        for (int k = 0; k < 6; k++)
            if (in[k].name[0] == order[i][0])
                for (int c = 0; c < 3; c++)
                    assert_in_range(mid[c] + 1, in[k].rgb >> (16 - 8 * c) & 0xFF,
                                    (in[k].rgb >> (16 - 8 * c) & 0xFF) + 2);
        image_free(&im);
    }
    dataset_close(d);
    put_groups("groups.safetensors", want, 3); /* features with the same buckets */
    s.encoders = ENCODERS_FEATURES;
    snprintf(s.data_path, sizeof(s.data_path), "%s", at("groups.safetensors"));
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), 0);
    assert_int_equal(dataset_shape(d).buckets, 3);
    assert_non_null(strstr(dataset_name(d, 3), ".safetensors#1.1"));
    dataset_close(d);
    s.resolution = 36; /* no whole resolution has latents of this size */
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), -1);
    assert_non_null(strstr(err.text, "data.resolution: pictures of resolution 36 have no"));
    assert_int_equal(err.code, ERR_USAGE);
    err = (struct err){0};
    s.resolution = 0;
    s.multi_scale = false;
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), -1);
    assert_non_null(strstr(err.text, "to train on several shapes set train.data.multi_scale"));
}

/* Numbers depend only on the sample's number; shapes are Sana's. */
static void synthetic_samples_follow_from_their_number(void **state)
{
    (void)state;
    struct dataset *d[2];
    struct err err = {0};
    const struct train_spec s = {.encoders = ENCODERS_SYNTHETIC, .resolution = 96,
                                 .caption_words = 5, .caption_channels = 7};
    enum { LATENT = 32 * 3 * 3, CAPTION = 5 * 7 };
    float x[2][LATENT], y[2][CAPTION], mask[5], other[LATENT];
    double sum = 0, squares = 0;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(dataset_open(&d[k], &s, NULL, NULL, &err), 0);
        assert_int_equal(dataset_get(d[k], 65535, x[k], y[k], mask, &err), 0);
    }
    const struct dataset_shape z = dataset_shape(d[0]);
    assert_true(z.samples == 65536 && z.channels == 32 && z.height == 3 && z.width == 3 &&
                z.words == 5 && z.caption_channels == 7 && z.buckets == 1);
    assert_memory_equal(x[0], x[1], sizeof(x[0]));
    assert_memory_equal(y[0], y[1], sizeof(y[0]));
    assert_true(mask[0] == 1 && mask[4] == 1);
    assert_int_equal(dataset_get(d[0], 65534, other, NULL, NULL, &err), 0);
    assert_memory_not_equal(other, x[0], sizeof(other));
    for (int i = 0; i < LATENT; i++) {
        sum += (double)x[0][i];
        squares += (double)x[0][i] * (double)x[0][i];
    }
    assert_true(fabs(sum / LATENT) < 0.25 && fabs(squares / LATENT - 1) < 0.4);
    assert_int_equal(dataset_get(d[0], 65536, other, NULL, NULL, &err), -1);
    assert_string_equal(dataset_digest(d[0]), dataset_digest(d[1]));
    assert_string_equal(dataset_name(d[0], 7), "synthetic#7");
    assert_int_equal(dataset_null(d[0], y[0], &err), 0);
    dataset_close(d[0]);
    dataset_close(d[1]);
}

static bool stop_at_two(void *arg, int64_t done, int64_t total)
{
    (void)arg;
    assert_int_equal(total, 3);
    return done < 2;
}

static void encoding_stops_on_request(void **state)
{
    (void)state;
    struct dataset *d;
    struct err err = {0};
    three_pictures("stop");
    struct train_spec s = spec_for("stop");
    assert_int_equal(dataset_open(&d, &s, stop_at_two, NULL, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.text, "stopped on request with 2 of 3 pictures encoded"));
    err = (struct err){0};
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), 0);
    dataset_close(d);
}

static void put_shard(const char *name, int64_t n, int64_t words, float base, int with_null)
{
    struct st_writer *w;
    struct err err = {0};
    float latent[4 * 2 * 3 * 3], caption[4 * 5 * 4], mask[4 * 5], null[5 * 4];
    int64_t bytes;
    for (int i = 0; i < n * 18; i++)
        latent[i] = base + (float)i;
    for (int i = 0; i < n * words * 4; i++)
        caption[i] = -base - (float)i;
    for (int i = 0; i < n * words; i++)
        mask[i] = i % words == 0;
    for (int i = 0; i < 20; i++)
        null[i] = 7;
    assert_int_equal(st_writer_create(&w, &err), 0);
    assert_int_equal(st_writer_add(w, "latent", ST_F32, 4, (int64_t[]){n, 2, 3, 3}, latent, &err),
                     0);
    assert_int_equal(
        st_writer_add(w, "caption", ST_F32, 3, (int64_t[]){n, words, 4}, caption, &err), 0);
    assert_int_equal(st_writer_add(w, "mask", ST_F32, 2, (int64_t[]){n, words}, mask, &err), 0);
    if (with_null)
        assert_int_equal(st_writer_add(w, "null", ST_F32, 2, (int64_t[]){words, 4}, null, &err), 0);
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(st_writer_write(w, fd, &bytes, &err), 0);
    close(fd);
    st_writer_destroy(w);
}

static void shards_of_features_are_numbered_in_order(void **state)
{
    (void)state;
    struct dataset *d;
    struct err err = {0};
    mkdir(at("feat"), 0700);
    put_shard("feat/s-1.safetensors", 3, 5, 1000, 1);
    put_shard("feat/s-2.safetensors", 4, 5, 2000, 0);
    struct train_spec s = spec_for("feat");
    s.encoders = ENCODERS_FEATURES;
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), 0);
    assert_int_equal(dataset_shape(d).samples, 7);
    assert_int_equal(dataset_shape(d).channels, 2);
    assert_int_equal(dataset_shape(d).words, 5);
    float latent[18], caption[20], mask[5], null[20];
    static const float first[] = {1000, 1018, 1036, 2000, 2018, 2036, 2054};
    for (int i = 0; i < 7; i++) {
        assert_int_equal(dataset_get(d, i, latent, caption, mask, &err), 0);
        assert_true(latent[0] == first[i] && latent[17] == first[i] + 17);
        assert_true(mask[0] == 1 && mask[1] == 0);
    }
    assert_string_equal(dataset_name(d, 3), "s-2.safetensors#0");
    assert_int_equal(dataset_null(d, null, &err), 0);
    assert_true(null[19] == 7);
    dataset_close(d);
    put_shard("feat/s-3.safetensors", 4, 4, 2000, 0);
    assert_int_equal(dataset_open(&d, &s, NULL, NULL, &err), -1);
    assert_non_null(strstr(err.text, "s-3.safetensors and "));
}

static void captions_are_the_same_everywhere(void **state)
{
    (void)state;
    float a[4 * 100], b[4 * 100], ma[4], mb[4];
    caption_encode(a, ma, "Go  HOME, now!", 4, 100);
    caption_encode(b, mb, "go home now", 4, 100);
    assert_memory_equal(a, b, sizeof(a));
    assert_true(ma[0] == 1 && ma[1] == 1 && ma[2] == 1 && ma[3] == 0);
    /* a change of the hash would change every model's captions: these numbers are a contract */
    static const float golden[] = {0.577350259f, -0.577350259f, -1.73205078f, -0.577350259f};
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(a[i] - golden[i]) < 1e-6f);
    double dot = 0, self = 0;
    caption_encode(b, mb, "homes cat", 4, 100);
    for (int c = 0; c < 100; c++) {
        dot += (double)a[100 + c] * b[c];
        self += (double)a[100 + c] * a[100 + c];
    }
    assert_true(dot > 30 && self > 50 && self < 170); /* home is like homes */
    caption_encode(b, mb, " ?!", 4, 100);
    assert_true(mb[0] == 1 && mb[1] == 0 && fabsf(b[0]) == 1);
    caption_encode(b, mb, "one two three four five", 4, 100);
    assert_true(mb[3] == 1);
}

static void only_files_of_dead_writers_are_removed(void **state)
{
    (void)state;
    struct err err = {0};
    char mine[SCRATCH_PATH], other[SCRATCH_PATH];
    mkdir(at("scratch"), 0700);
    assert_int_equal(scratch_name(mine, at("scratch/x"), &err), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char theirs[SCRATCH_PATH];
        if (scratch_name(theirs, at("scratch/x"), NULL) < 0 || mkdir(theirs, 0700) < 0)
            _exit(9);
        char in[SCRATCH_PATH + 8];
        snprintf(in, sizeof(in), "%s/file", theirs);
        close(open(in, O_WRONLY | O_CREAT, 0600));
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    close(open(mine, O_WRONLY | O_CREAT, 0600));
    snprintf(other, sizeof(other), "%s", at("scratch/.tmp-00000000-0000-0000-0000-000000000000-1-1-1-x"));
    close(open(other, O_WRONLY | O_CREAT, 0600));
    assert_int_equal(scratch_sweep(at("scratch")), 1);
    assert_int_equal(access(mine, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_equal(scratch_sweep(at("scratch")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_becomes_samples),
        cmocka_unit_test(equal_inputs_have_an_equal_digest),
        cmocka_unit_test(errors_name_the_file),
        cmocka_unit_test(shapes_are_sorted_into_buckets),
        cmocka_unit_test(encoding_stops_on_request),
        cmocka_unit_test(shards_of_features_are_numbered_in_order),
        cmocka_unit_test(synthetic_samples_follow_from_their_number),
        cmocka_unit_test(captions_are_the_same_everywhere),
        cmocka_unit_test(only_files_of_dead_writers_are_removed),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
