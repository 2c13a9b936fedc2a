/* SPDX-License-Identifier: Apache-2.0 */
/* test_cause.c - each row is a death and its expected cause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/core/cause.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *what;
    struct evidence e;
    const char *cause;
    bool retry;
    const char *text; /* contained */
} rows[] = {
    {"success", {.engine = true}, "none", false, "code 0"},
    {"kill -9",
     {.engine = true, .signalled = true, .signo = 9},
     "rank_crash",
     true,
     "rank 3 was killed by SIGKILL (9)"},
    {"segfault", {.signalled = true, .signo = 11}, "rank_crash", true, "SIGSEGV (11)"},
    {"illegal instruction",
     {.engine = true, .signalled = true, .signo = 4},
     "wrong_processor",
     false,
     "SIGILL (4): built for another processor"},
    {"shell's child had one", {.exit_code = 132}, "wrong_processor", false, "another processor"},
    {"real-time signal", {.signalled = true, .signo = 40}, "rank_crash", true, "signal (40)"},
    {"bus error", {.signalled = true, .signo = 7}, "rank_crash", true, "/dev/shm"},
    {"shell's child killed", {.exit_code = 137}, "rank_crash", true, "SIGKILL (9)"},
    {"engine has no shell", {.engine = true, .exit_code = 137}, "unknown", true, "code 137"},
    {"oom killer",
     {.engine = true, .signalled = true, .signo = 9, .oom_killed = true},
     "host_oom",
     true,
     "memory"},
    {"stopped by us",
     {.signalled = true, .signo = 15, .stop_asked = true},
     "none",
     false,
     "stopped by SIGTERM"},
    {"stopped and saved",
     {.engine = true, .exit_code = 75, .stop_asked = true},
     "none",
     false,
     "on request"},
    {"75 unasked", {.engine = true, .exit_code = 75}, "preempted", true, "did not come from jobctl"},
    {"its own word wins",
     {.engine = true, .exit_code = 70, .reported = "nan_loss", .text = "loss is NaN at step 9"},
     "nan_loss",
     true,
     "loss is NaN at step 9"},
    {"a sentence with paths is told to its end",
     {.engine = true, .exit_code = 64, .reported = "config_error", .text =
      "/scratch/somebody/experiments/sana-600m-icons/checkpoints/step-00000020 was written by another job (seven): set "
      "another checkpoint.dir for this job, or continue from it with `resume: "
      "/scratch/somebody/experiments/sana-600m-icons/checkpoints/step-00000020`"},
     "config_error",
     false,
     "icons/checkpoints/step-00000020`"},
    {"an unknown word does not",
     {.engine = true, .exit_code = 76, .reported = "gremlins"},
     "nan_loss",
     true,
     "NaN or infinite"},
    {"nor does a word before a signal",
     {.engine = true, .signalled = true, .signo = 9, .reported = "nan_loss"},
     "rank_crash",
     true,
     "SIGKILL"},
    {"config", {.engine = true, .exit_code = 64}, "config_error", false, "configuration"},
    {"data", {.engine = true, .exit_code = 65}, "data_error", false, "data"},
    {"checkpoint", {.engine = true, .exit_code = 66}, "checkpoint_error", true, "checkpoint"},
    {"no device", {.engine = true, .exit_code = 67}, "config_error", false, "device"},
    {"bug", {.engine = true, .exit_code = 70}, "unknown", true, "internal error"},
    {"host memory", {.engine = true, .exit_code = 71}, "host_oom", true, "host memory"},
    {"gpu memory", {.engine = true, .exit_code = 72}, "gpu_oom", true, "GPU memory"},
    {"gpu", {.engine = true, .exit_code = 73}, "gpu_fault", true, "GPU failed"},
    {"cuda", {.engine = true, .exit_code = 83}, "cuda_error", true, "CUDA call failed"},
    {"collective", {.engine = true, .exit_code = 74}, "nccl_error", true, "collective"},
    {"desync", {.engine = true, .exit_code = 77}, "desync", true, "different steps"},
    {"disk", {.engine = true, .exit_code = 78}, "disk_full", true, "disk is full"},
    {"run: may use them too", {.exit_code = 64}, "config_error", false, "configuration"},
    {"user's exit", {.exit_code = 3}, "user_exit", true, "rank 3 exited with code 3"},
    {"a pipe without a reader", {.exit_code = 141}, "user_exit", true, "exited with code 141: a program wrote into a pipe"},
    {"killed by a pipe without a reader", {.signalled = true, .signo = 13}, "rank_crash", true, "killed by SIGPIPE"},
    {"not found",
     {.exit_code = 127, .last_lines = "sh: 1: nosuch: not found\n"},
     "config_error",
     false,
     "nosuch: not found"},
    {"traceback",
     {.exit_code = 1,
      .last_lines = "Traceback (most recent call last):\n"
                    "  File \"t.py\", line 3\nRuntimeError: boom\n  at exit\n"},
     "user_exit",
     true,
     "code 1: t.py:3: RuntimeError: boom"},
    {"last line", {.exit_code = 1, .last_lines = "one\ntwo\n\n"}, "user_exit", true, "code 1; no reason was printed"},
    {"torch gpu oom",
     {.exit_code = 1,
      .last_lines = "x\ntorch.cuda.OutOfMemoryError: CUDA out of "
                    "memory. Tried to allocate 2 GiB\n"},
     "gpu_oom",
     true,
     "Tried to allocate"},
    {"disk in output",
     {.exit_code = 1,
      .last_lines = "OSError: [Errno 28] No space left on "
                    "device\n"},
     "disk_full",
     true,
     "No space left"},
    {"duplicate gpu",
     {.exit_code = 1,
      .last_lines = "init.cc:903 NCCL WARN Duplicate GPU "
                    "detected : rank 0 and rank 1 both on CUDA device 50\nncclInvalidUsage\n"},
     "duplicate_gpu",
     false,
     "code 1"},
    {"missing module",
     {.exit_code = 1, .last_lines = "ModuleNotFoundError: No module named 'x'\n"},
     "config_error",
     false,
     "No module named"},
    {"module in text only",
     {.exit_code = 1, .last_lines = "caught ModuleNotFoundError: ok\n"},
     "user_exit",
     true,
     "code 1"},
};

