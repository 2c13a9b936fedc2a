/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_reader.c - a reader sees one stream of bytes across rotations */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/os/log_reader.h"
#include "agent/ranks/capture.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { LIMIT = 100, ALL = 4000 };

static char dir[80], path[100];

static int up(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "captured");
    snprintf(path, sizeof(path), "%s/rank0.log", dir);
    return 0;
}

static int down(void **state)
{
    static const char *const names[] = {"", ".1", ".base", ".base.new"};
    char name[120];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", path, names[i]);
        unlink(name);
    }
    return rmdir(dir);
}

/* What is there from `offset` on, at most `limit` bytes; *next is where to go on. */
static const char *read_at(int64_t offset, size_t limit, int64_t *next)
{
    static char text[ALL + 1];
    struct log_reader c = {.offset = offset};
    struct err err = {0};
    assert_int_equal(log_reader_read(&c, path, limit, &err), 0);
    assert_true(c.got <= limit && c.got <= ALL);
    memcpy(text, c.data, c.got);
    text[c.got] = '\0';
    free(c.data);
    *next = c.offset + (int64_t)c.got;
    return text;
}

static void nothing_yet(void **state)
{
    (void)state;
    struct log_reader c = {.offset = -10};
    assert_int_equal(log_reader_read(&c, path, 10, NULL), 0);
    assert_int_equal(c.size, -1);
    assert_int_equal(c.offset, 0);
    assert_int_equal(c.got, 0);
    free(c.data);
}

/* Who reads after every line, in pieces of any size, gets every byte once, in order. */
static void a_follower_misses_nothing(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 40; piece += 13) {
        struct capture *c;
        char written[ALL] = "", seen[ALL] = "";
        int64_t at = 0;
        assert_int_equal(capture_open(&c, path, LIMIT, NULL), 0);
        for (int i = 0; i < 60; i++) {
            char line[40];
            int n = snprintf(line, sizeof(line), "line %d of sixty\n", i);
            capture_write(c, line, (size_t)n);
            strcat(written, line);
            for (const char *part; *(part = read_at(at, piece, &at));)
                strcat(seen, part);
        }
        capture_close(c);
        assert_string_equal(seen, written);
        assert_int_equal(log_reader_base(path) > 0, 1);
        down(NULL);
        up(NULL);
    }
}

static void a_tail_reaches_over_both_files(void **state)
{
    (void)state;
    struct capture *c;
    int64_t next;
    char written[ALL] = "";
    assert_int_equal(capture_open(&c, path, LIMIT, NULL), 0);
    for (int i = 0; i < 11; i++) {
        char line[40];
        int n = snprintf(line, sizeof(line), "line %2d of eleven\n", i);
        capture_write(c, line, (size_t)n);
        strcat(written, line);
    }
    capture_close(c);
    int64_t size = (int64_t)strlen(written);
    assert_string_equal(read_at(-40, 40, &next), written + size - 40);
    assert_int_equal(next, size);
    /* what is older than both files is skipped, whole lines stay */
    const char *all = read_at(0, ALL, &next);
    assert_true(strlen(all) > 60 && strlen(all) < strlen(written));
    assert_string_equal(all, written + size - (int64_t)strlen(all));
    assert_memory_equal(all, "line ", 5);
    assert_string_equal(read_at(size + 5, 40, &next), "");
    assert_string_equal(read_at(INT64_MAX, 40, &next), "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_yet),
        TEST(a_follower_misses_nothing),
        TEST(a_tail_reaches_over_both_files),
    };
    return cmocka_run_group_tests_name("captured", tests, NULL, NULL);
}
