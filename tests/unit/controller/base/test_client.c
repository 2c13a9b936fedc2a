/* SPDX-License-Identifier: Apache-2.0 */
/* test_client.c - the client against a scripted daemon: every kind of answer, and no answer */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/unix_socket.h"
#include "controller/base/client.h"
#include "controller/base/diagnostics.h"
#include "controller/base/home.h"
#include "controller/cli/job_select.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

/* The answers, "STATUS\nBODY", one per connection; NULL hangs up. Requests are recorded. */
struct script {
    int         listener;
    const char *answers[8];
    int         count;
    char        asked[8][512];
    int         served;
};

static char home[256], deep[512];

/* A request ends with an empty line, or with its body if Content-Length announces one. */
static void read_request(int fd, char *out, size_t size)
{
    size_t at = 0;
    while (at < size - 1) {
        ssize_t n = read(fd, out + at, size - 1 - at);
        if (n <= 0)
            break;
        at += (size_t)n;
        out[at] = '\0';
        const char *end = strstr(out, "\r\n\r\n"), *length = strcasestr(out, "content-length:");
        if (end && strlen(end + 4) >= (length ? (size_t)atoi(length + 15) : 0))
            break;
    }
    out[at] = '\0';
}

static void send_answer(int fd, const char *answer)
{
    if (!answer)
        return;
    const char *body = strchr(answer, '\n') + 1;
    dprintf(fd, "HTTP/1.1 %.*s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
            "Connection: close\r\n\r\n%s", (int)(body - 1 - answer), answer, strlen(body), body);
}

/* A connection without a request is the client's test for a daemon. */
static void *serve(void *user)
{
    struct script *s = user;
    while (s->served < s->count) {
        int fd = accept(s->listener, NULL, NULL);
        if (fd < 0)
            break;
        char *asked = s->asked[s->served];
        read_request(fd, asked, sizeof(s->asked[0]));
        if (asked[0]) {
            send_answer(fd, s->answers[s->served++]);
        }
        close(fd);
    }
    return NULL;
}

static void start(struct script *s, pthread_t *thread)
{
    char path[1024];
    struct err err = {0};
    assert_int_equal(home_path(path, sizeof(path), HOME_SOCKET, &err), 0);
    s->listener = unix_socket_listen(path, &err);
    if (s->listener < 0)
        fail_msg("%s", err.text);
    /* The thread may wait, but not for ever. */
    fcntl(s->listener, F_SETFL, 0);
    struct timeval tv = {.tv_sec = 5};
    setsockopt(s->listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    assert_int_equal(pthread_create(thread, NULL, serve, s), 0);
}

static void stop(struct script *s, pthread_t thread)
{
    char path[1024];
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(s->listener);
    home_path(path, sizeof(path), HOME_SOCKET, NULL);
    unlink(path);
}

static const struct {
    const char   *answer;
    enum err_code code;     /* ERR_NONE: accepted */
    const char   *text;     /* part of the error text */
    int           line;
} rows[] = {
    {"200 OK\n" "{\"schema\":2,\"jobs\":[]}", ERR_NONE, NULL, 0},
    {"404 Not Found\n" "{\"schema\":2,\"error\":{\"code\":\"not_found\",\"text\":\"job 9 does not exist\"},\"x\":[1]}",
     ERR_NOT_FOUND, "job 9 does not exist", 0},
    {"409 Conflict\n" "{\"schema\":2,\"error\":{\"code\":\"conflict\",\"text\":\"it is done\"}}",
     ERR_CONFLICT, "it is done", 0},
    {"400 Bad Request\n" "{\"schema\":2,\"error\":{\"code\":\"usage\",\"text\":\"no\"},"
     "\"errors\":[{\"text\":\"no\",\"line\":14,\"column\":3}], \"a\":1}",
     ERR_USAGE, "no", 14},
    {"500 Oops\n" "{\"schema\":2,\"error\":{\"code\":\"bug\",\"text\":\"we broke it\"}}",
     ERR_BUG, "we broke it", 0},
    {"503 Busy\n" "{\"schema\":2,\"error\":{\"text\":\"the disk is full\"}}", ERR_SYSTEM,
     "the disk is full", 0},
    {"200 OK\n" "{\"schema\":3}", ERR_SYSTEM, "check that the versions match", 0},
    {"200 OK\n" "hello", ERR_SYSTEM, "check that the versions match", 0},
    {"200 OK\n" "", ERR_SYSTEM, "check that the versions match", 0},
};

static void test_answers(void **state)
{
    (void)state;
    pthread_t thread;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script one = {.count = 1, .answers = {rows[i].answer}};
        struct client *c;
        struct err err = {0};
        json_t *answer;
        start(&one, &thread);
        assert_int_equal(client_open(&c, false, &err), 0);
        int rc = client_get(c, &answer, &err, "/v1/jobs/%d", 9);
        if (err.code != rows[i].code)
            fail_msg("row %zu: %d %s", i, err.code, err.text);
        assert_int_equal(rc, rows[i].code == ERR_NONE ? 0 : -1);
        assert_true((answer != NULL) == (rc == 0));
        if (rows[i].text)
            assert_non_null(strstr(err.text, rows[i].text));
        assert_int_equal(client_diagnostics(c)->list[0].line, rows[i].line);
        json_decref(answer);
        client_close(c);
        stop(&one, thread);
        assert_non_null(strstr(one.asked[0], "GET /v1/jobs/9 HTTP/1.1"));
    }
}

