/* SPDX-License-Identifier: Apache-2.0 */
/* test_spec_units.c - parsing of durations and intervals, and the edit distance */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "controller/spec/spec_suggest.h"
#include "controller/spec/spec_units.h"
#include "engine/base/err.h"

static const struct {
    const char *text;
    double      seconds;    /* -1: rejected */
} durations[] = {
    {"30s", 30}, {"500 ms", 0.5}, {"5m", 300}, {"1h 30m", 5400}, {"1h30m", 5400}, {"1.5h", 5400},
    {"2d", 172800}, {"2 days", 172800}, {"1 minute", 60}, {"0s", 0}, {" 7s ", 7},
    {"24:00:00", 86400}, {"0:01:05", 65}, {"1-12:00:00", 129600}, {"100:00:00", 360000},
    {"", -1}, {"5", -1}, {"s", -1}, {"5 x", -1}, {".5s", 0.5}, {"5s 1m", -1}, {"5s 5s", -1},
    {"24:00", -1}, {"1:60:00", -1}, {"1:00:60", -1}, {"1:00:00x", -1}, {"1e3s", -1}, {"5.s", -1},
    {".5s", 0.5}, {"99999999999999999999s", -1}, {"1-2-3:00:00", -1}, {"::", -1},
};

static void test_durations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        double seconds = -7;
        struct err err = {0};
        int rc = spec_duration_parse(&seconds, durations[i].text, &err);
        double want = durations[i].seconds;
        if (rc != (want < 0 ? -1 : 0) || seconds != (want < 0 ? -7 : want))
            fail_msg("\"%s\" is %g", durations[i].text, seconds);
        assert_true((err.code == ERR_USAGE) == (rc < 0));
    }
}

static void test_ranges_and_every(void **state)
{
    (void)state;
    double low = 0, high = 0;
    struct spec_every every = {0};
    assert_int_equal(spec_range_parse(&low, &high, "500 ms..1h 30m", NULL), 0);
    assert_true(low == 0.5 && high == 5400);
    assert_int_equal(spec_range_parse(&low, &high, "5s", NULL), -1);
    assert_int_equal(spec_range_parse(&low, &high, "..5s", NULL), -1);
    assert_int_equal(spec_range_parse(&low, &high, "6s..5s", NULL), -1);
    assert_true(low == 0.5 && high == 5400);
    assert_int_equal(spec_every_parse(&every, "500 steps", NULL), 0);
    assert_true(every.steps == 500 && every.seconds == 0);
    assert_int_equal(spec_every_parse(&every, "1step", NULL), 0);
    assert_true(every.steps == 1);
    assert_int_equal(spec_every_parse(&every, "10m", NULL), 0);
    assert_true(every.steps == 0 && every.seconds == 600);
    assert_int_equal(spec_every_parse(&every, "0 steps", NULL), -1);
    assert_int_equal(spec_every_parse(&every, "0s", NULL), -1);
    assert_int_equal(spec_every_parse(&every, "500", NULL), -1);
}

static void test_distance(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int         edits;
    } rows[] = {
        {"", "", 0}, {"lr", "lr", 0}, {"lr", "rl", 1}, {"resources", "resuorces", 1},
        {"max", "max_", 1}, {"steps", "step", 1}, {"optimizer", "optimiser", 1},
        {"share-gpus", "share_GPUs", 0}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(spec_distance(rows[i].a, rows[i].b), rows[i].edits);
        assert_int_equal(spec_distance(rows[i].b, rows[i].a), rows[i].edits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_ranges_and_every),
        cmocka_unit_test(test_distance),
    };
    return cmocka_run_group_tests_name("spec_units", tests, NULL, NULL);
}
