/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "controller/submit/edit_text.h"

static json_t *list(const char *const *texts, size_t n)
{
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_string(texts[i]));
    return out;
}

static void without_overrides_it_is_the_text(void **state)
{
    (void)state;
    static const char *const yamls[] = {"run: x\n", "", "# --set a=1\nrun: x", "no end"};
    for (size_t i = 0; i < 4; i++) {
        json_t *set;
        char *text = edit_text_make(yamls[i], NULL);
        assert_string_equal(text, yamls[i]);
        assert_ptr_equal(edit_text_split(&set, text), text);
        assert_int_equal(json_array_size(set), 0);
        json_decref(set);
        free(text);
    }
}

static void overrides_come_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"a=1", "run=one\ntwo", "\"x\"=1", "env.A= \"b\" ", "n=\xc3\xa4", "e="};
    json_t *set = list(texts, 6), *back;
    char *text = edit_text_make("# --set no=override\nrun: x\n", set);
    assert_string_equal(edit_text_split(&back, text), "# --set no=override\nrun: x\n");
    json_decref(back);
    json_decref(set);
    free(text);
    set = list(texts, 6);
    text = edit_text_make("run: x\n", set);
    assert_string_equal(edit_text_split(&back, text), "run: x\n");
    assert_true(json_equal(back, set));
    json_decref(back);
    json_decref(set);
    free(text);
}

static void secrets_are_those_of_the_job(void **state)
{
    (void)state;
    static const char *const texts[] = {"a=1", "env.T=[redacted]", "gone.x=[redacted]", "run=x [redacted] y"};
    static const char *const wants[] = {"a=1", "env.T=\"hush\"", "run=\"x hush y\""};
    json_t *stored = json_pack("{s:{s:s}, s:s}", "env", "T", "hush", "run", "x hush y");
    json_t *set = list(texts, 4), *want = list(wants, 3), *out = edit_text_overrides(set, stored);
    assert_true(json_equal(out, want));
    json_decref(stored);
    json_decref(set);
    json_decref(want);
    json_decref(out);
}

static void an_override_replaces_that_of_its_key(void **state)
{
    (void)state;
    static const char *const old[] = {"a=1", "env.T=[redacted]", "ab=2"}, *const more[] = {"c=5", "a=3"};
    static const char *const wants[] = {"a=3", "env.T=[redacted]", "ab=2", "c=5"}, *const bad[] = {"a=\xff"};
    json_t *set = list(old, 3), *want = list(wants, 4), *out = edit_text_merge(set, more, 2);
    assert_true(json_equal(out, want));
    assert_null(edit_text_merge(set, bad, 1));
    json_decref(set);
    json_decref(want);
    json_decref(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_overrides_it_is_the_text), cmocka_unit_test(overrides_come_back),
        cmocka_unit_test(secrets_are_those_of_the_job),
        cmocka_unit_test(an_override_replaces_that_of_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
