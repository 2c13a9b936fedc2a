/* SPDX-License-Identifier: Apache-2.0 */
/* test_output_progress.c - steps from a script's output and its flight page, as the lines that an engine writes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/monitor/output_progress.h"
#include "engine/contract/flight.h"

static struct output_progress o;
static struct flight_page page;

static int down(void **state)
{
    (void)state;
    output_progress_fini(&o);
    memset(&page, 0, sizeof(page));
    return 0;
}

/* Feeds the text; the line that follows must be this one. */
static void expect(const char *text, const char *want)
{
    output_progress_feed(&o, text, strlen(text));
    json_t *line = output_progress_line(&o, &page);
    char *is = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(6)) : strdup("");
    assert_string_equal(is, want);
    free(is);
    json_decref(line);
}

static void what_was_printed(void **state)
{
    (void)state;
    output_progress_init(&o, NULL);
    expect("hello\n", "");
    expect("step 5/100 loss: 0.5 lr: 0.25\n",
           "{\"ev\":\"step\",\"step\":5,\"steps\":100,\"loss\":0.5,\"lr\":0.25}");
    expect("", "");
    expect("nothing new\n", "");
    expect("step 6/100 loss: 0.25\n", "{\"ev\":\"step\",\"step\":6,\"steps\":100,\"loss\":0.25,\"lr\":0.25}");
    output_progress_begin(&o);
    expect("", ""); /* a new generation starts without it */
    output_progress_fini(&o);
    output_progress_init(&o, "auto");
    expect("step 7/100\n", "{\"ev\":\"step\",\"step\":7,\"steps\":100}");
}

/* The page's step is the one that counts; the output adds the rest. */
static void what_the_page_says(void **state)
{
    (void)state;
    output_progress_init(&o, NULL);
    page.pid = 100;
    page.step_phase = 0;
    expect("", ""); /* before its first step */
    page.step_phase = UINT64_C(3) << 8;
    expect("", "{\"ev\":\"step\",\"step\":3}");
    expect("", "");
    expect("step 1/10 loss: 0.5\n", "{\"ev\":\"step\",\"step\":3,\"steps\":10,\"loss\":0.5}");
    page.step_phase = UINT64_C(4) << 8;
    expect("", "{\"ev\":\"step\",\"step\":4,\"steps\":10,\"loss\":0.5}");
    json_decref(output_progress_line(&o, NULL));
}

static void epochs_are_steps_where_there_are_no_others(void **state)
{
    (void)state;
    output_progress_init(&o, NULL);
    expect("Epoch 2/10 loss: 0.5\n", "{\"ev\":\"step\",\"step\":2,\"steps\":10,\"epoch\":2.0,\"epochs\":10.0,\"loss\":0.5}");
}

static void rules_of_the_spec(void **state)
{
    (void)state;
    output_progress_init(&o, "off");
    expect("step 5/100\n", "");
    page.pid = 100;
    page.step_phase = UINT64_C(3) << 8;
    expect("step 6/100\n", "{\"ev\":\"step\",\"step\":3}"); /* the page still counts */
    output_progress_fini(&o);
    output_progress_init(&o, "tick {step} of {steps}");
    page.pid = 0;
    expect("step 5/100\n", "");
    expect("tick 8 of 20\n", "{\"ev\":\"step\",\"step\":8,\"steps\":20}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_was_printed, down), cmocka_unit_test_teardown(what_the_page_says, down),
        cmocka_unit_test_teardown(epochs_are_steps_where_there_are_no_others, down),
        cmocka_unit_test_teardown(rules_of_the_spec, down),
    };
    return cmocka_run_group_tests_name("output_progress", tests, NULL, NULL);
}
