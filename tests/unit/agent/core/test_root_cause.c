/* SPDX-License-Identifier: Apache-2.0 */
/* test_root_cause.c - where the ranks of a hung script stand, from the stacks that they print as they end */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/root_cause.h"

#define TORCH "/usr/lib/python3/dist-packages/torch/"
#define IN_BACKWARD                                                                                                \
    "step 7\nFatal Python error: Aborted\n\nThread 0x01 (most recent call first):\n  File \"b.py\", line 9 in f\n" \
    "\nCurrent thread 0x02 (most recent call first):\n"                                                            \
    "  File \"" TORCH "autograd/__init__.py\", line 197 in backward\n"                                             \
    "  File \"" TORCH "_tensor.py\", line 488 in backward\n  File \"/w/a.py\", line 9 in <module>\n\nExtension\n"
#define IN_GET                                                                                           \
    "Fatal Python error: Aborted\n\nCurrent thread 0x02 (most recent call first):\n"                     \
    "  File \"/usr/lib/python3.11/threading.py\", line 320 in wait\n  File \"/w/q.py\", line 3 in get\n" \
    "  File \"/w/a.py\", line 4 in <module>\n"

/* The evidence and the text after the last rank, ..., 1, 0 have ended with these outputs, up to NULL. */
static void expect(enum cause cause, const char *const *outputs, const char *evidence, const char *text)
{
    struct root_cause b = {0};
    root_cause_set(&b, &(struct agent_exit){.rank = -1, .none = true},
                   &(struct verdict){.cause = cause, .text = "a hang"}, 1);
    int n = 0;
    while (outputs[n])
        n++;
    for (int i = n - 1; i >= 0; i--)
        root_cause_stack(&b, &(struct agent_exit){.rank = i, .last_lines = outputs[i]});
    root_cause_places(&b);
    char *got = json_dumps(b.evidence, JSON_COMPACT);
    assert_string_equal(got, evidence);
    assert_string_equal(b.verdict.text, text);
    free(got);
    root_cause_clear(&b);
}

/* Whoever ends first. */
static void a_rank_that_waits_for_others_comes_last(void **state)
{
    (void)state;
    expect(CAUSE_HANG_STEP, (const char *const[]){IN_BACKWARD, IN_BACKWARD, IN_GET, IN_BACKWARD, NULL},
           "[\"rank 2 is at q.py:3 in wait\",\"ranks 0, 1, 3 wait at a.py:9 in backward\"]",
           "a hang; rank 2 is at q.py:3 in wait, ranks 0, 1, 3 wait at a.py:9 in backward");
}

static void many_ranks_are_counted(void **state)
{
    (void)state;
    expect(CAUSE_HANG_INIT,
           (const char *const[]){IN_BACKWARD, IN_BACKWARD, IN_BACKWARD, IN_BACKWARD, IN_BACKWARD, IN_BACKWARD, NULL},
           "[\"ranks 0, 1, 2, 3 and 2 others wait at a.py:9 in backward\"]",
           "a hang; ranks 0, 1, 2, 3 and 2 others wait at a.py:9 in backward");
}

/* They print into its output, with its prefix or without. */
static void workers_of_a_launcher_are_named(void **state)
{
    (void)state;
    expect(CAUSE_HANG_STEP,
           (const char *const[]){
               "[default0]:--- stacks of rank 0, process 8 ---\n[default0]:Fatal Python error: Aborted\n[default0]:\n"
               "[default0]:Current thread 0x02 (most recent call first):\n"
               "[default0]:  File \"" TORCH "distributed/distributed_c10d.py\", line 1541 in all_reduce\n"
               "[default0]:  File \"/w/a.py\", line 9 in <module>\n"
               "--- stacks of rank 1, process 9 ---\nFatal Python error: Aborted\n\n"
               "Current thread 0x02 (most recent call first):\n  File \"/w/a.py\", line 13 in <module>\n"
               "Traceback (most recent call last):\n  File \"/w/launch.py\", line 5, in run\nSignalException: 15\n",
               NULL},
           "[\"rank 1 is at a.py:13\",\"rank 0 waits at a.py:9 in all_reduce\"]",
           "a hang; rank 1 is at a.py:13, rank 0 waits at a.py:9 in all_reduce");
}

/* Of a child that the main program outlives, and waits for. */
static void an_exception_before_the_stacks_is_named(void **state)
{
    (void)state;
    expect(CAUSE_HANG_STEP,
           (const char *const[]){"step 1\nTraceback (most recent call last):\n  File \"/w/v.py\", line 9, in <module>\n"
                                 "    raise RuntimeError(\"index 10\")\nRuntimeError: index 10\n"
                                 "step 2/9 loss: 0.5\nstep 3/9 loss: 0.5\n" IN_GET,
                                 NULL},
           "[\"rank 0 is at q.py:3 in wait\"]",
           "a hang; rank 0 is at q.py:3 in wait; rank 0 had printed v.py:9: RuntimeError: index 10");
}

static void other_failures_and_outputs_have_no_places(void **state)
{
    (void)state;
    expect(CAUSE_RANK_CRASH, (const char *const[]){IN_GET, NULL}, "[]", "a hang");
    expect(CAUSE_HANG_STEP, (const char *const[]){"step 7\n", "", NULL}, "[]", "a hang");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_waits_for_others_comes_last),
        cmocka_unit_test(many_ranks_are_counted),
        cmocka_unit_test(workers_of_a_launcher_are_named),
        cmocka_unit_test(an_exception_before_the_stacks_is_named),
        cmocka_unit_test(other_failures_and_outputs_have_no_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
