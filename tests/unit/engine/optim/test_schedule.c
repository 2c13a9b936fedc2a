/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedule.c - the learning rate at its boundaries */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/optim/schedule.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static void rates_at_the_corners(void **state)
{
    (void)state;
    static const struct {
        struct schedule s;
        int64_t         step;
        double          lr;
    } rows[] = {
        {{SCHEDULE_CONSTANT, 0.1, 0, 0, 0}, 0, 0.1},
        {{SCHEDULE_CONSTANT, 0.1, 0, 0, 0}, 1000000, 0.1},
        {{SCHEDULE_CONSTANT, 0.1, 4, 0, 0}, 0, 0.0}, /* the authors' first step */
        {{SCHEDULE_CONSTANT, 0.1, 4, 0, 0}, 1, 0.025},
        {{SCHEDULE_CONSTANT, 0.1, 4, 0, 0}, 4, 0.1},
        {{SCHEDULE_COSINE, 2.0, 10, 110, 0.05}, 0, 0.0},
        {{SCHEDULE_COSINE, 2.0, 10, 110, 0.05}, 5, 1.0},
        {{SCHEDULE_COSINE, 2.0, 10, 110, 0.05}, 10, 2.0},
        {{SCHEDULE_COSINE, 2.0, 10, 110, 0.05}, 60, 2.0 * (0.05 + 0.95 * 0.5)},
        {{SCHEDULE_COSINE, 2.0, 10, 110, 0.05}, 110, 0.1},
        {{SCHEDULE_COSINE, 2.0, 10, 110, 0.05}, 5000, 0.1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        assert_int_equal(schedule_check(&rows[i].s, &err), 0);
        double lr = schedule_lr(&rows[i].s, rows[i].step);
        if (fabs(lr - rows[i].lr) > 1e-15)
            fail_msg("row %zu: %.17g, not %.17g", i, lr, rows[i].lr);
    }
}

static void impossible_schedules_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct schedule s;
        const char     *says;
    } rows[] = {
        {{SCHEDULE_CONSTANT, -0.1, 0, 0, 0}, "learning rate"},
        {{SCHEDULE_CONSTANT, NAN, 0, 0, 0}, "learning rate"},
        {{SCHEDULE_CONSTANT, 0.1, -1, 0, 0}, "warmup"},
        {{SCHEDULE_COSINE, 0.1, 0, 10, 1.5}, "floor"},
        {{SCHEDULE_COSINE, 0.1, 10, 10, 0}, "needs more steps than its warm-up"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        assert_int_equal(schedule_check(&rows[i].s, &err), -1);
        assert_non_null(strstr(err.text, rows[i].says));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_at_the_corners),
        cmocka_unit_test(impossible_schedules_are_refused),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
