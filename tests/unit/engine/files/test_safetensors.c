/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors.c - a written file reads back; malformed headers are refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* A file in memory from a header text and `data` bytes. Freed by the caller. */
static unsigned char *make_file(const char *header, size_t data, size_t *size)
{
    uint64_t n = strlen(header);
    *size = 8 + n + data;
    unsigned char *b = calloc(1, *size);
    assert_non_null(b);
    memcpy(b, &n, 8);
    memcpy(b + 8, header, n);
    for (size_t i = 0; i < data; i++)
        b[8 + n + i] = (unsigned char)i;
    return b;
}

static void lies_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t      data;
        const char *says; /* NULL: accepted */
    } rows[] = {
        {"{}", 0, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   ", 4, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[0,0]}}", 0, NULL},
        {"{\"__metadata__\":{\"k\":\"v\"}}", 0, NULL},
        {"{}", 1, "follow the last tensor"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "not a string"},
        {"{\"__metadata__\":[]}", 0, "not an object"},
        {"[]", 0, "not a JSON object"},
        {"{\"a\":", 0, "not JSON"},
        {"{\"a\":1}", 0, "not an object"},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "0 characters"},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no \"dtype\""},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "type \"F4\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "\"shape\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "\"shape\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "not a count"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, "not a count"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,8],\"data_offsets\":[0,0]}}", 0,
         "larger than memory"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
         "larger than memory"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,12]}}", 12, "needs 8 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "two numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 8, "or truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "or truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "or truncated"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, "not JSON"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}", 6, "overlap"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t size;
        unsigned char *b = make_file(rows[i].header, rows[i].data, &size);
        struct st_file *f = NULL;
        struct err err = {0};
        int r = st_parse(&f, b, size, &err);
        if (rows[i].says && (r != -1 || !strstr(err.text, rows[i].says)))
            fail_msg("row %zu: %d \"%s\"", i, r, err.text);
        if (!rows[i].says && r != 0)
            fail_msg("row %zu refused: %s", i, err.text);
        st_close(f);
        free(b);
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    size_t size;
    unsigned char *b = make_file(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, &size);
    for (size_t n = 0; n < size; n++) {
        struct st_file *f = NULL;
        struct err err = {0};
        unsigned char *cut = malloc(n ? n : 1); /* a block of its own, for the address sanitizer */
        memcpy(cut, b, n);
        assert_int_equal(st_parse(&f, cut, n, &err), -1);
        assert_int_equal(err.code, ERR_DATA);
        free(cut);
    }
    memset(b, 0xff, 8);
    struct st_file *f = NULL;
    struct err err = {0};
    assert_int_equal(st_parse(&f, b, size, &err), -1);
    free(b);
}

static void types_convert(void **state)
{
    (void)state;
    static const struct {
        enum st_dtype dtype;
        union {
            uint64_t u64;
            double   f64;
            float    f32;
        } bits;
        double value;
    } rows[] = {
        {ST_F32, {.f32 = -1.5f}, -1.5},      {ST_F64, {.f64 = 0.1}, 0.1},
        {ST_F16, {0x3C00}, 1.0},             {ST_F16, {0xC000}, -2.0},
        {ST_F16, {0x0001}, 0x1p-24},         {ST_F16, {0x8001}, -0x1p-24},
        {ST_F16, {0x7BFF}, 65504.0},         {ST_F16, {0x7C00}, (double)__builtin_inff()},
        {ST_BF16, {0x3F80}, 1.0},            {ST_BF16, {0xC040}, -3.0},
        {ST_I64, {UINT64_MAX}, -1.0},        {ST_I32, {0xFFFFFFFE}, -2.0},
        {ST_U8, {255}, 255.0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct st_tensor t = {.name = "t", .dtype = rows[i].dtype, .count = 1, .ndim = 0,
                              .bytes = st_dtype_size(rows[i].dtype), .data = &rows[i].bits};
        float f = 0;
        double d = 0;
        struct err err = {0};
        assert_int_equal(st_to_float(&f, &t, 1, &err), 0);
        assert_int_equal(st_to_double(&d, &t, 1, &err), 0);
        assert_true(d == rows[i].value);
        assert_true(f == (float)rows[i].value);
        assert_int_equal(st_to_float(&f, &t, 2, &err), -1);
    }
}

static void a_written_file_reads_back(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    char path[256];
    snprintf(path, sizeof(path), "%s/jobctl-st.XXXXXX", tmp ? tmp : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    float a[6] = {1, 2, 3, 4, 5, 6};
    int64_t step = 41;
    uint8_t odd[3] = {7, 8, 9};
    struct st_writer *w = NULL;
    struct err err = {0};
    assert_int_equal(st_writer_create(&w, &err), 0);
    assert_int_equal(st_writer_meta(w, "what", "a \"test\"\n", &err), 0);
    assert_int_equal(st_writer_add(w, "a", ST_F32, 2, (int64_t[]){2, 3}, a, &err), 0);
    assert_int_equal(st_writer_add(w, "step", ST_I64, 0, NULL, &step, &err), 0);
    assert_int_equal(st_writer_add(w, "odd", ST_U8, 1, (int64_t[]){3}, odd, &err), 0);
    struct err twice = {0};
    assert_int_equal(st_writer_add(w, "a", ST_F32, 2, (int64_t[]){2, 3}, a, &twice), -1);
    int64_t bytes = 0;
    assert_int_equal(st_writer_write(w, fd, &bytes, &err), 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), bytes);
    st_writer_destroy(w);
    close(fd);

    struct st_file *f = NULL;
    assert_int_equal(st_open(&f, path, &err), 0);
    assert_int_equal(st_len(f), 3);
    assert_string_equal(st_at(f, 0)->name, "a");
    assert_int_equal((uintptr_t)st_at(f, 0)->data % 64, 0);
    assert_string_equal(st_meta(f, "what"), "a \"test\"\n");
    assert_null(st_meta(f, "who"));
    const struct st_tensor *t = st_find(f, "step");
    assert_non_null(t);
    assert_memory_equal(t->data, &step, 8);
    assert_memory_equal(st_find(f, "a")->data, a, sizeof(a));
    assert_int_equal(st_find(f, "a")->dim[1], 3);
    assert_memory_equal(st_find(f, "odd")->data, odd, 3);
    assert_null(st_find(f, "b"));
    st_close(f);
    unlink(path);
}

static void failures_name_the_file(void **state)
{
    (void)state;
    struct st_file *f = NULL;
    struct err err = {0};
    assert_int_equal(st_open(&f, "/nonexistent/x.safetensors", &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "/nonexistent/x.safetensors"));
    struct err dir = {0};
    assert_int_equal(st_open(&f, "/", &dir), -1);
    struct st_writer *w = NULL;
    struct err full = {0};
    char byte = 0;
    assert_int_equal(st_writer_create(&w, &full), 0);
    assert_int_equal(st_writer_add(w, "x", ST_U8, 1, (int64_t[]){1}, &byte, &full), 0);
    assert_int_equal(st_writer_write(w, -1, NULL, &full), -1);
    assert_int_equal(full.code, ERR_SYSTEM);
    st_writer_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_are_refused),      cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(types_convert),         cmocka_unit_test(a_written_file_reads_back),
        cmocka_unit_test(failures_name_the_file),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
