/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "controller/cli/options.h"
#include "engine/base/err.h"

static const struct option_row rows[] = {
    {"follow", 'f', OPTION_FLAG, NULL, ""},
    {"lines", 'n', OPTION_COUNT, "N", ""},
    {"ranks", 'r', OPTION_COUNT_AUTO, "N", ""},
    {"reason", 0, OPTION_TEXT, "TEXT", ""},
    {"set", 's', OPTION_LIST, "K=V", ""},
    {"timeout", 't', OPTION_DURATION, "TIME", ""},
    {.name = NULL},
};

/* Splits `line` at spaces; writes the parsed options as one text, or the error. */
static void parse(char *out, size_t size, const char *line)
{
    char words[256], *argv[16];
    int argc = 0;
    struct options o;
    struct err err = {0};
    snprintf(words, sizeof(words), "%s", line);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    argv[argc] = NULL;
    if (options_parse(&o, rows, OPTIONS_MIXED, argc, argv, &err) < 0) {
        assert_true(err.code == ERR_USAGE);
        snprintf(out, size, "error: %s", err.text);
        return;
    }
    const char *reason = options_text(&o, "reason");
    int n = snprintf(out, size, "f=%d n=%lld r=%s t=%.6g s=%d h=%d:", options_has(&o, "follow"),
                     (long long)options_count(&o, "lines", -1), reason ? reason : "-",
                     options_seconds(&o, "timeout", -1), o.nlist, o.help);
    for (int i = 0; i < o.nargs; i++)
        n += snprintf(out + n, size - (size_t)n, " %s", o.args[i]);
}

static const struct {
    const char *line, *found;
} table[] = {
    {"", "f=0 n=-1 r=- t=-1 s=0 h=0:"},
    {"7 -f 8", "f=1 n=-1 r=- t=-1 s=0 h=0: 7 8"},
    {"-fn5 x", "f=1 n=5 r=- t=-1 s=0 h=0: x"},
    {"-n 5 --lines=6", "f=0 n=6 r=- t=-1 s=0 h=0:"},
    {"--reason why --set a=b -s c=d", "f=0 n=-1 r=why t=-1 s=2 h=0:"},
    {"-- -f --x", "f=0 n=-1 r=- t=-1 s=0 h=0: -f --x"},
    {"- a", "f=0 n=-1 r=- t=-1 s=0 h=0: - a"},
    {"-t 90 ", "f=0 n=-1 r=- t=90 s=0 h=0:"},
    {"--timeout 1h30m", "f=0 n=-1 r=- t=5400 s=0 h=0:"},
    {"--help", "f=0 n=-1 r=- t=-1 s=0 h=1:"},
    {"-h", "f=0 n=-1 r=- t=-1 s=0 h=1:"},
    {"--folow", "error: unknown option --folow; did you mean --follow?"},
    {"--zebra", "error: unknown option --zebra; --help lists the options"},
    {"-z", "error: unknown option -z; --help lists the options"},
    {"--lines", "error: --lines needs a value: --lines N"},
    {"--lines=x", "error: --lines: expected a whole number, not \"x\""},
    {"--lines=-1", "error: --lines: expected a whole number, not \"-1\""},
    {"--ranks auto", "f=0 n=-1 r=- t=-1 s=0 h=0:"},
    {"--ranks=x", "error: --ranks: expected a whole number or auto, not \"x\""},
    {"--follow=yes", "error: --follow takes no value"},
    {"--timeout 5x", "error: --timeout: \"x\" is not a unit of time; use ms, s, m, h or d"},
};

static void test_table(void **state)
{
    (void)state;
    char found[512];
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        parse(found, sizeof(found), table[i].line);
        assert_string_equal(found, table[i].found);
    }
}

/* The words of a command keep their options. */
static void options_end_at_the_first_word(void **state)
{
    (void)state;
    char words[][4] = {"-n", "5", "ls", "-f", "--", "x"}, *argv[6], *other[] = {words[3], words[4], words[0], words[5]};
    struct options o;
    struct err err = {0};
    for (int i = 0; i < 6; i++)
        argv[i] = words[i];
    assert_int_equal(options_parse(&o, rows, OPTIONS_FIRST, 6, argv, &err), 0);
    assert_int_equal(o.nargs, 4);
    assert_string_equal(o.args[0], "ls");
    assert_string_equal(o.args[2], "--");
    assert_false(options_has(&o, "follow"));
    assert_int_equal(options_parse(&o, rows, OPTIONS_FIRST, 4, other, &err), 0);
    assert_int_equal(o.nargs, 2);
    assert_string_equal(o.args[0], "-n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table),
                                       cmocka_unit_test(options_end_at_the_first_word)};
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
