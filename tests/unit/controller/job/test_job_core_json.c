/* SPDX-License-Identifier: Apache-2.0 */
/* test_job_core_json.c - a core comes back from its JSON as it was, and from nothing less than all of it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "controller/job/job_core.h"
#include "controller/job/job_core_json.h"
#include "engine/base/err.h"

/* Each byte of each field is another than in an empty core. */
static struct job_core full(void)
{
    struct job_core c;
    memset(&c, 0, sizeof(c));
    for (size_t i = 0; i < sizeof(c.goodput) / sizeof(int64_t); i++)
        ((int64_t *)(void *)&c.goodput)[i] = 100 + (int64_t)i;
    c.id = 7;
    c.state = JOB_RECOVERING;
    c.result = RESULT_CANCELLED;
    c.exit_code = -3;
    c.held = c.live = c.agent_known = c.stop_limit = c.stop_now = true;
    int64_t *numbers[] = { &c.priority, &c.attempt, &c.generation, &c.np, &c.cpus, &c.gpus, &c.not_before_ms,
                           &c.backoff_ms, &c.step, &c.steps, &c.best, &c.checkpoint, &c.stored_step, &c.attempt_best,
                           &c.failures, &c.same, &c.submitted_ms, &c.started_ms, &c.ended_ms, &c.jumped_ms,
                           &c.clock.ahead_ms, &c.clock.asleep_ms, &c.boot, &c.gen_from, &c.gen_best, &c.rules.max,
                           &c.rules.no_progress, &c.rules.same_line_ms, &c.rules.backoff_min_ms,
                           &c.rules.backoff_max_ms };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        *numbers[i] = INT64_C(1234567890000) + (int64_t)i;
    c.rules.same_line = 5;
    c.rules.early_ms = 6;
    strcpy(c.nonce, "0123456789abcdef0123456789abcdef");
    strcpy(c.node, "gpu1");
    strcpy(c.fingerprint, "rank_crash:11");
    strcpy(c.reason, "rank 0 was killed by signal 11");
    return c;
}

static void all_of_it_comes_back(void **state)
{
    (void)state;
    const struct job_core was = full();
    struct job_core is;
    struct err err = { 0 };
    memset(&is, 0, sizeof(is));
    is.id = 7;
    json_t *json = job_core_json_make(&was);
    assert_int_equal(job_core_json_read(&is, json, &err), 0);
    assert_memory_equal(&is, &was, sizeof(is));
    json_decref(json);
}

static void each_field_is_needed(void **state)
{
    (void)state;
    const struct job_core was = full();
    json_t *json = job_core_json_make(&was), *value;
    const char *key;
    json_object_foreach (json, key, value) {
        json_t *less = json_copy(json);
        struct job_core is = was;
        struct err err = { 0 };
        json_object_del(less, key);
        assert_int_equal(job_core_json_read(&is, less, &err), -1);
        assert_non_null(strstr(err.text, key));
        json_object_set_new(less, key, json_object());
        assert_int_equal(job_core_json_read(&is, less, &err), -1);
        assert_memory_equal(&is, &was, sizeof(is));
        json_decref(less);
    }
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_comes_back),
        cmocka_unit_test(each_field_is_needed),
    };
    return cmocka_run_group_tests_name("job_core_json", tests, NULL, NULL);
}
