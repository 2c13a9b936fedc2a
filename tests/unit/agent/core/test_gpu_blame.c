/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu_blame.c - which GPU is excluded after which failures, and that it is */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/core/gpu_blame.h"

/* Ranks 0 and 1 on node 0, 2 and 3 on node 1; the PCI addresses of both nodes are the same. */
static const char PLAN[] = "{\"ranks\":[{\"gpu\":\"GPU-0\",\"node\":0},{\"gpu\":\"GPU-1\",\"node\":0},"
                           "{\"gpu\":\"GPU-2\",\"node\":1},{\"gpu\":\"GPU-3\",\"node\":1}]}";
#define GPUS "\"gpus\":[{\"uuid\":\"GPU-0\",\"pci\":\"0000:3b:00.0\"},{\"uuid\":\"GPU-1\",\"pci\":\"0000:5e:00.0\"}," \
             "{\"uuid\":\"GPU-2\",\"pci\":\"0000:3b:00.0\"},{\"uuid\":\"GPU-3\",\"pci\":\"0000:5e:00.0\"}]"

static struct gpu_blame s;

static void begin(const char *plan, const char *facts)
{
    json_t *p = json_loads(plan, 0, NULL), *f = json_loads(facts, 0, NULL);
    assert_true(p && f);
    assert_int_equal(gpu_blame_init(&s, p, f), 0);
    json_decref(p);
    json_decref(f);
}

static int up(void **state)
{
    (void)state;
    begin(PLAN, "{" GPUS "}");
    return 0;
}

static int down(void **state)
{
    (void)state;
    gpu_blame_fini(&s);
    return 0;
}

struct failure {
    enum cause  cause;
    int         rank, signo;
    int64_t     gained;
    bool        shared, echo;
    const char *line, *guilty;
};

static void play(const struct failure *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct verdict v = {.cause = f[i].cause, .shared = f[i].shared, .echo = f[i].echo};
        const struct agent_exit e = {.rank = f[i].rank, .signalled = f[i].signo > 0, .signo = f[i].signo};
        snprintf(v.line, sizeof(v.line), "%s", f[i].line ? f[i].line : "");
        gpu_blame_failure(&s, &v, &e, f[i].gained);
        const char *guilty = gpu_blame_guilty(&s);
        if (!guilty || !f[i].guilty ? guilty != f[i].guilty : strcmp(guilty, f[i].guilty) != 0)
            fail_msg("failure %zu excludes %s, expected %s", i, guilty ? guilty : "none",
                     f[i].guilty ? f[i].guilty : "none");
    }
}
#define PLAY(...) play((const struct failure[]){__VA_ARGS__}, \
                       sizeof((const struct failure[]){__VA_ARGS__}) / sizeof(struct failure))

/* The hardware names a GPU: by its address on the node of the rank that reports it, else the GPU of that rank. */
static void proof_excludes_at_once(void **state)
{
    (void)state;
    static const char at3b[] = "NVRM: Xid (PCI:0000:3b:00): 79, x", at5e[] = "NVRM: Xid (PCI:0000:5E:00): 79, x",
                      other[] = "NVRM: Xid (PCI:0000:af:00): 79, x", none[] = "CUDA error: uncorrectable ECC error";
    PLAY({CAUSE_GPU_FAULT, .rank = 1, .line = at3b, .guilty = "GPU-0"},
         {CAUSE_GPU_FAULT, .rank = 2, .line = at3b, .guilty = "GPU-2"},
         {CAUSE_GPU_FAULT, .rank = 3, .line = at5e, .guilty = "GPU-3"},
         {CAUSE_GPU_FAULT, .rank = 0, .line = at5e, .guilty = "GPU-1"},
         {CAUSE_GPU_FAULT, .rank = -1, .line = at5e, .guilty = "GPU-1"},
         {CAUSE_GPU_FAULT, .rank = 2, .line = other}, /* of no rank */
         {CAUSE_GPU_FAULT, .rank = 2, .line = none, .guilty = "GPU-2"},
         {CAUSE_GPU_FAULT, .rank = -1, .line = none},
         {CAUSE_GPU_FAULT, .rank = 3, .line = none, .gained = 50, .guilty = "GPU-3"},
         {CAUSE_GPU_FAULT, .rank = 4, .line = none}, /* beyond the plan */
         {CAUSE_GPU_FAULT, .rank = 400, .line = at3b});
}

