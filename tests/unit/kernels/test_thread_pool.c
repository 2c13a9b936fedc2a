/* SPDX-License-Identifier: Apache-2.0 */
/* test_thread_pool.c - each part runs once: from one caller, from many, in a forked child */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/thread_pool.h"

enum { N = 5000 };

struct counts {
    atomic_int *hit;
};

static void count_part(const void *arg, int part)
{
    const struct counts *c = arg;
    atomic_fetch_add(&c->hit[part], 1);
}

static void count_range(const void *arg, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        count_part(arg, (int)i);
}

/* 1 if each of the first n was hit `times` times and no other was hit. */
static int all_hit(atomic_int *hit, int n, int times)
{
    for (int i = 0; i < N; i++)
        if (hit[i] != (i < n ? times : 0))
            return 0;
    return 1;
}

static void every_part_runs_once(void **state)
{
    (void)state;
    static const int parts[] = {0, 1, 2, 3, 7, 16, 100, N};
    atomic_int *hit = calloc(N, sizeof(*hit));
    const struct counts c = {hit};
    for (int round = 0; round < 300; round++)
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            if (parts[i] == N && round % 20)
                continue;
            memset(hit, 0, N * sizeof(*hit));
            thread_pool_run(parts[i], count_part, &c);
            assert_true(all_hit(hit, parts[i], 1));
        }
    free(hit);
}

static void ranges_cover_and_keep_to_units(void **state)
{
    (void)state;
    atomic_int *hit = calloc(N, sizeof(*hit));
    const struct counts c = {hit};
    for (size_t n = 0; n <= N; n += 83)
        for (size_t unit = 1; unit <= 64; unit *= 4)
            for (size_t work = 1; work <= 100000; work *= 100) {
                memset(hit, 0, N * sizeof(*hit));
                thread_pool_range(n, unit, work, count_range, &c);
                assert_true(all_hit(hit, (int)n, 1));
            }
    for (int parts = 1; parts < 9; parts++) {
        size_t at = 0;
        for (int p = 0; p < parts; p++) {
            size_t from, to;
            thread_pool_slice(&from, &to, 100, 16, p, parts);
            assert_int_equal(from, at);
            assert_true(from % 16 == 0 || from == 100);
            at = to;
        }
        assert_int_equal(at, 100);
    }
    free(hit);
}

static void loops_run_side_by_side(void **state)
{
    (void)state;
    atomic_int *hit = calloc(N, sizeof(*hit)), *other = calloc(N, sizeof(*other));
    const struct counts a = {hit}, b = {other};
    for (size_t work = 1; work <= 100000; work *= 10)
        for (size_t n = 1; n < N; n += 619) {
            const struct thread_pool_loop loops[] = {
                {n, work, count_range, &a},
                {N - n, work, count_range, &b},
                {n / 2, work, count_range, &a},
            };
            memset(hit, 0, N * sizeof(*hit));
            memset(other, 0, N * sizeof(*other));
            thread_pool_loops(loops, 3);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(hit[i], i < n / 2 ? 2 : 1);
            assert_true(all_hit(other, (int)(N - n), 1));
        }
    free(hit);
    free(other);
}

static void lists_merge_evenly(void **state)
{
    (void)state;
    for (int a = 0; a < 9; a++)
        for (int b = 1; b < 20; b++) {
            const int parts[2] = {a, b};
            int seen[2] = {0}, index;
            for (int p = 0; p < a + b; p++) {
                const int which = thread_pool_merge(p, parts, 2, &index);
                assert_int_equal(index, seen[which]);
                seen[which]++;
                if (p + 1 == (a + b) / 2)
                    assert_in_range(2 * seen[0], a > 2 ? a - 2 : 0, a + 2);
            }
            assert_int_equal(seen[0], a);
            assert_int_equal(seen[1], b);
        }
}

static void nested_part(const void *arg, int part)
{
    (void)part;
    thread_pool_run(10, count_part, arg);
}

static void a_loop_in_a_loop_runs_alone(void **state)
{
    (void)state;
    atomic_int *hit = calloc(N, sizeof(*hit));
    const struct counts c = {hit};
    thread_pool_run(20, nested_part, &c);
    assert_true(all_hit(hit, 10, 20));
    free(hit);
}

static void *many_loops(void *arg)
{
    for (int i = 0; i < 500; i++)
        thread_pool_run(9, count_part, arg);
    return NULL;
}

static void concurrent_callers_both_finish(void **state)
{
    (void)state;
    enum { CALLERS = 4 };
    atomic_int *hit = calloc(N, sizeof(*hit));
    struct counts c = {hit};
    pthread_t t[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, many_loops, &c), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(t[i], NULL);
    assert_true(all_hit(hit, 9, CALLERS * 500));
    free(hit);
}

static void a_forked_child_runs_its_loops_alone(void **state)
{
    (void)state;
    atomic_int *hit = calloc(N, sizeof(*hit));
    const struct counts c = {hit};
    thread_pool_run(64, count_part, &c);
    memset(hit, 0, N * sizeof(*hit));
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        for (int i = 0; i < 50; i++)
            thread_pool_run(64, count_part, &c);
        _exit(all_hit(hit, 64, 50) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(hit);
}

int main(void)
{
    /* More threads than this machine may have, so that races can show. */
    setenv("OMP_NUM_THREADS", "5", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_runs_once),
        cmocka_unit_test(ranges_cover_and_keep_to_units),
        cmocka_unit_test(loops_run_side_by_side),
        cmocka_unit_test(lists_merge_evenly),
        cmocka_unit_test(a_loop_in_a_loop_runs_alone),
        cmocka_unit_test(concurrent_callers_both_finish),
        cmocka_unit_test(a_forked_child_runs_its_loops_alone),
    };
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
