/* SPDX-License-Identifier: Apache-2.0 */
/* The order of callbacks of tests/sim/virtual_uv.c, the same scenes on libuv itself (test_real_uv.c); and what
 * only a virtual loop can do: kill a process between two callbacks, repeat a history. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#ifndef REAL_UV
#include "tests/sim/virtual_process.h"
#endif

static char trace[4096];

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *fmt, ...)
{
    const size_t at = strlen(trace);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(trace + at, sizeof(trace) - at, fmt, ap);
    va_end(ap);
}

static void on_timer(uv_timer_t *t)
{
    note("%s ", (const char *)t->data);
}

static void on_prepare(uv_prepare_t *p)
{
    (void)p;
    note("prepare ");
}

static void on_check(uv_check_t *c)
{
    (void)c;
    note("check ");
}

static void on_closed(uv_handle_t *h)
{
    note("closed:%s ", (const char *)h->data);
}

/* ---- scenes, for both ---- */

static void timers(void *arg)
{
    uv_loop_t loop;
    uv_timer_t t[4];
    static const char *const names[4] = { "late", "soon", "again", "same" };
    (void)arg;
    uv_loop_init(&loop);
    for (int i = 0; i < 4; i++) {
        uv_timer_init(&loop, &t[i]);
        t[i].data = (void *)(uintptr_t)names[i];
    }
    uv_timer_start(&t[0], on_timer, 90, 0);
    uv_timer_start(&t[1], on_timer, 10, 0);
    uv_timer_start(&t[2], on_timer, 40, 40);
    uv_timer_start(&t[3], on_timer, 10, 0);
    note("active:%d ", uv_is_active((uv_handle_t *)&t[0]));
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_ONCE);
    uv_timer_stop(&t[2]);
    note("%s ", uv_run(&loop, UV_RUN_DEFAULT) ? "alive" : "over");
    for (int i = 0; i < 4; i++)
        uv_close((uv_handle_t *)&t[i], on_closed);
    note("busy:%d ", uv_loop_close(&loop) == UV_EBUSY);
    uv_run(&loop, UV_RUN_DEFAULT);
    note("close:%d", uv_loop_close(&loop));
}

static void phases(void *arg)
{
    uv_loop_t loop;
    uv_prepare_t prepare = { .data = (void *)(uintptr_t)"p" };
    uv_check_t check = { .data = (void *)(uintptr_t)"c" };
    uv_timer_t zero = { .data = (void *)(uintptr_t)"zero" };
    (void)arg;
    uv_loop_init(&loop);
    uv_prepare_init(&loop, &prepare);
    uv_check_init(&loop, &check);
    uv_timer_init(&loop, &zero);
    uv_prepare_start(&prepare, on_prepare);
    uv_check_start(&check, on_check);
    uv_timer_start(&zero, on_timer, 0, 0);
    uv_run(&loop, UV_RUN_NOWAIT);
    note("| ");
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_stop(&loop);
    note("| alive:%d ", uv_run(&loop, UV_RUN_DEFAULT));
    uv_close((uv_handle_t *)&prepare, on_closed);
    uv_close((uv_handle_t *)&check, on_closed);
    uv_close((uv_handle_t *)&zero, on_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    note("close:%d", uv_loop_close(&loop));
}

static void on_async(uv_async_t *a)
{
    note("async ");
    uv_close((uv_handle_t *)a, NULL);
}

static void work(uv_work_t *w)
{
    uv_async_send(w->data);
}

static void worked(uv_work_t *w, int status)
{
    (void)w;
    (void)status;
}

static void threads(void *arg)
{
    uv_loop_t loop;
    uv_async_t async;
    uv_work_t req = { .data = &async };
    (void)arg;
    uv_loop_init(&loop);
    uv_async_init(&loop, &async, on_async);
    uv_queue_work(&loop, &req, work, worked);
    note("%s ", uv_run(&loop, UV_RUN_DEFAULT) ? "alive" : "over");
    note("close:%d", uv_loop_close(&loop));
}

static void give_room(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
    static char room[64];
    (void)h;
    (void)hint;
    *b = uv_buf_init(room, sizeof(room));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    if (n > 0)
        note("read:%.*s ", (int)n, b->base);
    if (n != UV_EOF)
        return;
    note("eof ");
    uv_close((uv_handle_t *)s, on_closed);
}

static void on_written(uv_write_t *w, int status)
{
    (void)w;
    note("written:%d ", status);
}

static void on_shut(uv_shutdown_t *s, int status)
{
    (void)s;
    note("shut:%d ", status);
}

static void streams(void *arg)
{
    uv_loop_t loop;
    uv_pipe_t a = { .data = (void *)(uintptr_t)"a" }, b = { .data = (void *)(uintptr_t)"b" };
    uv_write_t w;
    uv_shutdown_t shut;
    char hello[] = "hello", more[] = ", world";
    const uv_buf_t bufs[2] = { uv_buf_init(hello, 5), uv_buf_init(more, 7) };
    int fds[2];
    (void)arg;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    uv_loop_init(&loop);
    uv_pipe_init(&loop, &a, 0);
    uv_pipe_init(&loop, &b, 0);
    uv_pipe_open(&a, fds[0]);
    uv_pipe_open(&b, fds[1]);
    uv_read_start((uv_stream_t *)&b, give_room, on_read);
    uv_write(&w, (uv_stream_t *)&a, bufs, 2, on_written);
    note("queued:%zu ", uv_stream_get_write_queue_size((uv_stream_t *)&a));
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_NOWAIT);
    note("| ");
    uv_shutdown(&shut, (uv_stream_t *)&a, on_shut);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&a, on_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    note("close:%d", uv_loop_close(&loop));
}

