/* SPDX-License-Identifier: Apache-2.0 */
/* test_sched.c - tables of queues: which jobs start, and why the others wait */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "controller/job/sched.h"

enum { MOST = 6, NOW = 1000 };

/* Each verdict: job id and wait reason. */
static const struct {
    const char       *what;
    struct sched_node node;
    struct sched_job  jobs[MOST];
    const char       *expect;
    int64_t           wake;
} cases[] = {
    { "first come, first served", { 2, 2, 0, 0 },
      { { .id = 1, .cpus = 1 }, { .id = 2, .cpus = 1 }, { .id = 3, .cpus = 1 } },
      "1: about to start|2: about to start|3: next in queue: needs 1 CPU slot, none free|",
      -1 },
    { "what another must have done", { 9, 9, 0, 0 },
      { { .id = 2, .cpus = 1, .dep = DEP_OPEN, .dep_id = 1 },
        { .id = 3, .cpus = 1, .dep = DEP_OPEN, .dep_id = 1, .dep_kind = AFTER_ANY },
        { .id = 4, .cpus = 1, .dep = DEP_OPEN, .dep_id = 1, .dep_kind = AFTER_NOTOK },
        { .id = 5, .cpus = 1, .dep = DEP_FAILED, .dep_id = 1, .dep_kind = AFTER_NOTOK } },
      "2: waiting for job 1 to succeed|3: waiting for job 1 to end|4: waiting for job 1 to fail|"
      "5: dependency failed: job 1 succeeded (afternotok)|",
      -1 },
    { "priority before age", { 1, 1, 0, 0 },
      { { .id = 1, .cpus = 1 }, { .id = 2, .cpus = 1, .priority = 5 } },
      "2: about to start|1: next in queue: needs 1 CPU slot, none free|", -1 },
    { "a large job is not starved by small ones", { 4, 2, 0, 0 },
      { { .id = 1, .cpus = -1 }, { .id = 2, .cpus = 1 }, { .id = 3, .cpus = 1 } },
      "1: next in queue: needs all CPU slots, 2 free|"
      "2: queued: 1 job ahead, the first is job 1|"
      "3: queued: 2 jobs ahead, the first is job 1|", -1 },
    { "a job that waits for a GPU reserves only what it needs", { 4, 4, 1, 0 },
      { { .id = 1, .cpus = 1, .gpus = 1 }, { .id = 2, .cpus = 3 }, { .id = 3, .cpus = 1 } },
      "1: next in queue: needs 1 GPU, none free|2: about to start|"
      "3: queued: 1 job ahead, the first is job 1|", -1 },
    { "a job that waits for something else blocks no job", { 1, 1, 0, 0 },
      { { .id = 1, .cpus = 1, .held = true }, { .id = 2, .cpus = 1, .dep = DEP_OPEN, .dep_id = 9 },
        { .id = 3, .cpus = 9 }, { .id = 4, .cpus = 1, .not_before_ms = 3500 },
        { .id = 5, .cpus = 1, .dep = DEP_SUCCEEDED } },
      "1: held; release it with `jobctl hold --off 1`|2: waiting for job 9 to succeed|"
      "3: can never start: needs 9 CPU slots on one node, the largest node has 1|"
      "4: next attempt in 2.5 s|5: about to start|", 3500 },
    { "a job whose directory another one writes takes no slot", { 2, 2, 0, 0 },
      { { .id = 4, .cpus = 2, .writer = 3, .not_before_ms = 3500 }, { .id = 5, .cpus = 1 },
        { .id = 6, .cpus = 1, .writer = 3, .dep = DEP_OPEN, .dep_id = 5 },
        { .id = 7, .cpus = 1, .writer = 3, .held = true } },
      "4: waiting for job 3, which writes the same checkpoint.dir|5: about to start|"
      "6: waiting for job 5 to succeed|7: held; release it with `jobctl hold --off 7`|", -1 },
    { "a failed dependency outranks a hold", { 1, 1, 0, 0 },
      { { .id = 7, .cpus = 1, .held = true, .dep = DEP_FAILED, .dep_id = 3 } },
      "7: dependency failed: job 3 did not succeed|", -1 },
    { "jobs that count their GPUs run side by side", { 8, 8, 4, 4 },
      { { .id = 1, .cpus = 1, .gpus = 1 }, { .id = 2, .cpus = 1, .gpus = 2 }, { .id = 3, .cpus = 1 },
        { .id = 4, .cpus = 1, .gpus = 1 }, { .id = 5, .cpus = 1, .gpus = 1 }, { .id = 6, .cpus = 1 } },
      "1: about to start|2: about to start|3: about to start|4: about to start|"
      "5: next in queue: needs 1 GPU, none free|6: about to start|", -1 },
    { "a job for all GPUs waits for each of them, and is not starved", { 8, 8, 4, 3 },
      { { .id = 1, .cpus = 1, .gpus = -1 }, { .id = 2, .cpus = 1, .gpus = 1 } },
      "1: next in queue: needs all GPUs, 3 free|2: queued: 1 job ahead, the first is job 1|", -1 },
    { "training on some of the GPUs takes their share of the slots", { 8, 8, 4, 4 },
      { { .id = 1, .cpus = -1, .gpus = 1 }, { .id = 2, .cpus = -1, .gpus = 2 }, { .id = 3, .cpus = 3 },
        { .id = 4, .cpus = 2 } },
      "1: about to start|2: about to start|3: next in queue: needs 3 CPU slots, 2 free|"
      "4: queued: 1 job ahead, the first is job 3|", -1 },
    { "training without GPUs takes all slots, and at least one", { 2, 2, 4, 4 },
      { { .id = 1, .cpus = -1, .gpus = 1 }, { .id = 2, .cpus = -1, .gpus = 0 } },
      "1: about to start|2: next in queue: needs all CPU slots, 1 free|", -1 },
    { "more GPUs than are known are all of them", { 2, 2, 2, 2 },
      { { .id = 1, .gpus = 4 }, { .id = 2, .gpus = 1 } },
      "1: about to start|2: next in queue: needs 1 GPU, none free|", -1 },
    { "all GPUs of a node without any", { 2, 2, 0, 0 }, { { .id = 1, .gpus = -1, .cpus = -1 } },
      "1: about to start|", -1 },
    { "a member of sweep 5 before its sweep, behind older jobs", { 1, 0, 0, 0 },
      { { .id = 5, .cpus = 1 }, { .id = 9, .order = 4 * (INT64_C(1) << 20) + 1 + 17, .cpus = 1 }, { .id = 4, .cpus = 1 } },
      "4: next in queue: needs 1 CPU slot, none free|9: queued: 1 job ahead, the first is job 4|"
      "5: queued: 2 jobs ahead, the first is job 4|", -1 },
    { "an empty queue", { 1, 1, 0, 0 }, { { .id = 0 } }, "", -1 },
};

