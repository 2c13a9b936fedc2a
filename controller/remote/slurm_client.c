/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_client.c - see slurm_client.h */
#include "controller/remote/slurm_client.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "controller/base/program.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/contract/install.h"
#include "engine/base/json_make.h"

struct ask {
    struct ask     *next;
    int64_t         id;
    bool            jobs;
    slurm_answer_fn answer;
    void           *arg;
};

static struct {
    uv_loop_t     *loop;
    int            users;
    int64_t        last_id;
    struct ask    *asks;        /* in the order of their requests */
    struct subprocess *helper;  /* NULL: not running */
} client;

static const char *program(char path[PATH_MAX])
{
    install_find(path, PATH_MAX, "jobctl-slurm");
    return path;
}

bool slurm_client_there(void)
{
    char path[PATH_MAX];
    return access(program(path), X_OK) == 0;
}

bool slurm_client_configured(struct err *err)
{
    struct buf out = {0};
    json_t *request = json_make("{s:s}", "op", "config"), *answer = NULL;
    if (program_tell("jobctl-slurm", request, &out, err) >= 0 && out.size > 0)
        answer = json_loadb(out.data, out.size, JSON_DISABLE_EOF_CHECK, NULL);
    const bool without = json_is_true(json_object_get(answer, "unconfigured"));
    if (without)
        err_set(err, ERR_USAGE, "%.400s", field_text(answer, "error"));
    buf_fini(&out);
    json_decref(request);
    json_decref(answer);
    return !without;
}

/* ---- answers ---- */

/* Calls back all requests waiting for `id`; -1: all. A callback may ask again or forget others. */
static void give(int64_t id, const json_t *answer)
{
    int64_t newest = client.last_id;
    for (struct ask **p = &client.asks; *p;) {
        struct ask *a = *p;
        if (a->id > newest || (id >= 0 && a->id != id)) {
            p = &a->next;
            continue;
        }
        *p = a->next;
        slurm_answer_fn call = a->answer;
        void *arg = a->arg;
        free(a);
        call(arg, answer);
        p = &client.asks;
    }
}

static void give_away(const char *why)
{
    json_t *answer = json_make("{s:b, s:b, s:s}", "ok", 0, "away", 1, "error", why);
    give(-1, answer);
    json_decref(answer);
}

static void take_line(void *arg, const char *text, size_t size)
{
    (void)arg;
    json_t *answer = json_loadb(text, size, 0, NULL);
    if (json_is_true(json_object_get(answer, "unconfigured")))
        give(-1, answer);
    else if (json_is_object(answer))
        give(json_integer_value(json_object_get(answer, "id")), answer);
    else
        log_error(NULL, "jobctl-slurm sent an invalid answer: %.80s", text);
    json_decref(answer);
}

/* ---- the process ---- */

static void helper_ended(void *arg, const struct subprocess_end *e)
{
    char why[80];
    const int signo = e->code - SUBPROCESS_SIGNALLED;
    (void)arg;
    client.helper = NULL;
    snprintf(why, sizeof(why), "jobctl-slurm ended (%s %d); see daemon.log",
             signo > 0 ? "signal" : "exit", signo > 0 ? signo : e->code);
    give_away(why);
}

static int helper_start(struct err *err)
{
    char path[PATH_MAX];
    const struct subprocess_spec s = {.argv = (const char *const[]){program(path), NULL},
                                      .in = SUBPROCESS_PIPE,
                                      .out = SUBPROCESS_PIPE,
                                      .err = 2};
    const struct subprocess_hooks hooks = {take_line, helper_ended, NULL};
    return subprocess_open(&client.helper, client.loop, &s, 0, &hooks, err);
}

/* ---- requests ---- */

static void send_line(const json_t *request)
{
    char *text = json_dumps(request, JSON_COMPACT);
    size_t size = text ? strlen(text) : 0;
    if (text)
        text[size++] = '\n'; /* replaces the NUL */
    subprocess_tell(client.helper, text, size);
    free(text);
}

static bool is_for_jobs(const json_t *request)
{
    const char *op = json_string_value(json_object_get(request, "op"));
    return op && strcmp(op, "jobs") == 0;
}

void slurm_client_ask(json_t *request, slurm_answer_fn answer, void *arg)
{
    struct ask *a = calloc(1, sizeof(*a)), **last = &client.asks;
    struct ask *same = NULL;
    bool jobs = is_for_jobs(request);
    for (; *last; last = &(*last)->next)
        if ((*last)->jobs && jobs)
            same = *last;
    struct err err = { 0 };
    int rc = !a || !request ? err_set(&err, ERR_MEMORY, "out of memory")
             : client.helper ? 0 : helper_start(&err);
    if (rc != 0) {
        char why[400];
        snprintf(why, sizeof(why), "cannot start jobctl-slurm: %.300s", err.text);
        json_t *refusal = json_make("{s:b, s:b, s:s}", "ok", 0, "away", 1, "error", why);
        free(a);
        answer(arg, refusal);
        json_decref(refusal);
        json_decref(request);
        return;
    }
    *a = (struct ask){ .id = same ? same->id : ++client.last_id, .jobs = jobs, .answer = answer,
                       .arg = arg };
    *last = a;
    if (!same && json_object_set_new(request, "id", json_integer(a->id)) == 0)
        send_line(request);
    json_decref(request);
}

void slurm_client_forget(const void *arg)
{
    for (struct ask **p = &client.asks; *p;) {
        struct ask *a = *p;
        if (a->arg != arg) {
            p = &a->next;
            continue;
        }
        *p = a->next;
        free(a);
    }
}

void slurm_client_use(uv_loop_t *loop)
{
    client.loop = loop;
    client.users++;
}

/* It still serves the last request (a cancel): it exits at the end of its input. */
void slurm_client_leave(void)
{
    if (--client.users > 0 || !client.helper)
        return;
    subprocess_close(&client.helper, 0);
}
