/* SPDX-License-Identifier: Apache-2.0 */
/* agent_stream.c - see agent_stream.h; it frees itself once its handle is closed */
#include "controller/remote/agent_stream.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/os/identity.h"
#include "agent/os/log.h"
#include "agent/wire/byte_stream.h"
#include "agent/wire/frame.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

struct agent_stream {
    struct byte_stream       *bytes;
    struct agent_stream_hooks hooks;
    struct frame_reader      *reader;
    bool                      over;     /* call no hook any more */
    bool                      greeted;
    int64_t                   job, attempt;
    char                      nonce[NONCE_CHARS + 1];
    char                      tag[48];
};

static void stream_freed(void *arg)
{
    struct agent_stream *s = arg;
    frame_reader_destroy(s->reader);
    free(s);
}

static void stream_ended(void *arg, const char *text)
{
    struct agent_stream *s = arg;
    (void)text;
    if (s->over)
        return;
    s->over = true;
    byte_stream_close(s->bytes);
    s->hooks.ended(s->hooks.arg);
}

void agent_stream_expect_hand(struct agent_stream *s)
{
    s->greeted = true;
}

void agent_stream_send(struct agent_stream *s, enum wire_message number, const json_t *body)
{
    struct err err = { 0 };
    size_t size = 0;
    void *frame = frame_make(number, body, &size, &err);
    if (!frame)
        log_error(s->tag, "message %d not sent: %s", (int)number, err.text);
    else
        byte_stream_write(s->bytes, frame, size); /* the reader detects a broken stream */
    free(frame);
}

/* The fence: an agent of another attempt must stop. */
static void send_away(struct agent_stream *s, const json_t *body)
{
    json_t *stop = json_make("{s:O, s:O, s:O, s:s, s:i, s:b}", "job",
                             json_object_get(body, "job"), "attempt",
                             json_object_get(body, "attempt"), "nonce",
                             json_object_get(body, "nonce"), "reason",
                             "replaced by another attempt", "grace_ms", 0, "checkpoint", 0);
    log_warn(s->tag, "rejected the agent of another attempt; sent it a stop command");
    if (stop)
        agent_stream_send(s, WIRE_STOP, stop);
    json_decref(stop);
}

/* False: the stream has ended. */
static bool message_taken(void *arg, const struct wire_row *row, const json_t *body)
{
    struct agent_stream *s = arg;
    const struct wire_id ours = { s->job, s->attempt, s->nonce }, said = wire_id_of(body);
    if (!wire_id_same(&ours, &said)) {
        send_away(s, body);
        stream_ended(s, NULL);
        return false;
    }
    if (!s->greeted && row->number != WIRE_HELLO) {
        log_error(s->tag, "protocol error: the first message of the agent is not HELLO");
        stream_ended(s, NULL);
        return false;
    }
    s->greeted = true;
    s->hooks.message(s->hooks.arg, row->number, body);
    return !s->over;
}

static void stream_read(void *arg, const char *bytes, size_t size)
{
    struct agent_stream *s = arg;
    struct err err = { 0 };
    if (s->over || frame_read_all(s->reader, bytes, size, message_taken, s, &err) == 0)
        return;
    s->hooks.unreadable(s->hooks.arg, err.text);
    stream_ended(s, err.text);
}

int agent_stream_take(struct agent_stream **out, struct byte_stream *bytes, const struct wire_id *id,
                      const struct agent_stream_hooks *hooks, struct err *err)
{
    struct agent_stream *s = calloc(1, sizeof(*s));
    const struct byte_stream_hooks stream = {
        .data = stream_read, .ended = stream_ended, .closed = stream_freed, .arg = s };
    if (!s || frame_reader_create(&s->reader, TO_CONTROLLER, err) < 0) {
        free(s);
        byte_stream_close(bytes);
        return err_set(err, ERR_MEMORY, "out of memory for a stream");
    }
    s->bytes = bytes;
    s->hooks = *hooks;
    s->job = id->job;
    s->attempt = id->attempt;
    snprintf(s->nonce, sizeof(s->nonce), "%s", id->nonce);
    snprintf(s->tag, sizeof(s->tag), "%lld.%lld", (long long)id->job, (long long)id->attempt);
    byte_stream_set_hooks(bytes, &stream);
    *out = s;
    return 0;
}

int agent_stream_open(struct agent_stream **out, uv_loop_t *loop, int fd, const struct wire_id *id,
                      const struct agent_stream_hooks *hooks, struct err *err)
{
    struct byte_stream *bytes;
    const struct byte_stream_hooks none = { .data = NULL };
    if (byte_stream_open(&bytes, loop, fd, &none, err) < 0)
        return err_prefix(err, "cannot use the agent's socket: ");
    return agent_stream_take(out, bytes, id, hooks, err);
}

void agent_stream_close(struct agent_stream *s)
{
    if (!s || s->over)
        return;
    s->over = true;
    byte_stream_finish(s->bytes, 0);
}