static void queues(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sched_job jobs[MOST];
        struct sched_node node = cases[i].node;
        memcpy(jobs, cases[i].jobs, sizeof(jobs));
        size_t n = 0;
        while (n < MOST && jobs[n].id)
            n++;
        int64_t wake = sched_run(jobs, n, &node, NOW);
        char got[1024] = "";
        int64_t taken = 0;
        for (size_t j = 0; j < n; j++) {
            char text[200];
            sched_text(text, sizeof(text), &jobs[j], NOW);
            sprintf(got + strlen(got), "%d: %s|", (int)jobs[j].id, text);
            if (jobs[j].word == SCHED_PLACE)
                taken += jobs[j].take_cpus;
        }
        if (strcmp(got, cases[i].expect) != 0)
            fail_msg("%s:\n  got      %s\n  expected %s", cases[i].what, got, cases[i].expect);
        assert_int_equal(wake, cases[i].wake);
        assert_int_equal(node.cpus_free, cases[i].node.cpus_free - taken);
    }
}

static void members_stand_between_jobs(void **state)
{
    (void)state;
    assert_int_equal(sched_order(9, 5, 17), 4 * (INT64_C(1) << 20) + 1 + 17);
    assert_true(sched_order(4, 0, 0) < sched_order(9, 5, 0));
    assert_true(sched_order(9, 5, 0) < sched_order(6, 5, 99999));
    assert_true(sched_order(6, 5, 99999) < sched_order(5, 0, 0));
}

/* For random queues: no slot is assigned twice, and each waiting job has a reason. */
static void random_queues(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 500; round++) {
        struct sched_job jobs[40] = { 0 };
        size_t n = (size_t)(rand() % 40);
        for (size_t i = 0; i < n; i++)
            jobs[i] = (struct sched_job){ .id = (int64_t)i + 1, .priority = rand() % 3,
                                          .cpus = rand() % 4 - 1, .gpus = rand() % 3,
                                          .held = rand() % 8 == 0,
                                          .not_before_ms = rand() % 5 ? 0 : NOW + rand() % 9 };
        struct sched_node node = { .cpus = 4, .cpus_free = rand() % 5, .gpus = 2,
                                   .gpus_free = rand() % 3 };
        const struct sched_node was = node;
        sched_run(jobs, n, &node, NOW);
        assert_true(node.cpus_free >= 0 && node.gpus_free >= 0);
        int64_t cpus = 0, gpus = 0;
        for (size_t i = 0; i < n; i++) {
            assert_int_not_equal(jobs[i].word, SCHED_NONE);
            if (jobs[i].word != SCHED_PLACE)
                continue;
            cpus += jobs[i].take_cpus;
            gpus += jobs[i].take_gpus;
        }
        assert_int_equal(was.cpus_free - node.cpus_free, cpus);
        assert_int_equal(was.gpus_free - node.gpus_free, gpus);
    }
}

static void many(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    struct sched_job *jobs = calloc(COUNT, sizeof(*jobs));
    assert_non_null(jobs);
    for (int i = 0; i < COUNT; i++)
        jobs[i] = (struct sched_job){ .id = COUNT - i, .priority = i % 7, .cpus = 1 };
    struct sched_node node = { .cpus = 2, .cpus_free = 2 };
    sched_run(jobs, COUNT, &node, NOW);
    assert_int_equal(jobs[COUNT - 1].word, SCHED_TURN);
    assert_int_equal(jobs[COUNT - 1].place, COUNT - 3);
    free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_stand_between_jobs), cmocka_unit_test(queues),
        cmocka_unit_test(random_queues),
        cmocka_unit_test(many),
    };
    return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}
