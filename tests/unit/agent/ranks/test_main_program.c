/* SPDX-License-Identifier: Apache-2.0 */
/* test_main_program.c - which processes are asked to stop first, for various kinds of commands */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/ranks/main_program.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { MOST = 8 };

struct shape {
    const char *what;
    struct process_tree_member all[MOST]; /* pid 0 ends */
    const char *names[MOST];
    int64_t programs[MOST], shells[MOST]; /* 0 ends */
};

static const struct shape shapes[] = {
    {"a program that the shell has become", {{10, 1, 0}}, {"python3.11"}, {10}, {0}},
    {"a script without exec", {{10, 1, 1}, {11, 10, 0}}, {"dash", "python3"}, {11}, {10}},
    {"its workers", {{10, 1, 1}, {11, 10, 2}, {12, 11, 0}, {13, 11, 0}}, {"bash", "python3", "python3", "python3"},
     {11}, {10}},
    {"a pipeline into a filter", {{10, 1, 2}, {11, 10, 0}, {12, 10, 0}}, {"sh", "python3", "tee"}, {11}, {10}},
    {"a pipeline of programs", {{10, 1, 2}, {11, 10, 0}, {12, 10, 0}}, {"sh", "feed", "train"}, {11, 12}, {10}},
    {"a shell in a shell", {{10, 1, 1}, {11, 10, 1}, {12, 11, 0}}, {"sh", "bash", "python3"}, {12}, {10, 11}},
    {"a shell below a program", {{10, 1, 1}, {11, 10, 1}, {12, 11, 1}, {13, 12, 0}},
     {"sh", "torchrun", "sh", "python3"}, {11}, {10}},
    {"only filters", {{10, 1, 2}, {11, 10, 0}, {12, 10, 0}}, {"sh", "cat", "grep"}, {11, 12}, {10}},
    {"only a shell", {{10, 1, 0}}, {"sh"}, {0}, {10}},
    {"left behind by the shell", {{11, 1, 1}, {12, 11, 0}}, {"python3", "python3"}, {11}, {0}},
};

static int count(const int64_t *pids)
{
    int n = 0;
    while (n < MOST && pids[n])
        n++;
    return n;
}

static void same(const struct shape *s, const int64_t *got, int n, const int64_t *want)
{
    if (n != count(want))
        fail_msg("%s: %d processes, expected %d", s->what, n, count(want));
    for (int i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("%s: pid %lld, expected %lld", s->what, (long long)got[i], (long long)want[i]);
}

static void programs_come_first(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(shapes); k++) {
        int64_t got[MOST];
        int n = 0;
        while (n < MOST && shapes[k].all[n].pid)
            n++;
        same(&shapes[k], got, main_program_list(shapes[k].all, shapes[k].names, n, got, MOST), shapes[k].programs);
        same(&shapes[k], got, main_program_shells(shapes[k].all, shapes[k].names, n, got, MOST), shapes[k].shells);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_come_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
