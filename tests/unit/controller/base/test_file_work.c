/* SPDX-License-Identifier: Apache-2.0 */
/* test_file_work.c - tasks end in order; a hanging one is set aside, and all others continue */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/file_work.h"
#include "engine/base/err.h"

enum { MANY = 100, SOON_MS = 50, CRAWLS = FILE_WORK_THREADS + 16 };

/* A task that hangs reads from a pipe; closing its other end lets all go on. */
static struct {
    uv_loop_t         loop;
    struct file_work *w;
    int               gate[2];
    int               done, late, ids[MANY];
    atomic_int        destroyed, begun, wrong;
    pthread_t         loop_thread;
} t;

struct task {
    struct file_task base;
    int              id;
    bool             bad, hangs, worked;
};

static void work(struct file_task *base)
{
    struct task *k = (struct task *)base;
    char c;
    t.wrong += pthread_equal(pthread_self(), t.loop_thread) != 0;
    t.begun++;
    if (k->hangs && read(t.gate[0], &c, 1) != 0)
        t.wrong++;
    k->worked = true;
}

static void destroy(struct file_task *base)
{
    t.destroyed++;
    free(base);
}

static void done(struct file_task *base)
{
    const struct task *k = (const struct task *)base;
    assert_true(pthread_equal(pthread_self(), t.loop_thread));
    assert_true(k->worked);
    t.ids[t.done++ % MANY] = k->id;
    free(base);
}

/* On a slow machine others may be late, too. */
static void late(struct file_task *base)
{
    t.late += ((struct task *)base)->bad;
}

static struct task *begin(const char *lane, int id, bool hangs)
{
    char what[40];
    struct task *k = calloc(1, sizeof(*k));
    k->base = (struct file_task){ .work = work, .done = done, .late = late, .destroy = destroy };
    k->id = id;
    k->hangs = hangs;
    k->bad = strncmp(lane, "bad", 3) == 0;
    snprintf(what, sizeof(what), "reading /d/%d", id);
    assert_int_equal(file_work_begin(t.w, &k->base, lane, what, NULL), 0);
    return k;
}

static int open_work(void **state)
{
    (void)state;
    struct err err = { 0 };
    memset(&t, 0, sizeof(t));
    t.loop_thread = pthread_self();
    assert_int_equal(uv_loop_init(&t.loop), 0);
    assert_int_equal(pipe2(t.gate, O_CLOEXEC), 0);
    t.w = file_work_open(&t.loop, SOON_MS, &err);
    return t.w ? 0 : -1;
}

static void open_gate(void)
{
    if (t.gate[1] >= 0)
        close(t.gate[1]);
    t.gate[1] = -1;
}

static int close_work(void **state)
{
    (void)state;
    file_work_close(t.w);
    open_gate();
    uv_run(&t.loop, UV_RUN_DEFAULT);
    close(t.gate[0]);
    assert_int_equal(t.wrong, 0);
    return uv_loop_close(&t.loop);
}

#define UNTIL(condition) while (!(condition)) uv_run(&t.loop, UV_RUN_ONCE)

static void a_lane_keeps_its_order(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        begin("one", i, false);
    UNTIL(t.done == MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(t.ids[i], i);
}

static void a_task_that_hangs_holds_its_lane_only(void **state)
{
    (void)state;
    struct err err = { 0 };
    assert_false(file_work_stuck(t.w, "bad", &err));
    struct task *stuck = begin("bad", 7, true), *behind = begin("bad", 8, false);
    for (int i = 0; i < 20; i++) {
        char lane[16];
        snprintf(lane, sizeof(lane), "good %d", i);
        begin(lane, i, false);
    }
    UNTIL(t.done == 20 && t.late == 2 && file_work_stuck(t.w, "bad", NULL));
    file_work_why(t.w, &stuck->base, &err);
    assert_non_null(strstr(err.text, "reading /d/7 has not answered for "));
    assert_false(file_work_stuck(t.w, "good 1", NULL));
    err = (struct err){ 0 };
    file_work_why(t.w, &behind->base, &err);
    assert_non_null(strstr(err.text, "reading /d/7 has not answered for "));     /* what it waits for */
    file_work_drop(t.w, &stuck->base);
    file_work_drop(t.w, &behind->base);
    assert_int_equal(t.destroyed, 1);   /* the other one when its call returns */
    open_gate();
    UNTIL(t.destroyed == 2);
    assert_int_equal(t.done, 20);
    begin("bad", 9, false);             /* the lane is free again */
    UNTIL(t.done == 21);
}

static void hanging_tasks_do_not_use_up_the_threads(void **state)
{
    (void)state;
    for (int i = 0; i < FILE_WORK_THREADS - FILE_WORK_BUSY; i++) {
        char lane[16];
        snprintf(lane, sizeof(lane), "bad %d", i);
        begin(lane, i, true);
    }
    UNTIL(t.begun == FILE_WORK_THREADS - FILE_WORK_BUSY);
    begin("good", 99, false);
    UNTIL(t.done == 1);
    assert_int_equal(t.ids[0], 99);
    open_gate();
    UNTIL(t.done == FILE_WORK_THREADS - FILE_WORK_BUSY + 1);
}

static void threads_are_bounded(void **state)
{
    (void)state;
    struct task *last = NULL;
    for (int i = 0; i < CRAWLS; i++) {
        char lane[16];
        snprintf(lane, sizeof(lane), "bad %d", i);
        last = begin(lane, i, true);
    }
    UNTIL(t.late == CRAWLS);
    assert_in_range(t.begun, FILE_WORK_BUSY, FILE_WORK_THREADS);
    struct err err = { 0 };
    file_work_why(t.w, &last->base, &err);
    assert_non_null(strstr(err.text, "has to wait for "));
    open_gate();
    UNTIL(t.done == CRAWLS);
}

static void closing_does_not_wait_for_what_hangs(void **state)
{
    (void)state;
    begin("bad", 1, true);
    begin("bad", 2, false);
    begin("good", 3, false);
    UNTIL(t.late == 2 && t.done == 1);
    file_work_close(t.w);
    t.w = NULL;
    uv_run(&t.loop, UV_RUN_DEFAULT);
    assert_int_equal(t.destroyed, 1);   /* number 2 */
    open_gate();
    while (t.destroyed < 2)             /* by the thread, which comes last */
        usleep(1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_work, close_work)
        TEST(a_lane_keeps_its_order),
        TEST(a_task_that_hangs_holds_its_lane_only),
        TEST(hanging_tasks_do_not_use_up_the_threads),
        TEST(threads_are_bounded),
        TEST(closing_does_not_wait_for_what_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
