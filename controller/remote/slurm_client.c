/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_client.c - see slurm_client.h */
#include "controller/remote/slurm_client.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/buf.h"
#include "agent/os/log.h"
#include "agent/wire/byte_stream.h"
#include "controller/base/autostart.h"

struct ask {
    struct ask     *next;
    int64_t         id;
    bool            jobs;
    slurm_answer_fn answer;
    void           *arg;
};

/* The process and its two pipes; it frees itself when all three are closed. */
struct helper {
    uv_process_t process;
    uv_pipe_t    in, out;
    int          handles;
    struct buf   line;
    char         bytes[65536];
};

static struct {
    uv_loop_t     *loop;
    int            users;
    int64_t        last_id;
    struct ask    *asks;        /* in the order of their requests */
    struct helper *helper;      /* NULL: not running */
} client;

static const char *program(char path[PATH_MAX])
{
    autostart_sibling(path, PATH_MAX, "jobctl-slurm");
    return path;
}

bool slurm_client_there(void)
{
    char path[PATH_MAX];
    return access(program(path), X_OK) == 0;
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
    json_t *answer = json_pack("{s:b, s:b, s:s}", "ok", 0, "away", 1, "error", why);
    give(-1, answer);
    json_decref(answer);
}

static void take_line(const char *text, size_t size)
{
    json_t *answer = json_loadb(text, size, 0, NULL);
    if (json_is_object(answer))
        give(json_integer_value(json_object_get(answer, "id")), answer);
    else
        log_error(NULL, "jobctl-slurm sent an invalid answer: %.80s", text);
    json_decref(answer);
}

/* ---- the process ---- */

static void handle_closed(uv_handle_t *handle)
{
    struct helper *h = handle->data;
    if (--h->handles > 0)
        return;
    buf_fini(&h->line);
    free(h);
}

static void close_one(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, handle_closed);
}

static void helper_close(struct helper *h)
{
    if (client.helper == h)
        client.helper = NULL;
    close_one((uv_handle_t *)&h->in);
    close_one((uv_handle_t *)&h->out);
}

static void helper_exited(uv_process_t *process, int64_t status, int signo)
{
    struct helper *h = process->data;
    bool ours = client.helper == h;
    char why[80];
    helper_close(h);
    close_one((uv_handle_t *)process);
    snprintf(why, sizeof(why), "jobctl-slurm ended (%s %d); see daemon.log",
             signo ? "signal" : "exit", signo ? signo : (int)status);
    if (ours)
        give_away(why);
}

static void room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    struct helper *h = handle->data;
    (void)wanted;
    *buf = uv_buf_init(h->bytes, sizeof(h->bytes));
}

static void heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct helper *h = stream->data;
    if (n <= 0 || buf_append(&h->line, buf->base, (size_t)n) < 0)
        return;                 /* helper_exited() handles its end */
    size_t at = 0;
    for (char *end; (end = memchr(h->line.data + at, '\n', h->line.size - at));) {
        size_t size = (size_t)(end - h->line.data) - at;
        take_line(h->line.data + at, size);
        at += size + 1;
    }
    buf_consume(&h->line, at);
}

static int helper_start(void)
{
    char path[PATH_MAX];
    struct helper *h = calloc(1, sizeof(*h));
    if (!h)
        return UV_ENOMEM;
    buf_init(&h->line);
    uv_pipe_init(client.loop, &h->in, 0);
    uv_pipe_init(client.loop, &h->out, 0);
    h->in.data = h->out.data = h->process.data = h;
    h->handles = 3;
    char *args[] = { (char *)(uintptr_t)program(path), NULL };
    uv_stdio_container_t io[3] = {
        { .flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&h->in },
        { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&h->out },
        { .flags = UV_INHERIT_FD, .data.fd = 2 },
    };
    uv_process_options_t options = { .exit_cb = helper_exited, .file = path, .args = args,
                                     .stdio = io, .stdio_count = 3 };
    int rc = uv_spawn(client.loop, &h->process, &options);
    if (rc != 0) {
        helper_close(h);
        close_one((uv_handle_t *)&h->process);
        return rc;
    }
    client.helper = h;
    uv_read_start((uv_stream_t *)&h->out, room, heard);
    return 0;
}

/* ---- requests ---- */

static void send_line(const json_t *request)
{
    char *text = json_dumps(request, JSON_COMPACT);
    size_t size = text ? strlen(text) : 0;
    if (!text)
        return;
    text[size] = '\n';          /* replaces the NUL */
    byte_stream_put((uv_stream_t *)&client.helper->in, text, size + 1, NULL, NULL);
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
    int rc = !a || !request ? UV_ENOMEM : client.helper ? 0 : helper_start();
    if (rc != 0) {
        char why[160];
        snprintf(why, sizeof(why), "cannot start jobctl-slurm: %s", uv_strerror(rc));
        json_t *refusal = json_pack("{s:b, s:b, s:s}", "ok", 0, "away", 1, "error", why);
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
    uv_unref((uv_handle_t *)&client.helper->process);
    helper_close(client.helper);
}
