/* SPDX-License-Identifier: Apache-2.0 */
/* test_request_wait.c - requests that sleep are woken once, by what they wait for */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/http/server_internal.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { REQUESTS = 4 };

static struct daemon d;
static struct server server;
static struct listener listener;
static struct request r[REQUESTS];
static int suspended[REQUESTS], resumed[REQUESTS], runs, alarms;

/* In place of libmicrohttpd: a connection is the address of its counter. */
void MHD_suspend_connection(struct MHD_Connection *c)
{
    ++*(int *)(void *)c;
}

void MHD_resume_connection(struct MHD_Connection *c)
{
    const ptrdiff_t i = (int *)(void *)c - suspended;
    resumed[i]++;
    assert_int_equal(resumed[i], suspended[i]); /* the library aborts otherwise */
}

static char answer[500];
static unsigned status;

struct MHD_Response *MHD_create_response_from_buffer(size_t size, void *text, enum MHD_ResponseMemoryMode mode)
{
    assert_int_equal(mode, MHD_RESPMEM_MUST_FREE);
    snprintf(answer, sizeof(answer), "%.*s", (int)size, (char *)text);
    free(text);
    return (struct MHD_Response *)(void *)answer;
}

enum MHD_Result MHD_add_response_header(struct MHD_Response *r0, const char *name, const char *value)
{
    return r0 && name && value ? MHD_YES : MHD_NO;
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *c, unsigned int code, struct MHD_Response *r0)
{
    status = code;
    return c && r0 ? MHD_YES : MHD_NO;
}

void MHD_destroy_response(struct MHD_Response *r0)
{
    assert_ptr_equal(r0, answer);
}

static void count_run(uv_timer_t *timer)
{
    (void)timer;
    runs++;
}

static void count_alarm(uv_timer_t *timer)
{
    (void)timer;
    alarms++;
}

/* Runs the loop until request i was woken `times` times; fails after a minute. */
static void wait_for(int i, int times)
{
    uv_timer_t alarm;
    alarms = 0;
    uv_timer_init(&d.loop, &alarm);
    uv_timer_start(&alarm, count_alarm, 60000, 0);
    while (!alarms && resumed[i] < times)
        uv_run(&d.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&alarm, NULL);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    assert_int_equal(resumed[i], times);
}

static int up(void **state)
{
    (void)state;
    memset(&d, 0, sizeof(d));
    memset(r, 0, sizeof(r));
    memset(suspended, 0, sizeof(suspended));
    memset(resumed, 0, sizeof(resumed));
    runs = 0;
    uv_loop_init(&d.loop);
    d.files = file_work_open(&d.loop, 60000, NULL);
    server = (struct server){ .daemon = &d, .listeners = &listener };
    listener = (struct listener){ .server = &server, .run = count_run };
    uv_timer_init(&d.loop, &listener.timer);
    for (int i = 0; i < REQUESTS; i++) {
        r[i].listener = &listener;
        r[i].connection = (struct MHD_Connection *)(void *)&suspended[i];
    }
    d.server = &server;
    return d.files ? 0 : -1;
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < REQUESTS; i++)
        request_fini(&r[i]);
    file_work_close(d.files);
    uv_close((uv_handle_t *)&listener.timer, NULL);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&d.loop);
}

static void assert_awake(int i, int times)
{
    assert_false(r[i].asleep);
    assert_int_equal(suspended[i], times);
    assert_int_equal(resumed[i], times);
    for (const struct request *s = server.asleep; s; s = s->next)
        assert_ptr_not_equal(s, &r[i]);
}

static void a_change_of_the_job_wakes_once(void **state)
{
    (void)state;
    assert_int_equal(request_rest(&r[0], 7, 3600000), 0);
    assert_int_equal(request_rest(&r[1], 8, 3600000), 0);
    assert_int_equal(request_rest(&r[2], ANY_JOB, 3600000), 0);
    assert_int_equal(request_rest(&r[3], 7, 3600000), 0);
    for (int i = 0; i < REQUESTS; i++)
        assert_true(r[i].asleep && suspended[i] == 1 && resumed[i] == 0);
    server_wake(&server, 7);
    assert_awake(0, 1);
    assert_awake(3, 1);
    assert_true(r[1].asleep && resumed[1] == 0);
    server_wake(&server, 7);
    assert_awake(0, 1);
    server_wake(&server, 8);
    assert_awake(1, 1);
    assert_awake(2, 1);
    assert_null(server.asleep);
    server_wake(NULL, 7);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    assert_int_equal(runs, 1); /* libmicrohttpd continues them soon */
    assert_int_equal(request_rest(&r[0], 7, 3600000), 0); /* its handler is not done */
    server_wake(&server, 7);
    assert_awake(0, 2);
}

static void time_wakes_up_to_the_deadline(void **state)
{
    (void)state;
    assert_false(request_over(&r[0]));
    request_sleep(&r[0], 7, 60);
    const int64_t deadline = r[0].deadline_ms;
    assert_int_equal(deadline, (int64_t)uv_now(&d.loop) + 60);
    server_wake(&server, 7);
    assert_false(request_over(&r[0]));
    request_sleep(&r[0], 7, 3600000); /* the deadline stays */
    assert_int_equal(r[0].deadline_ms, deadline);
    wait_for(0, 2);
    assert_awake(0, 2);
    assert_true(request_over(&r[0]));
    request_sleep(&r[0], 7, 1); /* a deadline that has passed: at once */
    wait_for(0, 3);
    assert_awake(0, 3);
    server.closing = true;
    assert_true(request_over(&r[1]) && request_closing(&r[1]));
}

