/* SPDX-License-Identifier: Apache-2.0 */
/* test_line_pattern.c - patterns for lines: the same results as the C library, and patterns for which that takes too
 * long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <regex.h>

#include "agent/printed/line_pattern.h"
#include "engine/base/err.h"

enum { LINE = 4095 };

static struct line_pattern *make(const char *pattern)
{
    struct line_pattern *p = NULL;
    struct err err = {.code = ERR_NONE};
    if (line_pattern_create(&p, pattern, &err) < 0)
        fail_msg("%s: %s", pattern, err.text);
    return p;
}

/* Against regexec(), with the first group where both agree on what a group is. */
static void compare(const char *pattern, const char *line, bool group)
{
    regex_t re;
    regmatch_t at[2] = {{-1, -1}, {-1, -1}};
    struct line_group g = {-1, -1};
    struct line_pattern *p = make(pattern);
    assert_int_equal(regcomp(&re, pattern, REG_EXTENDED), 0);
    const bool found = regexec(&re, line, 2, at, 0) == 0;
    if (line_pattern_find(p, line, &g) != found)
        fail_msg("\"%s\" in \"%s\": %d is expected", pattern, line, found);
    if (found && group && (g.begin != at[1].rm_so || (g.begin >= 0 && g.end != at[1].rm_eo)))
        fail_msg("\"%s\" in \"%s\": the group is %d to %d, not %d to %d", pattern, line, g.begin, g.end,
                 (int)at[1].rm_so, (int)at[1].rm_eo);
    regfree(&re);
    line_pattern_destroy(p);
}

