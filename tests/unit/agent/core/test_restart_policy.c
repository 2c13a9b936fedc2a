/* SPDX-License-Identifier: Apache-2.0 */
/* test_restart_policy.c - how often the same mistake in a script is retried */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/core/agent_core.h"
#include "agent/core/restart_policy.h"

enum { WITHIN = 60000, SOON = 900 };

static struct restart_policy policy(int64_t same_line)
{
    struct restart_policy p;
    restart_policy_init(&p, &(struct agent_budget){.restarts = 10, .no_progress = 5, .same_line = same_line,
                                                   .same_line_ms = WITHIN},
                        &(struct agent_history){.fingerprint = ""});
    return p;
}

/* Fails `times` times in the same way; returns how often it was tried before it was given up, or `times`. */
static int tries(struct restart_policy *p, int times, bool placed, bool stepped, int64_t after_ms, char *why,
                 size_t size)
{
    for (int i = 1; i <= times; i++) {
        restart_policy_failure(p, "user_exit:exit1:1@-1", 0);
        restart_policy_at_line(p, placed, stepped, after_ms);
        if (restart_policy_decide(p, why, size) < 0)
            return i;
    }
    return times;
}

static void a_mistake_at_one_line_is_tried_once_more(void **state)
{
    (void)state;
    char why[200];
    struct restart_policy p = policy(2);
    assert_int_equal(tries(&p, 9, true, false, SOON, why, sizeof(why)), 2);
    assert_string_equal(why, "the same exception at the same line before the first step, 2 times in a row");
}

static void what_may_pass_by_itself_gets_all_tries(void **state)
{
    (void)state;
    char why[200];
    const struct {
        int64_t same_line, after_ms;
        bool placed, stepped;
    } rows[] = {
        {0, SOON, true, false},   /* switched off */
        {2, WITHIN, true, false}, /* not soon after its start */
        {2, SOON, false, false},  /* no line of the script */
        {2, SOON, true, true},    /* it had made a step */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct restart_policy p = policy(rows[i].same_line);
        assert_int_equal(tries(&p, 9, rows[i].placed, rows[i].stepped, rows[i].after_ms, why, sizeof(why)), 5);
    }
}

static void the_line_is_part_of_the_failure(void **state)
{
    (void)state;
    char a[FINGERPRINT], b[FINGERPRINT], c[FINGERPRINT];
    const struct agent_exit e = {.exit_code = 1};
    restart_policy_fingerprint(a, "user_exit", &e, "code 1: train.py:41: KeyError: 7", "train.py:41: KeyError", -1);
    restart_policy_fingerprint(b, "user_exit", &e, "code 1: train.py:43: KeyError: 7", "train.py:43: KeyError", -1);
    restart_policy_fingerprint(c, "user_exit", &e, "code 1: train.py:41: KeyError: 8", "train.py:41: KeyError", -1);
    assert_string_not_equal(a, b);
    assert_string_equal(a, c); /* numbers of the message do not matter */
}

/* A command that fails at once is run once; each sign of training, or of what may pass, gets it all its tries. */
static void a_command_without_signs_of_training_runs_once(void **state)
{
    (void)state;
    enum { EARLY = 120000 };
    static const struct {
        const char *what;
        struct restart_signs signs;
        int64_t early_ms, failures;     /* failures: before this one */
        bool early;
    } rows[] = {
        {"false", {.command = true, .ranks = 1, .after_ms = 7}, EARLY, 0, true},
        {"just within two minutes", {.command = true, .ranks = 1, .after_ms = EARLY - 1}, EARLY, 0, true},
        {"after two minutes", {.command = true, .ranks = 1, .after_ms = EARLY}, EARLY, 0, false},
        {"retry.max is set", {.command = true, .ranks = 1, .after_ms = 7}, 0, 0, false},
        {"training, a signal, or another cause", {.ranks = 1, .after_ms = 7}, EARLY, 0, false},
        {"several ranks", {.command = true, .ranks = 2, .after_ms = 7}, EARLY, 0, false},
        {"GPU memory", {.command = true, .ranks = 1, .after_ms = 7, .gpu_held = true}, EARLY, 0, false},
        {"a step", {.command = true, .ranks = 1, .after_ms = 7, .step = true}, EARLY, 0, false},
        {"a checkpoint", {.command = true, .ranks = 1, .after_ms = 7, .checkpoint = true}, EARLY, 0, false},
        {"a network, hub, port or file system", {.command = true, .ranks = 1, .after_ms = 7, .passing = true}, EARLY,
         0, false},
        {"it was retried for another reason before", {.command = true, .ranks = 1, .after_ms = 7}, EARLY, 1, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct restart_policy p;
        restart_policy_init(&p, &(struct agent_budget){.restarts = 10, .early_ms = rows[i].early_ms},
                            &(struct agent_history){.fingerprint = "", .failures_without_progress = rows[i].failures});
        restart_policy_failure(&p, "user_exit:exit1:1@-1", 0);
        restart_policy_at_start(&p, &rows[i].signs);
        if (p.early != rows[i].early)
            fail_msg("%s: %s", rows[i].what, p.early ? "not retried" : "retried");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mistake_at_one_line_is_tried_once_more),
        cmocka_unit_test(what_may_pass_by_itself_gets_all_tries),
        cmocka_unit_test(the_line_is_part_of_the_failure),
        cmocka_unit_test(a_command_without_signs_of_training_runs_once),
    };
    return cmocka_run_group_tests_name("restart_policy", tests, NULL, NULL);
}
