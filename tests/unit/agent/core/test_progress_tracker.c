/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress_tracker.c - the part of a generation's work that a restart does not repeat */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/core/progress_tracker.h"

static void hear(struct progress_tracker *p, const char *text)
{
    json_t *line = json_loads(text, 0, NULL);
    assert_non_null(line);
    progress_tracker_encoding(p, line);
    json_decref(line);
}

/* Encoded samples count once they are in files; a generation that ends at the same sample again has gained none. */
static void encoded_samples_are_gained(void **state)
{
    struct progress_tracker p;
    (void)state;
    progress_tracker_init(&p, 7);
    hear(&p, "{\"done\":30,\"total\":90,\"saved\":0}");
    assert_int_equal(progress_tracker_gained(&p), 0);
    hear(&p, "{\"done\":50,\"total\":90,\"saved\":40}");
    hear(&p, "{\"done\":3,\"total\":90,\"saved\":\"many\"}");
    assert_int_equal(progress_tracker_gained(&p), 40);
    progress_tracker_begin(&p);
    hear(&p, "{\"done\":70,\"total\":90}");
    assert_int_equal(progress_tracker_gained(&p), 0);
    progress_tracker_fini(&p);
}

/* The first line of a generation says where it begins, and of how many steps; what it does not say stays. */
static void a_generation_begins(void **state)
{
    struct progress_tracker p;
    json_t *full = json_pack("{s:i, s:i}", "steps", 500, "resume_step", 40), *empty = json_object();
    (void)state;
    progress_tracker_init(&p, 0);
    progress_tracker_started(&p, full, 7000);
    assert_int_equal(p.steps, 500);
    assert_int_equal(p.step, 40);
    assert_int_equal(p.checkpoint, 40);
    assert_int_equal(p.started_ms, 7000);
    assert_int_equal(p.last_step_ms, 7000);
    p.checkpoint = 60;
    progress_tracker_started(&p, empty, 8000);
    assert_int_equal(p.steps, 500);
    assert_int_equal(p.step, 40);
    assert_int_equal(p.checkpoint, 60); /* a newer one than it began with */
    assert_int_equal(p.started_ms, 8000);
    json_decref(full);
    json_decref(empty);
    progress_tracker_fini(&p);
}

/* Phases of a step are in its event if the line has them, and no nulls if it has not: most events are
 * of such programs. */
static void phases_are_passed_on(void **state)
{
    struct progress_tracker p;
    json_t *line = json_pack("{s:i, s:f, s:f, s:s}", "step", 5, "step_ms", 20.0, "forward_ms", 6.125, "backward_ms",
                             "x");
    (void)state;
    progress_tracker_init(&p, 0);
    json_t *event = progress_tracker_step(&p, 1, line, 1000);
    assert_true(json_number_value(json_object_get(event, "forward_ms")) == 6.125);
    assert_null(json_object_get(event, "backward_ms"));
    assert_null(json_object_get(event, "data_ms"));
    json_decref(event);
    json_decref(line);
    progress_tracker_fini(&p);
}

static void reach(struct progress_tracker *p, int step, int64_t now_ms)
{
    json_t *line = json_pack("{s:i}", "step", step);
    json_decref(progress_tracker_step(p, 1, line, now_ms));
    json_decref(line);
}

/* A script says nothing before its first step: the time until then is not a repetition, unless it follows a failure. */
static void a_first_step_is_new_from_the_begin(void **state)
{
    struct progress_tracker p;
    (void)state;
    progress_tracker_init(&p, -1);
    reach(&p, 1, 5000);
    reach(&p, 2, 6000);
    assert_int_equal(p.fresh_ms, PROGRESS_ALL_FRESH);
    progress_tracker_begin(&p);
    reach(&p, 1, 8000);
    reach(&p, 2, 9000);
    assert_int_equal(p.fresh_ms, 0);
    reach(&p, 3, 9900);
    assert_int_equal(p.fresh_ms, 9000);
    progress_tracker_begin(&p);
    reach(&p, 4, 12000);
    assert_int_equal(p.fresh_ms, 12000);
    progress_tracker_fini(&p);
}

static void done(struct progress_tracker *p, int step, double loss)
{
    json_t *line = json_pack("{s:i, s:f}", "step", step, "loss", loss);
    progress_tracker_done(p, 2, line, 9000);
    json_decref(line);
}

/* Ranks were killed between the last checkpoint and the line of its step: the next ones make no step. */
static void the_end_has_the_loss_of_a_step_that_was_not_told(void **state)
{
    struct progress_tracker p;
    (void)state;
    progress_tracker_init(&p, -1);
    reach(&p, 8, 5000);
    done(&p, 8, 0.5);
    assert_null(progress_tracker_held(&p));
    progress_tracker_begin(&p);
    done(&p, 9, 0.25);
    json_t *held = progress_tracker_held(&p);
    assert_int_equal(json_integer_value(json_object_get(held, "step")), 9);
    assert_true(json_real_value(json_object_get(held, "loss")) == 0.25);
    json_decref(held);
    progress_tracker_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_generation_begins), cmocka_unit_test(encoded_samples_are_gained),
                                       cmocka_unit_test(phases_are_passed_on),
                                       cmocka_unit_test(a_first_step_is_new_from_the_begin),
                                       cmocka_unit_test(the_end_has_the_loss_of_a_step_that_was_not_told)};
    return cmocka_run_group_tests_name("progress_tracker", tests, NULL, NULL);
}
