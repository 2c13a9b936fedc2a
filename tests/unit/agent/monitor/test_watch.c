/* SPDX-License-Identifier: Apache-2.0 */
/* test_watch.c - rules about output on a virtual clock */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/monitor/watch.h"
#include "engine/base/err.h"

static struct watch *make(const char *text)
{
    json_t *rules = json_loads(text, 0, NULL);
    struct watch *w;
    struct err err = {0};
    assert_non_null(rules);
    if (watch_create(&w, rules, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(rules);
    watch_begin(w, 1000);
    return w;
}

static void silence_breaks_a_rule(void **state)
{
    (void)state;
    struct watch *w = make("[{\"name\":\"loss\",\"pattern\":\"loss:([0-9.]+)\",\"every\":10,"
                           "\"start_within\":60,\"action\":\"restart\"}]");
    struct watch_verdict v;
    assert_true(watch_has_rules(w));
    assert_false(watch_look(w, 60000, &v));
    watch_line(w, 0, "hello", 60000);
    assert_true(watch_look(w, 61001, &v));
    assert_true(v.init && v.restart && !v.value);
    assert_string_equal(v.text, "no output matched watch rule \"loss\" within 60 s of the start");
    assert_false(watch_look(w, 61002, &v)); /* told once */

    watch_begin(w, 100000);
    watch_line(w, 1, "step 1 loss:0.5", 110000);
    assert_false(watch_look(w, 120000, &v));
    watch_line(w, 1, "step 2 loss:0.4", 120000);
    assert_false(watch_look(w, 130000, &v));
    assert_true(watch_look(w, 130500, &v));
    assert_false(v.init);
    assert_string_equal(v.text, "no output matched watch rule \"loss\" for 10.5 s (limit 10 s)");
    watch_destroy(w);
}

static void numbers_have_a_limit(void **state)
{
    (void)state;
    struct watch *w = make("[{\"name\":\"loss\",\"pattern\":\"loss[=:] *([^ ]+)\",\"below\":10,"
                           "\"action\":\"warn\"},{\"name\":\"up\",\"pattern\":\"ready\"}]");
    struct watch_verdict v;
    watch_line(w, 0, "loss: 9.99 lr 1", 2000);
    watch_line(w, 0, "ready", 2000);
    watch_line(w, 0, "loss: pending", 2000); /* no number */
    assert_false(watch_look(w, 1000000, &v));
    watch_line(w, 3, "loss= nan", 3000);
    assert_true(watch_look(w, 3000, &v));
    assert_true(v.value && !v.restart);
    assert_string_equal(v.text, "watch rule \"loss\": rank 3 printed nan (limit: below 10)");
    watch_destroy(w);
}

static void none_and_wrong_ones(void **state)
{
    (void)state;
    struct watch *w;
    struct watch_verdict v;
    struct err err = {0};
    assert_int_equal(watch_create(&w, NULL, &err), 0);
    assert_false(watch_has_rules(w));
    watch_line(w, 0, "x", 1);
    assert_false(watch_look(w, 1, &v));
    watch_destroy(w);
    json_t *wrong = json_loads("[{\"name\":\"a\",\"pattern\":\"x\"},{\"name\":\"b\",\"pattern\":\"(\"}]", 0, NULL);
    assert_int_equal(watch_create(&w, wrong, &err), -1);
    assert_string_equal(err.text, "watch b: the pattern cannot be used: the ( at character 1 is not closed");
    json_decref(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_breaks_a_rule),
        cmocka_unit_test(numbers_have_a_limit),
        cmocka_unit_test(none_and_wrong_ones),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