static void test_post_sends_its_body(void **state)
{
    (void)state;
    struct script s = {.count = 1, .answers = {"201 Created\n" "{\"schema\":2}"}};
    pthread_t thread;
    struct client *c;
    struct err err = {0};
    json_t *answer, *body = json_pack("{s:s}", "reason", "caf\xC3\xA9");
    start(&s, &thread);
    assert_int_equal(client_open(&c, false, &err), 0);
    assert_int_equal(client_post(c, &answer, "/v1/jobs/7/cancel", body, &err), 0);
    json_decref(answer);
    json_decref(body);
    client_close(c);
    stop(&s, thread);
    assert_non_null(strstr(s.asked[0], "POST /v1/jobs/7/cancel HTTP/1.1"));
    assert_non_null(strstr(s.asked[0], "{\"reason\":\"caf\xC3\xA9\"}"));
}

static void test_other_version(void **state)
{
    (void)state;
    static const struct { const char *answer, *text; } others[] = {
        {"200 OK\n{\"schema\":2,\"version\":\"9.9\",\"pid\":77}", "version 9.9"},
        {"200 OK\n{\"schema\":1,\"version\":\"9.9\",\"pid\":77}", "version 9.9"},
        {"200 OK\n{\"schema\":1,\"version\":\"" JOBCTL_VERSION "\",\"pid\":77}", "uses schema 1"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct script s = {.count = 1, .answers = {others[i].answer}};
        pthread_t thread;
        struct client *c;
        struct err err = {0};
        start(&s, &thread);
        assert_int_equal(client_open(&c, true, &err), -1);
        assert_null(c);
        if (!strstr(err.text, others[i].text) || !strstr(err.text, "run `jobctl daemon restart`"))
            fail_msg("%zu: %s", i, err.text);
        stop(&s, thread);
    }
}

/* After a hang-up a POST is not repeated. */
static void test_hang_up(void **state)
{
    (void)state;
    struct script s = {.count = 1};
    pthread_t thread;
    struct client *c;
    struct err err = {0};
    json_t *answer, *body = json_object();
    start(&s, &thread);
    assert_int_equal(client_open(&c, false, &err), 0);
    assert_int_equal(client_post(c, &answer, "/v1/jobs", body, &err), -1);
    assert_true(err.code == ERR_SYSTEM && strstr(err.text, "did not answer"));
    assert_null(answer);
    json_decref(body);
    client_close(c);
    stop(&s, thread);
}

static void test_nobody_there(void **state)
{
    (void)state;
    struct client *c;
    struct err err = {0};
    assert_int_equal(client_open(&c, false, &err), -1);
    assert_true(err.code == ERR_NOT_FOUND && c == NULL);
}

static const struct {
    const char *args[3];
    const char *ids;    /* of the rows; NULL: rejected with `text` */
    const char *text;
} selections[] = {
    {{"5"}, "5", NULL},
    {{"3-6"}, "5 6", NULL},
    {{"6,5"}, "6 5", NULL},
    {{"5,5-6"}, "5 6", NULL},
    {{"7"}, NULL, "job 7 (sana) was removed"},
    {{"5,7"}, NULL, "job 7 (sana) was removed"},
    {{"8-9"}, NULL, "no job has an id from 8 to 9"},
    {{"6-5"}, NULL, "is reversed"},
    {{"1-"}, NULL, "is not a list of ids"},
    {{""}, NULL, "no job is named ''"},
    {{"a/b"}, NULL, "no job is named 'a/b'"},
};

static void test_selection(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(selections) / sizeof(selections[0]); i++) {
        /* The client asks the daemon why a job is missing. */
        const bool missing = selections[i].text && strstr(selections[i].text, "removed");
        struct script s = {.count = missing ? 2 : selections[i].args[0][0] ? 1 : 0, .answers = {
            "200 OK\n" "{\"schema\":2,\"jobs\":[{\"id\":6},{\"id\":5}]}    ",
            "404 Not Found\n" "{\"schema\":2,\"error\":{\"code\":\"not_found\",\"text\":"
            "\"job 7 (sana) was removed on 2026-11-22\"}}"}};
        pthread_t thread;
        struct client *c;
        struct err err = {0};
        json_t *jobs, *row;
        char ids[64] = "", *args[] = {(char *)(uintptr_t)selections[i].args[0]};
        size_t j;
        start(&s, &thread);
        assert_int_equal(client_open(&c, false, &err), 0);
        int rc = job_select(c, &jobs, 1, args, &err);
        json_array_foreach (jobs, j, row)
            snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "%s%lld", j ? " " : "",
                     (long long)json_integer_value(json_object_get(row, "id")));
        if (selections[i].ids && rc == 0)
            assert_string_equal(ids, selections[i].ids);
        else if (selections[i].ids || !strstr(err.text, selections[i].text))
            fail_msg("%s: %s", selections[i].args[0], err.text);
        json_decref(jobs);
        client_close(c);
        stop(&s, thread);
    }
}

static int make_home(void **state)
{
    (void)state;
    /* Longer than the address of a unix socket may be. */
    scratch_dir_create(home, sizeof(home), "client");
    snprintf(deep, sizeof(deep), "%s/%0100d", home, 0);
    if (mkdir(deep, 0700) < 0)
        return -1;
    setenv("JOBCTL_HOME", deep, 1);
    return 0;
}

static int remove_home(void **state)
{
    (void)state;
    return rmdir(deep) | rmdir(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_post_sends_its_body),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_hang_up),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_selection),
    };
    return cmocka_run_group_tests_name("client", tests, make_home, remove_home);
}
