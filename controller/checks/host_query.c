/* SPDX-License-Identifier: Apache-2.0 */
/* host_query.c - see host_query.h */
#include "controller/checks/host_query.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/event_loop.h"
#include "agent/os/subprocess.h"
#include "controller/base/program.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/install.h"
#include "engine/base/json_make.h"

struct conversation {
    struct subprocess *process;  /* NULL: ended */
    bool        waits;           /* an answer is due: */
    json_t     *node;            /* it becomes this node's KEY */
    const char *key;
    double      asked_ms, answered_ms;
    char        error[400];      /* why the connection ended; "" = it has not */
};

struct host_query {
    uv_loop_t   loop;
    uv_timer_t  limit;
    bool        late;
    struct conversation *list;
    size_t      n;
    void      (*old_pipe)(int);
};

static double unix_ms(void)
{
    return 1e-6 * (double)clock_unix_ns();
}

/* --- one process per host ---------------------------------------------------------------------- */

/* A line is an answer; one question, one line. */
static void on_line(void *arg, const char *text, size_t size)
{
    struct conversation *v = arg;
    if (!v->waits)
        return;
    json_t *answer = json_loadb(text, size, 0, NULL);
    v->waits = false;
    v->answered_ms = unix_ms();
    json_object_set_new(v->node, v->key, answer ? answer : json_make("{s:s}", "error", "its answer is not JSON"));
}

static void on_end(void *arg, const struct subprocess_end *e)
{
    struct conversation *v = arg;
    v->process = NULL;
    v->waits = false;
    subprocess_last_line(v->error, sizeof(v->error), e->said, "jobctl-ssh");
    if (!v->error[0])
        snprintf(v->error, sizeof(v->error), "the connection ended");
}

static int spawn(uv_loop_t *loop, struct conversation *v, const char *host, struct err *err)
{
    char path[PROGRAM_PATH];
    install_find(path, sizeof(path), "jobctl-ssh");
    const struct subprocess_spec s = {
        .argv = (const char *const[]){path, "doctor-query", host, NULL},
        .in = SUBPROCESS_PIPE,
        .out = SUBPROCESS_PIPE,
        .err = SUBPROCESS_PIPE};
    const struct subprocess_hooks hooks = {on_line, on_end, v};
    return subprocess_open(&v->process, loop, &s, 0, &hooks, err);
}

int host_query_open(struct host_query **out, const json_t *hosts, struct err *err)
{
    struct host_query *v = calloc(1, sizeof(*v));
    size_t i, n = json_array_size(hosts);
    const json_t *host;
    int rc = 0;
    *out = NULL;
    if (!v || !(v->list = calloc(n + 1, sizeof(*v->list))) || event_loop_open(&v->loop, err) < 0) {
        if (v)
            free(v->list);
        free(v);
        return err_set(err, ERR_MEMORY, "out of memory for %zu hosts", n);
    }
    *out = v;
    v->n = n;
    uv_timer_init(&v->loop, &v->limit);
    v->limit.data = v;
    v->old_pipe = signal(SIGPIPE, SIG_IGN); /* a dead process shows when its answer is read */
    json_array_foreach (hosts, i, host)
        rc = rc == 0 ? spawn(&v->loop, &v->list[i], json_string_value(host), err) : rc;
    return rc;
}

/* A process exits at the end of its input. One whose host did not answer is sent a signal. */
void host_query_close(struct host_query *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->n; i++) {
        struct conversation *one = &v->list[i];
        if (one->process && one->error[0])
            subprocess_kill(one->process, SIGTERM);
        if (one->process)
            subprocess_end_input(one->process);
    }
    uv_close((uv_handle_t *)&v->limit, NULL);
    uv_run(&v->loop, UV_RUN_DEFAULT);
    uv_loop_close(&v->loop);
    if (v->old_pipe && v->old_pipe != SIG_ERR)
        signal(SIGPIPE, v->old_pipe);
    free(v->list);
    free(v);
}

/* --- questions and answers ------------------------------------------------------------------- */

static void put(struct conversation *v, const json_t *question)
{
    char *text = json_dumps(question, JSON_COMPACT);
    size_t size = text ? strlen(text) : 0;
    if (text)
        text[size++] = '\n'; /* replaces the NUL */
    v->asked_ms = unix_ms();
    v->waits = true;
    subprocess_tell(v->process, text, size);
    free(text);
}

static bool is_waiting(const struct host_query *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->list[i].waits)
            return true;
    return false;
}

static void on_limit(uv_timer_t *timer)
{
    struct host_query *v = timer->data;
    v->late = true;
}

void host_query_ask(struct host_query *v, json_t *const *questions, json_t *nodes, const char *key, int limit_ms)
{
    v->late = false;
    uv_update_time(&v->loop);
    /* Repeated: libuv runs timers that are due before it polls, and with none left UV_RUN_ONCE polls for ever. */
    uv_timer_start(&v->limit, on_limit, (uint64_t)limit_ms, (uint64_t)limit_ms);
    for (size_t i = 0; i < v->n; i++) {
        v->list[i].node = json_array_get(nodes, i);
        v->list[i].key = key;
        if (questions[i] && !v->list[i].error[0])
            put(&v->list[i], questions[i]);
    }
    while (!v->late && is_waiting(v))
        uv_run(&v->loop, UV_RUN_ONCE);
    uv_timer_stop(&v->limit);
    for (size_t i = 0; i < v->n; i++) {
        struct conversation *one = &v->list[i];
        if (one->waits)
            snprintf(one->error, sizeof(one->error), "no answer within %d s", limit_ms / 1000);
        one->waits = false;
        if (one->error[0])
            json_object_set_new(one->node, "error", json_text(one->error));
    }
}

void host_query_ask_same(struct host_query *v, int only, json_t *question, json_t *nodes, const char *key, int limit_ms)
{
    json_t **questions = calloc(v->n + 1, sizeof(json_t *));
    for (size_t i = 0; questions && i < v->n; i++)
        questions[i] = only == HOST_QUERY_ALL || (size_t)only == i ? question : NULL;
    if (questions)
        host_query_ask(v, questions, nodes, key, limit_ms);
    free(questions);
    json_decref(question);
}

double host_query_middle(const struct host_query *v, size_t host, double *apart_ms)
{
    const struct conversation *one = &v->list[host];
    *apart_ms = one->answered_ms - one->asked_ms;
    return one->asked_ms + *apart_ms / 2;
}