static void every_death_has_its_cause(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct verdict v;
        cause_classify(&v, &rows[i].e, 3);
        if (strcmp(cause_name(v.cause), rows[i].cause) != 0 || v.retry_helps != rows[i].retry ||
            !strstr(v.text, rows[i].text) || strncmp(v.text, "rank 3 ", 7) != 0 ||
            strcmp(v.text + 7, v.detail) != 0)
            fail_msg("%s: %s (retry %d) '%s'", rows[i].what, cause_name(v.cause), v.retry_helps, v.text);
    }
}

/* Is it worth another try by what its output says? */
static void the_output_tells_what_may_pass(void **state)
{
    static const struct {
        const char *output;
        bool passing;
    } outputs[] = {
        {"", false},
        {"wrong number\n", false},
        {"Traceback (most recent call last):\n  File \"t.py\", line 3\nRuntimeError: boom\n", false},
        {"Traceback (most recent call last):\n  File \"t.py\", line 3\nrequests.exceptions.ConnectTimeout: hub\n", true},
        {"curl: (6) Could not resolve host: hub\n", true},
        {"curl: (22) The requested URL returned error: 503\n", true},
        {"sh: 1: cannot create x: Read-only file system\n", true},
        {"bind: port 80 is in use\nexiting\n", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(outputs); i++) {
        struct verdict v;
        cause_classify(&v, &(struct evidence){.exit_code = 1, .last_lines = outputs[i].output}, 0);
        if (v.cause != CAUSE_USER_EXIT || v.passing != outputs[i].passing)
            fail_msg("%s: %s, passing %d", outputs[i].output, cause_name(v.cause), v.passing);
    }
}

static void names_go_both_ways(void **state)
{
    (void)state;
    for (int i = 0; i < CAUSES; i++) {
        enum cause c = CAUSES;
        assert_non_null(cause_name((enum cause)i));
        assert_int_equal(cause_parse(&c, cause_name((enum cause)i)), 0);
        assert_int_equal(c, i);
    }
    enum cause c;
    assert_int_equal(cause_parse(&c, "gremlins"), -1);
    assert_int_equal(cause_parse(&c, NULL), -1);
}

static void long_words_are_cut(void **state)
{
    (void)state;
    char line[5000];
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\0';
    struct verdict v;
    cause_classify(&v, &(struct evidence){.exit_code = 1, .last_lines = line}, 0);
    assert_true(strlen(v.text) < sizeof(v.text));
    cause_classify(&v, &(struct evidence){.exit_code = 1, .reported = "nan_loss", .text = line}, 0);
    assert_int_equal(v.cause, CAUSE_NAN_LOSS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_death_has_its_cause),
        cmocka_unit_test(the_output_tells_what_may_pass),
        cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(long_words_are_cut),
    };
    return cmocka_run_group_tests_name("cause", tests, NULL, NULL);
}
