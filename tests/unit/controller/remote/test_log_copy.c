/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_copy.c - parts of logs from another machine: in order, again, with a gap, and with what must not be written */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log_reader.h"
#include "agent/wire/log_feed.h"
#include "controller/remote/log_copy.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[80];

static int up(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "logs");
    return 0;
}

static int down(void **state)
{
    (void)state;
    return scratch_dir_remove(dir);
}

static int take(const char *file, json_int_t offset, const char *bytes, size_t size)
{
    struct err err = { 0 };
    json_t *body = json_pack("{s:s*, s:I, s:o*}", "file", file, "offset", offset, "data",
                             bytes ? log_feed_text(bytes, size) : NULL);
    const int rc = log_copy_take(dir, body, &err);
    assert_true((rc < 0) == (err.code == ERR_DATA));
    json_decref(body);
    return rc;
}

static void assert_log(const char *file, int64_t offset, const char *want)
{
    char path[200];
    struct log_reader r = { .offset = offset };
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    assert_int_equal(log_reader_read(&r, path, 1000, NULL), 0);
    assert_int_equal(r.got, strlen(want));
    assert_memory_equal(r.data, want, r.got);
    free(r.data);
}

static json_int_t have(const char *file)
{
    json_t *all = log_copy_have(dir), *v = json_object_get(all, file);
    const json_int_t n = v ? json_integer_value(v) : -1;
    json_decref(all);
    return n;
}

static void parts_become_a_log(void **state)
{
    (void)state;
    assert_int_equal(have("rank0.log"), -1);
    assert_int_equal(take("rank0.log", 0, "one\n", 4), 0);
    assert_int_equal(take("rank0.log", 4, "two\n", 4), 0);
    assert_int_equal(take("rank0.log", 0, "one\ntwo\n", 8), 0);   /* known */
    assert_int_equal(take("rank0.log", 2, "e\ntwo\nthr", 9), 0);  /* partly known */
    assert_int_equal(take("rank0.log", 11, "ee\n", 3), 0);
    assert_log("rank0.log", 0, "one\ntwo\nthree\n");
    assert_int_equal(have("rank0.log"), 14);
    /* Bytes that the other machine has dropped are a gap, not a shift. */
    assert_int_equal(take("rank0.log", 20, "last\n", 5), 0);
    assert_log("rank0.log", 20, "last\n");
    assert_int_equal(have("rank0.log"), 25);
    assert_int_equal(take("setup.node1.log", 0, "", 0), 0);
    assert_int_equal(take("agent.log", 0, "a", 1), 0);
    assert_int_equal(have("agent.log"), 1);
}

static void what_must_not_be_written(void **state)
{
    (void)state;
    static const char *const names[] = { "../x.log", "rank.log", "rank1.log.1", "rank123456.log", "/etc/passwd", "spool",
                                         "", "rank1.logx", "setup.node.log", "rank-1.log", NULL };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(take(names[i], 0, "x", 1), -1);
    assert_int_equal(take("rank0.log", -1, "x", 1), -1);
    assert_int_equal(take("rank0.log", 0, NULL, 0), -1);
    json_t *body = json_pack("{s:s, s:i, s:s}", "file", "rank0.log", "offset", 0, "data", "\xe2\x82\xac"); /* no byte */
    assert_int_equal(log_copy_take(dir, body, NULL), -1);
    json_decref(body);
    DIR *d = opendir(dir);
    int entries = 0;
    while (readdir(d))
        entries++;
    closedir(d);
    assert_int_equal(entries, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(parts_become_a_log, up, down),
                                        cmocka_unit_test_setup_teardown(what_must_not_be_written, up, down) };
    return cmocka_run_group_tests_name("log_copy", tests, NULL, NULL);
}
