/* SPDX-License-Identifier: Apache-2.0 */
/* test_success_note.c - commands that ended with code 0, and what is said about them */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/core/success_note.h"

#define FINE "every rank exited with code 0"
#define TRACEBACK "Traceback (most recent call last):\n  File \"/w/bad.py\", line 5, in <module>\n" \
                  "    print(cfg[\"depth\"])\nKeyError: 'depth'\n"
#define TABLE "Traceback (most recent call last):\n  File \"/usr/bin/torchrun\", line 8, in <module>\n    main()\n" \
              "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\nbad.py FAILED\n-----\n" \
              "Failures:\n  <NO_OTHER_FAILURES>\n-----\nRoot Cause (first observed failure):\n[0]:\n  time : now\n" \
              "  host : h\n  rank : 0 (local_rank: 0)\n  exitcode : 1 (pid: 7)\n  error_file: <N/A>\n====\n"

static const struct {
    const char *what, *command, *output;
    int64_t step, steps;
    const char *left, *said;
} rows[] = {
    {"nothing", "python train.py && echo done", "step 9/9 loss 0.5\ndone\n", 9, 9, "", FINE},
    {"a traceback at the end, behind tee", "sh lumina.sh", "step 3\n" TRACEBACK, 3, -1, "",
     FINE "; but the output of rank 0 ends with bad.py:5: KeyError: 'depth'"},
    {"before an echo", "python bad.py; echo done", TRACEBACK "done\n", -1, -1, "",
     FINE "; but the output of rank 0 ends with bad.py:5: KeyError: 'depth'"},
    {"before a launcher's table", "sh lumina.sh", TRACEBACK TABLE, -1, -1, "",
     FINE "; but the output of rank 0 ends with bad.py:5: KeyError: 'depth'"},
    {"one that the program outlived", "python a.py", TRACEBACK "retry\nstep 1\nstep 2\nstep 3\n", -1, -1, "", FINE},
    {"half of the steps, or fewer", "python a.py", "step 9/200\n", 9, 200, "",
     FINE "; but only 9 of 200 steps were reported"},
    {"an early stop", "python a.py", "step 120/200\n", 120, 200, "", FINE},
    {"background", "nohup python a.py > log 2>&1 &", "", -1, -1, "71 (python3), 72 (sh)",
     FINE "; but 2 processes were still running and were ended: 71 (python3), 72 (sh); leave out `&`, or end `run` "
          "with `wait`"},
    {"a helper that ends with its job", "python a.py 2>&1 | cat", "", -1, -1, "71 (python3)", FINE},
    {"`&` in quotes, a comment or a redirection", "echo 'a & b' \"c & d\" >&2 2>&1 &>x # & y\ntrue && true", "", -1, -1,
     "71 (python3)", FINE},
    {"all of it", "python a.py & python b.py", TRACEBACK, 1, 9, "71 (python3)",
     FINE "; but the output of rank 0 ends with bad.py:5: KeyError: 'depth', and only 1 of 9 steps were reported, and "
          "1 process was still running and was ended: 71 (python3); leave out `&`, or end `run` with `wait`"},
};

static void a_doubtful_success_says_why(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char said[1000];
        struct success_note n = {0};
        success_note_exit(&n, &(struct agent_exit){.command = rows[i].command, .last_lines = rows[i].output});
        success_note_say(said, sizeof(said), &n, rows[i].step, rows[i].steps, rows[i].left);
        if (strcmp(said, rows[i].said) != 0)
            fail_msg("%s: %s", rows[i].what, said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_doubtful_success_says_why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
