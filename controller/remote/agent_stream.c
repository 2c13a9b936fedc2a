/* SPDX-License-Identifier: Apache-2.0 */
/* agent_stream.c - see agent_stream.h; it frees itself once its handle is closed */
#include "controller/remote/agent_stream.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/os/identity.h"
#include "agent/os/log.h"
#include "agent/wire/frame.h"
#include "engine/contract/err.h"

struct agent_stream {
    uv_pipe_t                 pipe;
    struct agent_stream_hooks hooks;
    struct frame_reader      *reader;
    bool                      over;     /* call no hook any more */
    bool                      greeted;
    unsigned                  version;  /* of its HELLO: it is answered in that */
    int64_t                   job, attempt;
    char                      nonce[NONCE_CHARS + 1];
    char                      tag[48];
    char                      bytes[65536];
};

static void stream_freed(uv_handle_t *handle)
{
    struct agent_stream *s = handle->data;
    frame_reader_destroy(s->reader);
    free(s);
}

static void stream_free(struct agent_stream *s)
{
    s->over = true;
    if (!uv_is_closing((uv_handle_t *)&s->pipe))
        uv_close((uv_handle_t *)&s->pipe, stream_freed);
}

static void stream_ended(struct agent_stream *s)
{
    if (s->over)
        return;
    stream_free(s);
    s->hooks.ended(s->hooks.arg);
}

struct parcel {
    uv_write_t write;
    void      *bytes;
};

static void parcel_sent(uv_write_t *write, int status)
{
    struct parcel *p = write->data;
    (void)status;               /* the reader detects a broken stream */
    free(p->bytes);
    free(p);
}

void agent_stream_expect_hand(struct agent_stream *s)
{
    s->greeted = true;
}

void agent_stream_send(struct agent_stream *s, enum wire_message number, const json_t *body)
{
    struct err err = { 0 };
    size_t size = 0;
    struct parcel *p = calloc(1, sizeof(*p));
    if (!p || !(p->bytes = frame_make_of_version(s->version, number, body, &size, &err))) {
        log_error(s->tag, "message %d not sent: %s", (int)number, p ? err.text : "out of memory");
        free(p);
        return;
    }
    p->write.data = p;
    uv_buf_t buf = uv_buf_init(p->bytes, (unsigned)size);
    if (uv_write(&p->write, (uv_stream_t *)&s->pipe, &buf, 1, parcel_sent) != 0) {
        free(p->bytes);
        free(p);
    }
}

static bool is_ours(const struct agent_stream *s, const json_t *body)
{
    const struct wire_id ours = { s->job, s->attempt, s->nonce };
    const struct wire_id said = wire_id_of(body);
    return wire_id_same(&ours, &said);
}

/* The fence: an agent of another attempt must stop. */
static void send_away(struct agent_stream *s, const json_t *body)
{
    json_t *stop = json_pack("{s:O, s:O, s:O, s:s, s:i, s:b}", "job",
                             json_object_get(body, "job"), "attempt",
                             json_object_get(body, "attempt"), "nonce",
                             json_object_get(body, "nonce"), "reason",
                             "replaced by another attempt", "grace_ms", 0, "checkpoint", 0);
    log_warn(s->tag, "rejected the agent of another attempt; sent it a stop");
    if (stop)
        agent_stream_send(s, WIRE_STOP, stop);
    json_decref(stop);
}

/* False: the stream must be closed. */
static bool message_taken(struct agent_stream *s, const struct wire_row *row, const json_t *body)
{
    struct err err = { 0 };
    if (wire_check(row, body, &err) < 0) {
        log_error(s->tag, "%s", err.text);
        return false;
    }
    if (!is_ours(s, body)) {
        send_away(s, body);
        return false;
    }
    if (!s->greeted && row->number != WIRE_HELLO) {
        log_error(s->tag, "protocol error: the first message of the agent is not HELLO");
        return false;
    }
    s->greeted = true;
    if (row->number == WIRE_HELLO)
        s->version = frame_reader_version(s->reader);
    s->hooks.message(s->hooks.arg, row->number, body);
    return true;
}

static void stream_read(uv_stream_t *handle, ssize_t n, const uv_buf_t *buf)
{
    struct agent_stream *s = handle->data;
    struct err err = { 0 };
    size_t at = 0;
    if (n < 0) {
        stream_ended(s);
        return;
    }
    while (at < (size_t)n && !s->over) {
        const struct wire_row *row = NULL;
        json_t *body = NULL;
        int used = frame_read(s->reader, buf->base + at, (size_t)n - at, &row, &body, &err);
        if (used < 0) {
            s->hooks.unreadable(s->hooks.arg, err.text);
            stream_ended(s);
            return;
        }
        at += (size_t)used;
        bool go_on = !body || message_taken(s, row, body);
        json_decref(body);
        if (!go_on) {
            stream_ended(s);
            return;
        }
    }
}

static void stream_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    struct agent_stream *s = handle->data;
    (void)wanted;
    *buf = uv_buf_init(s->bytes, sizeof(s->bytes));
}

int agent_stream_open(struct agent_stream **out, uv_loop_t *loop, int fd, const struct wire_id *id,
                      const struct agent_stream_hooks *hooks, struct err *err)
{
    struct agent_stream *s = calloc(1, sizeof(*s));
    if (!s || frame_reader_create(&s->reader, TO_CONTROLLER, err) < 0) {
        free(s);
        close(fd);
        return err_set(err, ERR_MEMORY, "out of memory for a stream");
    }
    s->hooks = *hooks;
    s->version = WIRE_VERSION;
    s->job = id->job;
    s->attempt = id->attempt;
    snprintf(s->nonce, sizeof(s->nonce), "%s", id->nonce);
    snprintf(s->tag, sizeof(s->tag), "%lld.%lld", (long long)id->job, (long long)id->attempt);
    uv_pipe_init(loop, &s->pipe, 0);
    s->pipe.data = s;
    if (uv_pipe_open(&s->pipe, fd) != 0) {
        close(fd);
        stream_free(s);
        return err_set(err, ERR_SYSTEM, "cannot use the agent's socket");
    }
    if (uv_read_start((uv_stream_t *)&s->pipe, stream_room, stream_read) != 0) {
        stream_free(s);
        return err_set(err, ERR_SYSTEM, "cannot read from the agent's socket");
    }
    *out = s;
    return 0;
}

static void stream_flushed(uv_shutdown_t *request, int status)
{
    (void)status;
    stream_free(request->data);
    free(request);
}

void agent_stream_close(struct agent_stream *s)
{
    if (!s || s->over)
        return;
    s->over = true;
    uv_read_stop((uv_stream_t *)&s->pipe);
    uv_shutdown_t *request = calloc(1, sizeof(*request));
    if (request)
        request->data = s;
    if (!request || uv_shutdown(request, (uv_stream_t *)&s->pipe, stream_flushed) != 0) {
        free(request);
        stream_free(s);
    }
}
