/* SPDX-License-Identifier: Apache-2.0 */
/* test_server.c - requests over a socket: their route, body and answer, answers that wait, streams, and the end */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/unix_socket.h"
#include "controller/base/daemon.h"
#include "controller/http/request.h"
#include "controller/http/server.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { SMALL = 2048 };

static struct daemon d;
static char dir[80], path[100];
static int settled, gathered, more, dropped;
static bool admits;

static void on_timer(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Runs the loop until the client's socket has an answer up to its end, or for `ms`; the answer, free() it. */
static char *answer_of(int fd, int ms)
{
    char *text = calloc(1, 1 << 20);
    size_t size = 0;
    bool over = false;
    uv_timer_t alarm;
    uv_timer_init(&d.loop, &alarm);
    alarm.data = &over;
    uv_timer_start(&alarm, on_timer, (uint64_t)ms, 0);
    while (!over) {
        const ssize_t n = recv(fd, text + size, (1 << 20) - 1 - size, MSG_DONTWAIT);
        if (n == 0)
            break;
        if (n > 0)
            size += (size_t)n;
        else
            uv_run(&d.loop, UV_RUN_NOWAIT);
    }
    uv_close((uv_handle_t *)&alarm, NULL);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    return text;
}

static int client(const char *head, const char *body)
{
    char text[1000];
    const int fd = unix_socket_connect(path, false, NULL);
    assert_true(fd >= 0);
    const int n = snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                           head, strlen(body));
    assert_int_equal(send(fd, text, (size_t)n, 0), n);
    for (size_t at = 0; at < strlen(body);) {
        const ssize_t sent = send(fd, body + at, strlen(body) - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0)
            at += (size_t)sent;
        else if (errno != EAGAIN)
            break; /* it was refused meanwhile */
        uv_run(&d.loop, UV_RUN_NOWAIT);
    }
    return fd;
}

static void expect_of(int fd, int status, const char *words)
{
    char *text = answer_of(fd, 60000), begin[40];
    snprintf(begin, sizeof(begin), "HTTP/1.1 %d ", status);
    if (strncmp(text, begin, strlen(begin)) != 0 || !strstr(text, words))
        fail_msg("%s\nexpected %d, %s", text, status, words);
    free(text);
    close(fd);
}

static void expect(const char *head, const char *body, int status, const char *words)
{
    expect_of(client(head, body), status, words);
}

/* ---- a service ---- */

static void echo(struct request *r)
{
    int64_t n;
    if (request_number(&n, r, "n", 7) < 0)
        return;
    const char *agent = request_header(r, "Host");
    request_set_header(r, "X-Test", "first");
    request_set_header(r, "X-Test", "second");
    request_set_header(r, "X-Other", "gone");
    request_set_header(r, "X-Other", NULL);
    request_answer(r, 201, json_pack("{s:s, s:I, s:O, s:s}", "job", request_job(r), "n", (json_int_t)n, "body",
                                     request_body(r), "host", agent));
}

static void fails(struct request *r)
{
    struct err err = { 0 };
    err_set(&err, (enum err_code)atoi(request_job(r)), "it failed");
    request_fail(r, &err, json_pack("{s:{s:i}}", "error", "more", 5));
}

static void lacks_memory(struct request *r)
{
    request_answer_text(r, 200, "text/plain", NULL);
}

static void waits(struct request *r)
{
    if (request_closing(r) || request_over(r) || ++*request_memo(r) > 2)
        request_answer(r, 200, json_pack("{s:I, s:b}", "calls", (json_int_t)*request_memo(r), "over", request_over(r)));
    else
        request_sleep(r, atoi(request_job(r)), 3600000);
}

static char *say(struct request *r, void *state)
{
    (void)r;
    return ++*(int *)state <= more ? strdup("data: x\n\n") : NULL;
}

static void drop(void *state)
{
    dropped++;
    free(state);
}

static void streams(struct request *r)
{
    request_stream(r, say, calloc(1, sizeof(int)), drop, 7, 3600000);
}

static void gathers(struct request *r)
{
    gathered++;
    request_answer(r, 200, json_object());
}