static void as_the_c_library_answers(void **state)
{
    static const char *const patterns[] = {
        "loss:([0-9.]+)",
        "loss[=: ]+([^ ,]+)",
        "^step ([0-9]+)",
        "([0-9]+)/100$",
        "(a|b)*c",
        "x{2,3}y",
        "x{2}y",
        "x{2,}y",
        "x{0,1}y",
        "x{,2}y",
        "a?b+c*",
        "(ab{3}){2}",
        "[]x-]+",
        "[^]x]+",
        "[a-c[:digit:]_]+",
        "\\.[0-9]",
        "\\\\",
        "a.c",
        "",
        "^$",
        "(^a|b)c",
        "a|bc|d",
        "(a|bc|d)e",
        "a||b",
        "\\bloss\\b",
        "\\Bs",
        "\\<l",
        "s\\>",
        "\\w+",
        "\\W",
        "\\s\\S",
        "()x",
        "((a)(b))c",
        "(a*)*b",
        "(a*)+",
        "([ab]|c){2}",
        "\xE5\x9B\xBE[0-9]",
        "a)",
        "[[:space:]]([0-9])",
        "(x)?y",
        "[a\\]b",
        "[[:alpha:]]+$",
        "[[:alnum:]]+",
        "[[:upper:]]",
        "[[:lower:]]",
        "[[:blank:]]",
        "[[:punct:]]",
        "[[:print:]]",
        "[[:graph:]]",
        "[[:cntrl:]]",
        "[[:xdigit:]]+",
        "[^[:space:]]",
        "loss.*(nan|inf)",
        "e[+-]?([0-9]+)",
        "a{0}b",
        "(a{2}){3}",
        "(a|ab)(c|bcd)",
        "x*",
        "$",
        "^",
        "a^b",
        "a$b",
        "[.]",
        "[$]",
    };
    static const char *const lines[] = {
        "",
        "loss:0.5",
        "step 7 loss: 12.5, lr 1e-05",
        "step 7/100",
        "ab",
        "abc",
        "aababc",
        "xxy",
        "xxxxy",
        "xy",
        "y",
        "]x-",
        "a\\b",
        "a.c",
        "abbbabbb",
        "loss=nan",
        "losses",
        "my loss",
        "bc",
        "ac",
        "e+17",
        "\xE5\x9B\xBE"
        "5",
        "a)",
        "aaaaaa",
        " 7",
        "_9",
        "-.5",
        "a^b",
        "a$b",
        "de",
        "bce",
        "inf loss inf",
        "ABC",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        for (size_t k = 0; k < sizeof(lines) / sizeof(lines[0]); k++)
            compare(patterns[i], lines[k], !strstr(patterns[i], "*)") && !strstr(patterns[i], "|ab)"));
}

/* Patterns of a few signs, without chance of missing a rule: each on each line. */
static void all_short_patterns(void **state)
{
    static const char signs[] = "ab.*?|()^$";
    static const char *const lines[] = {"", "a", "b", "ab", "ba", "aab", "abab"};
    (void)state;
    int compared = 0;
    for (int n = 0; n < 10000; n++) {
        const char pattern[] = {signs[n / 1000], signs[n / 100 % 10], signs[n / 10 % 10], signs[n % 10], '\0'};
        struct line_pattern *p;
        regex_t re;
        if (regcomp(&re, pattern, REG_EXTENDED) != 0)
            continue;
        regfree(&re);
        if (line_pattern_create(&p, pattern, NULL) < 0)
            continue;
        line_pattern_destroy(p);
        compared++;
        for (size_t k = 0; k < sizeof(lines) / sizeof(lines[0]); k++)
            compare(pattern, lines[k], false);
    }
    assert_true(compared > 4000);
}

static void what_is_wrong_is_said(void **state)
{
    static const char *const wrong[][2] = {
        {"x(", "the ( at character 2 is not closed"},
        {"[a-", "a [ has no ]"},
        {"a**b{", "the { at character 5 starts no count such as {2,5}; write \\{ for the character"},
        {"{'loss': 1}", "the { at character 1 has nothing to repeat; write \\{ for the character"},
        {"(*a)", "the * at character 2 has nothing to repeat; write \\* for the character"},
        {"a{3,2}", "the count at character 2 is not one from 0 to 1000; write * or + for more"},
        {"a{1001}", "the count at character 2 is not one from 0 to 1000; write * or + for more"},
        {"[z-a]", "the range before character 5 ends before it begins"},
        {"[[:digits:]]", "unknown class at character 3; known are [:digit:], [:alpha:], [:space:] and so on"},
        {"[[=a=]]", "unknown class at character 3; known are [:digit:], [:alpha:], [:space:] and so on"},
        {"a\\", "it ends with \\; write \\\\ for a backslash"},
        {"(.*)\\1x",
         "\\1 at character 5 is a back reference, which can take minutes for one line; write out what it repeats"},
        {"((((a{1,200}){1,200}){1,200}){1,200})",
         "it has more than 500 steps at character 21; each count multiplies what it "
         "repeats: write smaller counts, or * or +"},
        {"((a{255}){255}){255}",
         "it has more than 500 steps at character 15; each count multiplies what it repeats: write "
         "smaller counts, or * or +"},
        {"a{300}b{300}",
         "it has more than 500 steps at character 13; each count multiplies what it repeats: write smaller "
         "counts, or * or +"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct line_pattern *p;
        struct err err = {.code = ERR_NONE};
        assert_int_equal(line_pattern_create(&p, wrong[i][0], &err), -1);
        assert_string_equal(err.text, wrong[i][1]);
    }
    char deep[4000] = "";
    memset(deep, '(', 51);
    assert_int_equal(line_pattern_create(&(struct line_pattern *){NULL}, deep, NULL), -1);
    memset(deep, 'a', 501);
    assert_int_equal(line_pattern_create(&(struct line_pattern *){NULL}, deep, NULL), -1);
    for (int i = 0; i < 1500; i += 2)
        memcpy(deep + i, "a|", 2);
    assert_int_equal(line_pattern_create(&(struct line_pattern *){NULL}, deep, NULL), -1);
}

/* As many steps as there may be, with lines that keep all of them busy: the C library takes minutes for some. */
static void the_largest_patterns_end(void **state)
{
    static const char *const patterns[] = {
        "[ab]*a[ab]{490}x",
        "(a|b)*a(a|b){120}x",
        "(.*){90}x",
        "((a*)*){50}x",
        "(a?){90}a{90}x",
        "(a|aa){1,60}x",
        "(((a|b)?){40}|(ab|ba){20}){1}x",
        "a{500}",
        "((((a{1,4}){1,4}){1,4}){1,1})x",
    };
    static char line[LINE + 1];
    (void)state;
    uint32_t bits = 1;
    for (int i = 0; i < LINE; i++) {
        bits = bits * 1664525 + 1013904223;
        line[i] = bits >> 16 & 1 ? 'a' : 'b';
    }
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        struct line_pattern *p = make(patterns[i]);
        struct line_group g;
        assert_false(line_pattern_find(p, line, &g));
        line[LINE - 1] = 'x';
        line_pattern_find(p, line, &g);
        line[LINE - 1] = 'a';
        line_pattern_destroy(p);
    }
}

static void the_group_is_the_number(void **state)
{
    static const char *const cases[][3] = {
        {"loss:([0-9.]+)", "step 1 loss:0.5 loss:9", "0.5"},
        {"(\\d+)", "abc 123 45", "123"},
        {"(a|ab)(c|bcd)", "abcd", "a"},
        {"((x)|(y))z", "yz", "y"},
        {"a(b)?c", "ac", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct line_pattern *p = make(cases[i][0]);
        struct line_group g;
        assert_true(line_pattern_find(p, cases[i][1], &g));
        assert_int_equal(g.begin >= 0, cases[i][2] != NULL);
        if (cases[i][2])
            assert_memory_equal(cases[i][1] + g.begin, cases[i][2], strlen(cases[i][2]));
        if (cases[i][2])
            assert_int_equal(g.end - g.begin, strlen(cases[i][2]));
        line_pattern_destroy(p);
    }
    struct line_pattern *p = make("((a)(b))(c)");
    assert_int_equal(line_pattern_groups(p), 4);
    line_pattern_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_c_library_answers), cmocka_unit_test(all_short_patterns),
        cmocka_unit_test(what_is_wrong_is_said),    cmocka_unit_test(the_largest_patterns_end),
        cmocka_unit_test(the_group_is_the_number),
    };
    return cmocka_run_group_tests_name("line pattern", tests, NULL, NULL);
}
