/* SPDX-License-Identifier: Apache-2.0 */
/* test_ignore.c - rules of .gitignore files; the answers are those of git check-ignore */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "controller/code/ignore.h"

static void patterns(void **state)
{
    static const struct {
        const char *rules, *path;
        bool        directory, left;
    } rows[] = {
        {"*.pt", "a.pt", false, true},
        {"*.pt", "deep/er/a.pt", false, true},
        {"*.pt", "a.ptx", false, false},
        {"# *.pt\n\n", "a.pt", false, false},
        {"\\#x", "#x", false, true},
        {"\\!x", "!x", false, true},
        {"/out", "out", true, true},
        {"/out", "src/out", true, false},
        {"out/", "out", true, true},
        {"out/", "out", false, false},
        {"out/", "src/out", true, true},
        {"src/out", "src/out", true, true},
        {"src/out", "a/src/out", true, false},
        {"**/out", "a/src/out", true, true},
        {"**/out", "out", true, true},
        {"a/**/out", "a/out", true, true},
        {"a/**/out", "a/b/c/out", true, true},
        {"a/**", "a/b", false, true},
        {"a/**", "a", true, false},
        {"a/*", "a/b", false, true},
        {"a/*/c", "a/b/x/c", false, false},
        {"[ab]?.txt", "a1.txt", false, true},
        {"[ab]?.txt", "c1.txt", false, false},
        {"*.log\n!keep.log", "keep.log", false, false},
        {"!keep.log\n*.log", "keep.log", false, true},
        {"x  ", "x", false, true},
        {"x\\ ", "x ", false, true},
        {"x\r\ny", "x", false, true},
        {"/", "a", true, false},
        {"!", "a", true, false},
        {"*", ".hidden", false, true},
        {"a*b*c", "aXbYbZc", false, true},
        {"a*b*c", "aXbYbZ", false, false},
        {"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false, false},
        {"**/a/**/a/**/a/**/b", "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a", false, false},
        {"a/**/c", "a/b/c/c", false, true},
        {"**/b/**/d/e", "a/b/d/d/e", false, true},
        {"[!a]x", "bx", false, true},
        {"[!a]x", "ax", false, false},
        {"[]x]y", "]y", false, true},
        {"[[:digit:]]y", "7y", false, true},
        {"[a-y", "a", false, false},
        {"a\\*b", "a*b", false, true},
        {"a\\*b", "aXb", false, false},
        {"a**b", "aXYb", false, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ignore *g = ignore_create();
        assert_non_null(g);
        assert_int_equal(ignore_add(g, "", rows[i].rules), 0);
        if (ignore_has(g, rows[i].path, rows[i].directory) != rows[i].left)
            fail_msg("%s: %s", rows[i].rules, rows[i].path);
        ignore_destroy(g);
    }
}

static void nested_files(void **state)
{
    struct ignore *g = ignore_create();
    (void)state;
    assert_int_equal(ignore_add(g, "", "*.bin\nbuild/\n"), 0);
    assert_int_equal(ignore_add(g, "sub", "!good.bin\n/only\n"), 0);
    assert_true(ignore_has(g, "good.bin", false));
    assert_false(ignore_has(g, "sub/good.bin", false));
    assert_true(ignore_has(g, "sub/bad.bin", false));
    assert_true(ignore_has(g, "sub/only", false));
    assert_false(ignore_has(g, "subs/only", false));
    assert_false(ignore_has(g, "sub/x/only", false));
    assert_true(ignore_keeps(g, "sub/good.bin"));
    assert_false(ignore_keeps(g, "good.bin"));
    assert_false(ignore_keeps(g, "sub/other"));
    ignore_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),
        cmocka_unit_test(nested_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