static void files_wake_who_watches(void **state)
{
    (void)state;
    char dir[100], path[120];
    scratch_dir_create(dir, sizeof(dir), "watch");
    request_watch(&r[0], dir); /* not asleep */
    assert_null(r[0].watch);
    request_rest(&r[0], 7, 3600000);
    request_watch(&r[0], "/nonexistent/directory");
    assert_null(r[0].watch);
    request_watch(&r[0], dir);
    assert_non_null(r[0].watch);
    snprintf(path, sizeof(path), "%s/rank0.log", dir);
    close(open(path, O_WRONLY | O_CREAT, 0600));
    wait_for(0, 1);
    assert_awake(0, 1);
    assert_true(!r[0].watch && !r[0].timer);
    scratch_dir_remove(dir);
}

static int worked, destroyed;

static void work(struct file_task *task)
{
    (void)task;
    worked++;
}

static void destroy(struct file_task *task)
{
    destroyed++;
    free(task);
}

static struct file_task *task_of(void)
{
    struct file_task *t = calloc(1, sizeof(*t));
    *t = (struct file_task){ .work = work, .destroy = destroy };
    return t;
}

static void file_work_wakes_its_request(void **state)
{
    (void)state;
    worked = destroyed = 0;
    struct file_task *t = task_of();
    request_work(&r[0], t, "files of 7", "reading /a");
    assert_true(r[0].asleep && !request_worked(&r[0]));
    server_wake(&server, 7); /* not what it waits for */
    server_wake(&server, ANY_JOB);
    assert_int_equal(resumed[0], 0);
    wait_for(0, 1);
    assert_awake(0, 1);
    assert_ptr_equal(request_worked(&r[0]), t);
    assert_true(request_resume(&r[0]));
    request_fini(&r[0]); /* the client has gone before its handler ran */
    assert_null(r[0].task);
    assert_true(worked == 1 && destroyed == 1);
}

static int gate[2];

static void hang(struct file_task *task)
{
    char byte;
    (void)task;
    if (read(gate[0], &byte, 1) == 1)
        worked++;
}

static json_t *otherwise(struct file_task *task)
{
    (void)task;
    return json_pack("{s:i}", "job", 7);
}

/* A file system that does not answer: the request is answered in time, with what is known without the files. */
static void late_file_work_is_answered_without_it(void **state)
{
    (void)state;
    static const struct route row = { "GET", "/v1/x", NULL, NULL };
    file_work_close(d.files);
    d.files = file_work_open(&d.loop, 100, NULL);
    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < 2; i++) {
        struct file_task *t = task_of();
        t->work = hang;
        r[i].route = &row;
        answer[0] = '\0';
        request_work_or(&r[i], t, i ? "other" : "lane", "reading /a", i ? otherwise : NULL);
        wait_for(i, 1);
        assert_awake(i, 1);
        assert_null(request_worked(&r[i]));
        assert_false(request_resume(&r[i])); /* it has been answered */
        assert_int_equal(status, i ? 200 : 503);
        assert_non_null(strstr(answer, "reading /a has not answered"));
        assert_int_equal(strstr(answer, "{\"job\":7,\"files\":\"") != NULL, i);
    }
    assert_int_equal(write(gate[1], "xx", 2), 2);
    close(gate[1]);
}

/* Of the last changes it is known which job each was; of older ones, and of those to come, it is not. */
static void changes_are_kept_up_to_their_bound(void **state)
{
    (void)state;
    assert_int_equal(server_changes(&server), 0);
    for (int64_t n = 1; n <= 2 * CHANGES_KEPT + 5; n++)
        server_wake(&server, 100 + n);
    const int64_t last = server_changes(&server);
    assert_int_equal(last, 2 * CHANGES_KEPT + 5);
    for (int64_t n = last - CHANGES_KEPT + 1; n <= last; n++)
        assert_int_equal(server_change(&server, n), 100 + n);
    assert_int_equal(server_change(&server, last - CHANGES_KEPT), -1);
    assert_int_equal(server_change(&server, last + 1), -1);
    assert_int_equal(server_change(&server, 0), -1);
    memset(&server, 0, sizeof(server));
    server_wake(&server, 7);
    assert_int_equal(server_change(&server, 1), 7);
    assert_int_equal(server_change(&server, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_of_the_job_wakes_once, up, down),
        cmocka_unit_test_setup_teardown(time_wakes_up_to_the_deadline, up, down),
        cmocka_unit_test_setup_teardown(files_wake_who_watches, up, down),
        cmocka_unit_test_setup_teardown(file_work_wakes_its_request, up, down),
        cmocka_unit_test_setup_teardown(late_file_work_is_answered_without_it, up, down),
        cmocka_unit_test_setup_teardown(changes_are_kept_up_to_their_bound, up, down),
    };
    return cmocka_run_group_tests_name("request_wait", tests, NULL, NULL);
}