static bool admit(struct request *r)
{
    if (!admits)
        request_fail(r, &(struct err){ .code = ERR_CONFLICT, .text = "not you" }, NULL);
    return admits && request_of_owner(r);
}

static bool settle(struct daemon *of)
{
    assert_ptr_equal(of, &d);
    settled++;
    return false;
}

static const struct route routes[] = {
    { "GET", "/v1/jobs/JOB", echo, NULL },      { "POST", "/v1/jobs/JOB", echo, "name:s! n:i" },
    { "GET", "/v1/fails/JOB/x", fails, NULL },  { "GET", "/v1/waits/JOB", waits, NULL },
    { "GET", "/v1/none", lacks_memory, NULL },
    { "GET", "/v1/events", streams, NULL },     { "POST", "/v1/batch", gathers, NULL },
    { NULL, NULL, NULL, NULL },
};
static const struct service service = { .routes = routes, .admit = admit, .body_max = SMALL, .connections = 8,
                                        .gathers = gathers, .settle = settle };

static int up(void **state)
{
    (void)state;
    memset(&d, 0, sizeof(d));
    settled = gathered = more = dropped = 0;
    admits = true;
    uv_loop_init(&d.loop);
    scratch_dir_create(dir, sizeof(dir), "server");
    snprintf(path, sizeof(path), "%s/socket", dir);
    snprintf(d.home.path, sizeof(d.home.path), "%s", dir);
    assert_int_equal(dir_identity_open(&d.home.id, dir, NULL), 0);
    assert_int_equal(server_open(&d.server, &d, NULL), 0);
    return server_listen(d.server, &service, unix_socket_listen(path, NULL), NULL);
}

static int down(void **state)
{
    (void)state;
    server_close(d.server);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    dir_identity_close(&d.home.id);
    return uv_loop_close(&d.loop) == 0 ? scratch_dir_remove(dir) : -1;
}

/* ---- tests ---- */

static void routes_and_queries(void **state)
{
    (void)state;
    expect("GET /v1/jobs/12?n=5", "", 201, "{\"job\":\"12\",\"n\":5,\"body\":{},\"host\":\"x\",\"schema\":2}");
    expect("GET /v1/jobs/a-b", "", 201, "\"n\":7");
    expect("GET /v1/jobs/12", "", 201, "X-Test: second\r\n");
    char *text = answer_of(client("GET /v1/jobs/12", ""), 1000);
    assert_null(strstr(text, "X-Other"));
    assert_null(strstr(text, "first"));
    free(text);
    expect("GET /v1/jobs/12?n=5x", "", 400, "n=5x is not a whole number");
    expect("GET /v1/jobs/12?n=99999999999999999999", "", 400, "is not a whole number");
    expect("GET /v1/jobs/", "", 404, "unknown path /v1/jobs/; docs/API.md lists the paths");
    expect("GET /v1/jobs/12/y", "", 404, "\"code\":\"not_found\"");
    expect("GET /v1/fails/12/xx", "", 404, "unknown path");
    expect("GET /v2/events", "", 404, "unknown path");
    expect("DELETE /v1/jobs/12", "", 400, "DELETE is not allowed for /v1/jobs/12; use GET POST");
    admits = false;
    expect("GET /v1/jobs/12", "", 409, "not you");
}

static void bodies(void **state)
{
    (void)state;
    char *big = malloc(SMALL + 2);
    expect("POST /v1/jobs/1", "{\"name\":\"x\"}", 201, "\"body\":{\"name\":\"x\"}");
    expect("POST /v1/jobs/1", "", 400, "the body lacks 'name'");
    expect("POST /v1/jobs/1", "[]", 400, "the body is not a JSON object\"");
    expect("POST /v1/jobs/1", "{\"name\":", 400, "the body is not a JSON object: ");
    expect("POST /v1/jobs/1", "{\"name\":\"x\",\"name\":\"y\"}", 400, "duplicate");
    memset(big, ' ', SMALL + 1);
    memcpy(big, "{\"name\":\"x\"}", 12);
    big[SMALL] = '\0';
    expect("POST /v1/jobs/1", big, 201, "\"name\""); /* at the bound */
    big[SMALL] = ' ';
    big[SMALL + 1] = '\0';
    expect("POST /v1/jobs/1", big, 413, "{\"error\":{\"code\":\"too_large\",\"text\":\"the body is larger than 2 KiB\"},\"schema\":2}");
    free(big);
    /* While the home is elsewhere, nothing is changed, but read. */
    snprintf(d.home.path, sizeof(d.home.path), "%s/elsewhere", dir);
    expect("POST /v1/jobs/1", "{\"name\":\"x\"}", 503, "was moved or removed");
    expect("GET /v1/jobs/1", "", 201, "\"job\"");
}