static void scene(void (*run)(void *), const char *expected)
{
    trace[0] = 0;
#ifdef REAL_UV
    run(NULL);
#else
    sim_open(1);
    sim_callback_cost(0);
    struct sim_process *p = sim_start("scene", run, NULL);
    while (sim_alive(p))
        if (!sim_turn())
            sim_clock_to(sim_due());
    sim_close();
#endif
    assert_string_equal(trace, expected);
}

static void test_scenes(void **state)
{
    (void)state;
    scene(timers, "active:1 soon same again again late over busy:1 closed:same closed:again closed:soon "
                  "closed:late close:0");
    scene(phases, "zero prepare check | prepare check | alive:1 closed:zero closed:c closed:p close:0");
    scene(threads, "async over close:0");
    scene(streams, "queued:0 written:0 read:hello, world | shut:0 eof closed:b closed:a close:0");
}

/* ---- only virtual ---- */

#ifndef REAL_UV

static void tick(uv_timer_t *t)
{
    (void)t;
    note("%s@%lld ", sim_name(sim_current()), (long long)(sim_now() / 1000000 % 100000));
}

static void on_signal(uv_signal_t *s, int number)
{
    note("signal:%d ", number);
    uv_stop(s->loop);
}

static void ticks(void *arg)
{
    uv_loop_t loop;
    uv_timer_t t;
    uv_signal_t s;
    uv_loop_init(&loop);
    uv_timer_init(&loop, &t);
    uv_signal_init(&loop, &s);
    uv_signal_start(&s, on_signal, 15);
    uv_timer_start(&t, tick, *(uint64_t *)arg, *(uint64_t *)arg);
    uv_run(&loop, UV_RUN_DEFAULT);
    note("%s ends ", sim_name(sim_current()));
}

static void run_until(int64_t ms)
{
    const int64_t end = sim_now() + ms * 1000000;
    while (sim_now() < end)
        if (!sim_turn())
            sim_clock_to(sim_due() < end ? sim_due() : end);
}

static void history(char *out, size_t size, uint64_t seed)
{
    uint64_t often = 10, seldom = 30;
    trace[0] = 0;
    sim_open(seed);
    struct sim_process *a = sim_start("a", ticks, &often), *b = sim_start("b", ticks, &seldom);
    run_until(65);
    sim_kill(a);
    sim_stall(b, sim_now() + 100 * 1000000);
    note("| ");
    run_until(130);
    sim_signal(b, 15);
    run_until(10);
    assert_false(sim_alive(a) || sim_alive(b));
    sim_close();
    snprintf(out, size, "%s", trace);
}

static void test_kill_stall_repeat(void **state)
{
    char one[sizeof(trace)], two[sizeof(trace)];
    bool differ = false;
    (void)state;
    history(one, sizeof(one), 7);
    const char *later = strchr(one, '|');
    assert_non_null(strstr(one, "a@60 "));
    assert_non_null(strstr(one, "b@30 "));
    assert_non_null(later);
    assert_null(strstr(later, "a@"));           /* killed */
    assert_null(strstr(later, "b@90 "));        /* got no processor */
    assert_non_null(strstr(later, "signal:15 b ends"));
    history(two, sizeof(two), 7);
    assert_string_equal(one, two);
    for (uint64_t seed = 8; seed < 28 && !differ; seed++) {
        history(two, sizeof(two), seed);
        differ = strcmp(one, two) != 0;
    }
    assert_true(differ);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int count;

static void *add(void *arg)
{
    pthread_mutex_lock(&lock);
    count += *(int *)arg;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void wait_for_threads(void *arg)
{
    pthread_t t[2];
    int one = 1;
    (void)arg;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, add, &one), 0);
    pthread_mutex_lock(&lock);
    while (count < 2)
        pthread_cond_wait(&more, &lock);
    const int64_t from = sim_now();
    const struct timespec until = { .tv_sec = from / 1000000000 + 5, .tv_nsec = from % 1000000000 };
    assert_int_equal(pthread_cond_timedwait(&more, &lock, &until), ETIMEDOUT);
    assert_int_equal(sim_now() - from, INT64_C(5000000000));
    pthread_mutex_unlock(&lock);
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    note("joined");
}

static void test_threads(void **state)
{
    (void)state;
    scene(wait_for_threads, "joined");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenes),
#ifndef REAL_UV
        cmocka_unit_test(test_kill_stall_repeat),
        cmocka_unit_test(test_threads),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
