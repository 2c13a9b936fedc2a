/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/diagnostics.h"
#include "controller/spec/jobspec.h"
#include "controller/submit/command_text.h"
#include "engine/base/err.h"

enum { WORDS = 8 };

static const struct {
    const char *words[WORDS];
    const char *shell, *name;
} table[] = {
    {{"python", "train.py", "--lr", "1e-4"}, "python train.py --lr 1e-4", "train"},
    {{"python3.12", "-u", "/a/b/main.v2.py"}, "python3.12 -u /a/b/main.v2.py", "main.v2"},
    {{"torchrun", "--nproc_per_node", "2", "x.py"}, "torchrun --nproc_per_node 2 x.py", "x"},
    {{"accelerate", "launch", "t.py"}, "accelerate launch t.py", "t"},
    {{"./train", "it's"}, "./train 'it'\\''s'", "train"},
    {{"echo", "", "$HOME", "*", "a b", "~"}, "echo '' '$HOME' '*' 'a b' '~'", "echo"},
    {{"echo", ";rm", "-rf", "`x`", "!", "#", "{a,b}"}, "echo ';rm' -rf '`x`' '!' '#' '{a,b}'", "echo"},
    {{"A=1", "B_2=a b", "C=", "env", "D=x y"}, "A=1 B_2='a b' C= env 'D=x y'", "D-x"},
    {{"2=x", "y"}, "2=x y", "job"},
    {{"a\nb", "\\"}, "'a\nb' '\\'", "a"},
    {{"make && ./train > log"}, "make && ./train > log", "make"},
    {{"python train.py"}, "python train.py", "python"},
    {{"./last", "x"}, "./last x", "job"},
    {{"7z", "x"}, "7z x", "job"},
    {{"/", "x"}, "/ x", "job"},
    {{"bash"}, "bash", "bash"},
    {{"A=1"}, "A=1", "job"},
};

static int count_of(const char *const *words)
{
    int n = 0;
    while (n < WORDS && words[n])
        n++;
    return n;
}

static void words_are_quoted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct err err = {0};
        char *shell = command_text_shell(table[i].words, count_of(table[i].words), &err);
        assert_non_null(shell);
        assert_string_equal(shell, table[i].shell);
        free(shell);
    }
}

static void the_name_is_that_of_the_script(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char name[65];
        command_text_name(name, sizeof(name), table[i].words, count_of(table[i].words));
        assert_string_equal(name, table[i].name);
    }
}

static json_t *parsed(const struct command_wish *wish, const char *const *words, int count)
{
    struct err err = {0};
    struct diagnostics found;
    json_t *spec = NULL;
    char *text = command_text_spec(wish, words, count, &err);
    assert_non_null(text);
    if (jobspec_parse(&spec, text, "-", "/tmp", NULL, 0, &found, &err) < 0)
        fail_msg("%s\n%s", err.text, text);
    free(text);
    return spec;
}

/* What YAML may not contain, or would change, arrives as it was. */
static void a_spec_keeps_every_character(void **state)
{
    (void)state;
    const char *const words[] = {"echo", "a\tb\r\n\n c \"d\" \\e", "\x01\x1b\x7f\xc2\x85\xc2\x80",
                                 "\xe2\x80\xa8\xe2\x80\xa9",
                                 "\xef\xbb\xbf\xef\xbf\xbf", "\xc3\xa4\xe2\x98\x83\xf0\x9f\x98\x80", ": # - %", " "};
    const struct command_wish wish = {.name = NULL, .ranks = COMMAND_AUTO, .gpus = COMMAND_ONE};
    struct err err = {0};
    char *shell = command_text_shell(words, WORDS, &err);
    json_t *spec = parsed(&wish, words, WORDS);
    assert_string_equal(json_string_value(json_object_get(spec, "run")), shell);
    assert_string_equal(json_string_value(json_object_get(spec, "name")), "echo");
    assert_string_equal(json_string_value(json_object_get(json_object_get(spec, "resources"), "gpus")), "one");
    json_decref(spec);
    free(shell);
}

static void a_spec_has_what_was_asked(void **state)
{
    (void)state;
    const char *const words[] = {"true"};
    const struct command_wish wish = {.name = "mine", .ranks = 3, .gpus = 0};
    json_t *spec = parsed(&wish, words, 1), *resources = json_object_get(spec, "resources");
    assert_string_equal(json_string_value(json_object_get(spec, "name")), "mine");
    assert_int_equal(json_integer_value(json_object_get(resources, "ranks")), 3);
    assert_true(json_is_integer(json_object_get(resources, "gpus")));
    assert_int_equal(json_integer_value(json_object_get(resources, "gpus")), 0);
    json_decref(spec);
}

static void bytes_are_refused(void **state)
{
    (void)state;
    const char *const words[] = {"echo", "a\xff"};
    struct err err = {0};
    assert_null(command_text_shell(words, 2, &err));
    assert_int_equal(err.code, ERR_USAGE);
    assert_string_equal(err.text, "word 2 of the command is not valid UTF-8, as a job's text must be");
    struct err named = {0};
    const struct command_wish wish = {.name = "\xff", .ranks = COMMAND_AUTO, .gpus = COMMAND_ONE};
    assert_null(command_text_spec(&wish, words, 1, &named));
    assert_string_equal(named.text, "the job's name is not valid UTF-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_quoted),
        cmocka_unit_test(the_name_is_that_of_the_script),
        cmocka_unit_test(a_spec_keeps_every_character),
        cmocka_unit_test(a_spec_has_what_was_asked),
        cmocka_unit_test(bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
