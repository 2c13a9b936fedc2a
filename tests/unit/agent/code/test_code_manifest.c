/* SPDX-License-Identifier: Apache-2.0 */
/* test_code_manifest.c - a snapshot's file list: its digest, and invalid lists from another side */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "agent/code/code_manifest.h"
#include "engine/base/err.h"

#define SUM "xxh3:00112233445566778899aabbccddeeff"

static json_t *list_of(const char *files)
{
    json_t *rows = json_loads(files, 0, NULL);
    assert_non_null(rows);
    return json_pack("{s:i, s:o}", "version", 1, "files", rows);
}

static void paths(void **state)
{
    static const char *const good[] = {"a", "a/b", ".x", "a/..b", "..."};
    static const char *const bad[] = {"", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/."};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(code_path_ok(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(code_path_ok(bad[i]));
}

static void links(void **state)
{
    static const struct {
        const char *path, *target;
        bool        inside;
    } rows[] = {
        {"a", "b", true},          {"a", "../b", false},      {"d/a", "../b", true},  {"d/a", "../../b", false},
        {"a", "/etc", false},      {"a", "x/../../y", false}, {"a", "x/../y", true},  {"a", "", false},
        {"d/e/a", "./../f", true}, {"a", "..", false},        {"d/a", "..", true},    {"d/a", "x//y", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (code_link_inside(rows[i].path, rows[i].target) != rows[i].inside)
            fail_msg("%s -> %s", rows[i].path, rows[i].target);
}

static void checks(void **state)
{
    static const struct {
        const char *files, *wrong;
    } rows[] = {
        {"[]", NULL},
        {"[[\"a\", \"file\", 3, \"" SUM "\"], [\"b/c\", \"program\", 0, \"" SUM "\"], [\"b/d\", \"link\", 0, \"c\"]]",
         NULL},
        {"[[\"../a\", \"file\", 3, \"" SUM "\"]]", "invalid entry: ../a"},
        {"[[\"a\", \"device\", 3, \"" SUM "\"]]", "invalid entry: a"},
        {"[[\"a\", \"file\", -1, \"" SUM "\"]]", "invalid entry: a"},
        {"[[\"a\", \"file\", 3, \"xxh3:12\"]]", "invalid entry: a"},
        {"[[\"a\", \"link\", 0, \"/etc/passwd\"]]", "invalid entry: a"},
        {"[[\"a\", \"link\", 0, \"../x\"]]", "invalid entry: a"},
        {"[[\"b\", \"file\", 3, \"" SUM "\"], [\"a\", \"file\", 3, \"" SUM "\"]]", "not sorted at a"},
        {"[[\"a\", \"file\", 3, \"" SUM "\"], [\"a\", \"file\", 3, \"" SUM "\"]]", "not sorted at a"},
        {"[[\"a\", \"link\", 0, \"b\"], [\"a-\", \"file\", 3, \"" SUM "\"], [\"a/b\", \"file\", 3, \"" SUM "\"]]",
         "not sorted at a/b"},
        {"[3]", "invalid entry: no path"},
        {"{}", "not a snapshot's file list"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = {.code = ERR_NONE};
        json_t *m = list_of(rows[i].files);
        const int rc = code_manifest_check(m, &err);
        if (rows[i].wrong ? rc == 0 || !strstr(err.text, rows[i].wrong) : rc != 0)
            fail_msg("%s: %s", rows[i].files, err.text);
        json_decref(m);
    }
}

/* Each part of an entry is in the digest, and nothing runs into its neighbour. */
static void digests(void **state)
{
    static const struct code_entry entries[] = {
        {"ab", CODE_FILE, 1, SUM}, {"a", CODE_FILE, 1, SUM},         {"ab", CODE_PROGRAM, 1, SUM},
        {"ab", CODE_FILE, 2, SUM}, {"ab", CODE_LINK, 1, SUM},        {"ab", CODE_FILE, 1, "xxh3:"},
        {"ab", CODE_FILE, 11, ""}, {"abfile", CODE_PROGRAM, 1, SUM},
    };
    enum { N = sizeof(entries) / sizeof(entries[0]) };
    char sums[N][CODE_DIGEST], again[CODE_DIGEST];
    (void)state;
    for (int i = 0; i < N; i++) {
        json_t *m = code_manifest_create();
        assert_int_equal(code_manifest_add(m, &entries[i]), 0);
        assert_int_equal(code_manifest_digest(sums[i], m, NULL), 0);
        assert_int_equal(code_manifest_digest(again, m, NULL), 0);
        assert_string_equal(sums[i], again);
        assert_true(code_digest_ok(again));
        assert_int_equal(code_manifest_bytes(m), entries[i].bytes);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(sums[i], sums[k]);
        json_decref(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(links),
        cmocka_unit_test(checks),
        cmocka_unit_test(digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