/* The same rank, twice in a row, without a new step: each kind of failure that a GPU may cause. */
static void suspicion_needs_two_failures_in_a_row(void **state)
{
    (void)state;
    PLAY({CAUSE_RANK_CRASH, .rank = 2, .signo = SIGSEGV}, {CAUSE_CUDA_ERROR, .rank = 2, .guilty = "GPU-2"},
         {CAUSE_HANG_STEP, .rank = 1}, {CAUSE_HANG_INIT, .rank = 1, .guilty = "GPU-1"},
         {CAUSE_HANG_STEP, .rank = 0}, {CAUSE_HANG_STEP, .rank = 3}, /* another one */
         {CAUSE_HANG_STEP, .rank = 0}, {CAUSE_HANG_STEP, .rank = -1}, {CAUSE_HANG_STEP, .rank = -1},
         {CAUSE_HANG_STEP, .rank = 0}, {CAUSE_HANG_STEP, .rank = 0, .gained = 1}, /* a new step */
         {CAUSE_HANG_STEP, .rank = 0}, {CAUSE_HANG_STEP, .rank = 0, .guilty = "GPU-0"},
         {CAUSE_HANG_STEP, .rank = 0, .guilty = "GPU-0"});
}

/* What no GPU causes is no suspicion, and ends one. */
static void what_is_no_suspicion(void **state)
{
    (void)state;
    const struct failure no[] = {{CAUSE_RANK_CRASH, .rank = 2, .signo = SIGKILL}, {CAUSE_RANK_CRASH, .rank = 2},
                                 {CAUSE_USER_EXIT, .rank = 2}, {CAUSE_CUDA_ERROR, .rank = 2, .echo = true},
                                 {CAUSE_CUDA_ERROR, .rank = 2, .shared = true}};
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        PLAY({CAUSE_CUDA_ERROR, .rank = 2}, no[i], no[i], {CAUSE_CUDA_ERROR, .rank = 2},
             {CAUSE_CUDA_ERROR, .rank = 2, .guilty = "GPU-2"}, {CAUSE_USER_EXIT, .rank = 2});
    }
}

/* One GPU at most is excluded on suspicion; one rank alone is never suspected; without GPUs there is nobody to blame. */
static void where_suspicion_is_not_enough(void **state)
{
    (void)state;
    gpu_blame_fini(&s);
    begin(PLAN, "{\"excluded\":{\"GPU-9\":\"x\"}," GPUS "}");
    PLAY({CAUSE_CUDA_ERROR, .rank = 2}, {CAUSE_CUDA_ERROR, .rank = 2}, {CAUSE_CUDA_ERROR, .rank = 2},
         {CAUSE_GPU_FAULT, .rank = 2, .guilty = "GPU-2"});
    gpu_blame_fini(&s);
    begin(PLAN, "{\"excluded\":{\"GPU-2\":\"x\"}," GPUS "}"); /* used again, because no other was left */
    PLAY({CAUSE_GPU_FAULT, .rank = 2}, {CAUSE_GPU_FAULT, .rank = 3, .guilty = "GPU-3"});
    gpu_blame_fini(&s);
    begin("{\"ranks\":[{\"gpu\":\"GPU-0\",\"node\":0}]}", "{" GPUS "}");
    PLAY({CAUSE_CUDA_ERROR, .rank = 0}, {CAUSE_CUDA_ERROR, .rank = 0}, {CAUSE_GPU_FAULT, .rank = 0, .guilty = "GPU-0"});
    gpu_blame_fini(&s);
    begin("{\"ranks\":[{\"gpu\":null},{\"gpu\":null}]}", "{}");
    PLAY({CAUSE_HANG_STEP, .rank = 0}, {CAUSE_HANG_STEP, .rank = 0}, {CAUSE_GPU_FAULT, .rank = 0});
    gpu_blame_fini(&s);
    begin("{}", "{}");
    PLAY({CAUSE_GPU_FAULT, .rank = 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(proof_excludes_at_once, up, down),
        cmocka_unit_test_setup_teardown(suspicion_needs_two_failures_in_a_row, up, down),
        cmocka_unit_test_setup_teardown(what_is_no_suspicion, up, down),
        cmocka_unit_test_setup_teardown(where_suspicion_is_not_enough, up, down),
    };
    return cmocka_run_group_tests_name("gpu_blame", tests, NULL, NULL);
}