static void errors_have_a_status(void **state)
{
    (void)state;
    static const struct { enum err_code code; int status; const char *word; } table[] = {
        { ERR_USAGE, 400, "usage" }, { ERR_CONFLICT, 409, "conflict" }, { ERR_NOT_FOUND, 404, "not_found" },
        { ERR_SYSTEM, 503, "system" }, { ERR_DATA, 400, "usage" }, { ERR_MEMORY, 503, "system" },
        { ERR_BUG, 500, "bug" }, { ERR_CUDA, 500, "bug" },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char head[60], words[100];
        snprintf(head, sizeof(head), "GET /v1/fails/%d/x", (int)table[i].code);
        snprintf(words, sizeof(words), "{\"error\":{\"code\":\"%s\",\"text\":\"it failed\",\"more\":5},\"schema\":2}",
                 table[i].word);
        expect(head, "", table[i].status, words);
    }
    expect("GET /v1/none", "", 503, "{\"schema\":2,\"error\":{\"code\":\"system\",\"text\":\"out of memory\"}}");
}

/* Called again with each change of its job, and when the daemon stops. */
static void an_answer_may_wait(void **state)
{
    (void)state;
    const int fd = client("GET /v1/waits/7", ""), other = client("GET /v1/waits/8", "");
    free(answer_of(fd, 50));
    server_wake(d.server, 9);
    server_wake(d.server, 7);
    free(answer_of(fd, 50));
    server_wake(d.server, 7);
    expect_of(fd, 200, "{\"calls\":3,\"over\":false,\"schema\":2}");
    server_close(d.server);
    d.server = NULL;
    expect_of(other, 200, "\"calls\":1");
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p++)
        n++;
    return n;
}

/* Events follow each other, then each change; with the client goes the state. */
static void events_are_streamed(void **state)
{
    (void)state;
    more = 1;
    const int fd = client("GET /v1/events", "");
    char *text = answer_of(fd, 500);
    assert_non_null(strstr(text, "Content-Type: text/event-stream; charset=utf-8\r\n"));
    assert_int_equal(count(text, "data: x"), 1);
    free(text);
    more = 9;
    server_wake(d.server, 8);
    text = answer_of(fd, 200);
    assert_int_equal(count(text, "data: x"), 0);
    free(text);
    server_wake(d.server, 7);
    text = answer_of(fd, 500);
    assert_int_equal(count(text, "data: x"), 1);
    free(text);
    server_wake(d.server, 7);
    server_wake(d.server, 7); /* within a moment: one event */
    text = answer_of(fd, 500);
    assert_int_equal(count(text, "data: x"), 1);
    free(text);
    assert_int_equal(dropped, 0);
    server_close(d.server);
    d.server = NULL;
    text = answer_of(fd, 60000);
    assert_int_equal(dropped, 1);
    free(text);
    close(fd);
}

/* Requests of one batch are settled together; another kind of request settles it first. */
static void batches_are_settled(void **state)
{
    (void)state;
    expect("POST /v1/batch", "", 200, "schema");
    assert_int_equal(gathered, 1);
    const int before = settled;
    assert_true(before > 0);
    expect("GET /v1/jobs/1", "", 201, "job");
    assert_true(settled > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(routes_and_queries, up, down), cmocka_unit_test_setup_teardown(bodies, up, down),
        cmocka_unit_test_setup_teardown(errors_have_a_status, up, down),
        cmocka_unit_test_setup_teardown(an_answer_may_wait, up, down),
        cmocka_unit_test_setup_teardown(events_are_streamed, up, down),
        cmocka_unit_test_setup_teardown(batches_are_settled, up, down),
    };
    return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
