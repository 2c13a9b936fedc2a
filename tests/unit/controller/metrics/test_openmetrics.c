/* SPDX-License-Identifier: Apache-2.0 */
/* test_openmetrics.c - metrics as text in both formats, and histograms */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "controller/metrics/histogram.h"
#include "controller/metrics/openmetrics.h"

#define LABELS(...) ((struct openmetrics_labels){ .at = { __VA_ARGS__ } })

static char *page(bool prometheus)
{
    struct openmetrics m = { .prometheus = prometheus };
    openmetrics_family(&m, "jobs_done", OPENMETRICS_COUNTER, "Jobs.");
    openmetrics_sample(&m, LABELS({ "result", "failed" }, { "by", "a\"b\\c\nd \xc3\xb6" }), 3);
    openmetrics_family(&m, "build", OPENMETRICS_INFO, "Version.");
    openmetrics_sample(&m, LABELS({ "version", "1" }), 1);
    openmetrics_family(&m, "used_bytes", OPENMETRICS_GAUGE, "Used.");
    openmetrics_sample(&m, LABELS({ NULL, NULL }), 0.125);
    openmetrics_sample(&m, LABELS({ "not", "known" }), NAN);
    openmetrics_sample(&m, LABELS({ "at", "start" }), 1795418420.25);
    return openmetrics_end(&m);
}

static void both_formats(void **state)
{
    (void)state;
    char *open = page(false), *old = page(true);
    assert_string_equal(open,
                        "# TYPE jobs_done counter\n# HELP jobs_done Jobs.\n"
                        "jobs_done_total{result=\"failed\",by=\"a\\\"b\\\\c\\nd \xc3\xb6\"} 3.0\n"
                        "# TYPE build info\n# HELP build Version.\nbuild_info{version=\"1\"} 1.0\n"
                        "# TYPE used_bytes gauge\n# UNIT used_bytes bytes\n# HELP used_bytes Used.\n"
                        "used_bytes 0.125\nused_bytes{at=\"start\"} 1795418420.25\n# EOF\n");
    assert_string_equal(old,
                        "# TYPE jobs_done_total counter\n# HELP jobs_done_total Jobs.\n"
                        "jobs_done_total{result=\"failed\",by=\"a\\\"b\\\\c\\nd \xc3\xb6\"} 3.0\n"
                        "# TYPE build_info gauge\n# HELP build_info Version.\nbuild_info{version=\"1\"} 1.0\n"
                        "# TYPE used_bytes gauge\n# HELP used_bytes Used.\n"
                        "used_bytes 0.125\nused_bytes{at=\"start\"} 1795418420.25\n");
    free(open);
    free(old);
}

static void the_client_chooses(void **state)
{
    (void)state;
    assert_true(openmetrics_wanted("application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"));
    assert_false(openmetrics_wanted("text/plain"));
    assert_false(openmetrics_wanted(NULL));
}

static void values_fall_into_buckets(void **state)
{
    (void)state;
    struct histogram h = { .bounds = histogram_step_s };
    histogram_add(&h, 0.005, 1);        /* a bound belongs to its bucket */
    histogram_add(&h, 0.0051, 2);
    histogram_add(&h, 60.1, 1);
    histogram_add(&h, NAN, 1);
    histogram_add(&h, -1, 1);
    histogram_add(&h, 1, 0);
    assert_int_equal(histogram_below(&h, 0), 1);
    assert_int_equal(histogram_below(&h, 1), 3);
    assert_int_equal(histogram_below(&h, HISTOGRAM_BOUNDS - 1), 3);
    assert_int_equal(histogram_below(&h, HISTOGRAM_BOUNDS), 4);
    assert_true(fabs(h.sum - 60.1152) < 1e-9);
}

static void a_histogram_is_cumulative(void **state)
{
    (void)state;
    struct histogram h = { .bounds = histogram_wait_s };
    struct openmetrics m = { .prometheus = true };
    histogram_add(&h, 3, 4);
    openmetrics_family(&m, "wait_seconds", OPENMETRICS_HISTOGRAM, "Waits.");
    openmetrics_histogram(&m, LABELS({ "job", "7" }), &h);
    char *text = openmetrics_end(&m);
    assert_non_null(strstr(text, "wait_seconds_bucket{job=\"7\",le=\"1.0\"} 0\n"));
    assert_non_null(strstr(text, "wait_seconds_bucket{job=\"7\",le=\"5.0\"} 4\n"));
    assert_non_null(strstr(text, "wait_seconds_bucket{job=\"7\",le=\"+Inf\"} 4\nwait_seconds_sum{job=\"7\"} 12.0\n"
                                 "wait_seconds_count{job=\"7\"} 4\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_formats),
        cmocka_unit_test(the_client_chooses),
        cmocka_unit_test(values_fall_into_buckets),
        cmocka_unit_test(a_histogram_is_cumulative),
    };
    return cmocka_run_group_tests_name("openmetrics", tests, NULL, NULL);
}
