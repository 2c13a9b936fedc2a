/* SPDX-License-Identifier: Apache-2.0 */
/* test_deadline_timer.c - when a machine ends, and when to save before that */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/attempt/deadline_timer.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *session;
    int64_t     now, ends;
} sessions[] = {
    {"null", 1000, 0},
    {"{\"limit_s\":null,\"age_s\":null,\"ends_at_s\":5000}", 1000, 5000},
    {"{\"limit_s\":43200,\"age_s\":3200,\"ends_at_s\":null}", 1000, 41000},
    {"{\"limit_s\":43200,\"age_s\":null,\"ends_at_s\":null}", 1000, 0}, /* how old it is, nobody knows */
};

static void a_session_has_an_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sessions); i++) {
        json_t *facts = json_pack("{s:o}", "session", json_loads(sessions[i].session, JSON_DECODE_ANY, NULL));
        assert_int_equal(deadline_timer_of(facts, sessions[i].now), sessions[i].ends);
        json_decref(facts);
    }
}

static const struct {
    int64_t     ends, now, next;
    const char *text;
} moments[] = {
    {0, 1000, 0, NULL},
    {10000, 1000, 9400, NULL},
    {10000, 9399, 9400, NULL},
    {10000, 9400, 9820, "this machine ends in 10 min: requesting a checkpoint"},
    {10000, 9820, 9940, "this machine ends in 3 min: requesting a checkpoint"},
    {10000, 9940, 0, "this machine ends in 60 s: requesting a checkpoint"},
    {10000, 20000, 0, NULL},
};

static void saved_three_times_before_it(void **state)
{
    char text[DEADLINE_TIMER_TEXT];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(moments); i++) {
        assert_int_equal(deadline_timer_next(moments[i].ends, moments[i].now), moments[i].next);
        if (moments[i].text)
            assert_string_equal(deadline_timer_text(text, NULL, moments[i].ends, moments[i].now), moments[i].text);
    }
}

static void another_machine_is_named(void **state)
{
    char text[DEADLINE_TIMER_TEXT];
    (void)state;
    assert_string_equal(deadline_timer_text(text, "gpu2", 10000, 9940),
                        "gpu2 ends in 60 s: requesting a checkpoint");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_has_an_end),
        cmocka_unit_test(saved_three_times_before_it),
        cmocka_unit_test(another_machine_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
