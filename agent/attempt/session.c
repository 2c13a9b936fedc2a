/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - see session.h; the spool is the send queue, so a slow controller costs no memory */
#include "agent/attempt/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/spool.h"
#include "engine/base/buf.h"
#include "agent/os/log.h"
#include "agent/os/unix_socket.h"
#include "agent/wire/byte_stream.h"
#include "agent/wire/channel.h"
#include "agent/wire/frame.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum {
    QUEUE_BYTES = 256 * 1024, /* limit of unsent bytes per connection */
    FINISH_MS = 2000          /* time for the last ones */
};

/* One connection; it frees itself once its handle is closed. */
struct remote_link {
    struct session *session;
    struct byte_stream *stream;
    struct frame_reader *reader;
    bool taken; /* by session_take() */
    bool closing;
};

struct session {
    uv_loop_t *loop;
    struct session_id id;
    const json_t *facts;
    struct spool *spool;
    struct channel channel; /* open: LAUNCH was received; the spool keeps the events */
    struct session_hooks hooks;
    uv_pipe_t listener;
    char *path;
    struct remote_link *link; /* the current connection, or NULL */
    bool launched, closed;
};

/* --- sending --------------------------------------------------------------------------- */

static void link_free(void *arg)
{
    struct remote_link *l = arg;
    frame_reader_destroy(l->reader);
    free(l);
}

static void link_close(struct remote_link *l)
{
    if (l->closing)
        return;
    l->closing = true;
    if (l->session->link == l) {
        l->session->link = NULL;
        channel_down(&l->session->channel);
    }
    byte_stream_finish(l->stream, FINISH_MS);
    if (l->taken)
        l->session->hooks.hung_up(l->session->hooks.arg);
}

static struct wire_id wire_id(const struct session *s)
{
    return (struct wire_id){s->id.job, s->id.attempt, s->id.nonce};
}

/* Adds the identity, frames the message and sends it. Takes the body. seq 0: unreliable. */
static int link_send(struct remote_link *l, enum wire_message number, int64_t seq, json_t *body, struct err *err)
{
    struct session *s = l->session;
    const struct wire_id id = wire_id(s);
    size_t size = 0;
    char *frame = frame_pack(number, &id, body, &size, err);
    int rc = frame ? byte_stream_write(l->stream, frame, size) : -1;
    if (frame && rc < 0)
        err_set(err, ERR_SYSTEM, "cannot send to the controller");
    if (rc == 0)
        channel_said(&s->channel, seq, (int64_t)uv_now(s->loop));
    free(frame);
    return rc;
}

static int send_hello(struct remote_link *l, struct err *err)
{
    struct session *s = l->session;
    const struct session_id *id = &s->id;
    int64_t last = spool_last(s->spool), acked = spool_acked(s->spool);
    const char *trouble = s->hooks.trouble(s->hooks.arg);
    return link_send(l, WIRE_HELLO, 0,
                     json_make("{s:s, s:s, s:I, s:I, s:I, s:s, s:b, s:I, s:I, s:O, s:s*, s:I, s:s*}", "node",
                               id->node, "boot_id", id->boot_id, "pid", (json_int_t)id->pid,
                               "start_time", (json_int_t)id->start_time, "incarnation",
                               (json_int_t)id->incarnation, "version", id->version, "launched",
                               s->launched, "first_seq", (json_int_t)(last > acked ? acked + 1 : 0),
                               "last_seq", (json_int_t)last, "facts", s->facts, "origin",
                               id->origin[0] ? id->origin : NULL, "wall_ms",
                               (json_int_t)clock_unix_ms(), "call_error",
                               trouble),
                     err);
}

/* Appends the event to those of this write, and takes it. */
static int pack_event(struct buf *out, const struct session *s, json_t *event, struct err *err)
{
    const struct wire_id id = wire_id(s);
    size_t size = 0;
    char *frame = frame_pack(WIRE_EVENT, &id, event, &size, err);
    int rc = frame ? buf_append(out, frame, size) : -1;
    if (frame && rc < 0)
        err_set(err, ERR_MEMORY, "no memory for an event");
    free(frame);
    return rc;
}

/* As many as the connection accepts, in one write: the controller commits together what it reads together. */
static int send_events(struct remote_link *l, struct buf *out, struct err *err)
{
    struct session *s = l->session;
    int64_t sent = s->channel.sent;
    while (sent < s->channel.newest && byte_stream_queued(l->stream) + out->size < QUEUE_BYTES) {
        json_t *event;
        if (spool_next(s->spool, sent, &event, err) < 0)
            return -1;
        if (!event)
            break;
        sent = json_integer_value(json_object_get(event, "seq"));
        if (pack_event(out, s, event, err) < 0)
            return -1;
    }
    if (out->size == 0)
        return 0;
    if (byte_stream_write(l->stream, out->data, out->size) < 0)
        return err_set(err, ERR_SYSTEM, "cannot send to the controller");
    channel_said(&s->channel, sent, (int64_t)uv_now(s->loop));
    return 0;
}

void session_pump(struct session *s)
{
    struct err err = {0};
    struct buf out;
    s->channel.newest = spool_last(s->spool);
    if (!s->channel.open || s->channel.sent >= s->channel.newest)
        return;
    s->hooks.sync(s->hooks.arg);
    buf_init(&out);
    struct remote_link *l = s->link;
    if (send_events(l, &out, &err) < 0) {
        log_error(NULL, "event after %lld: %s", (long long)s->channel.sent, err.text);
        link_close(l);
    }
    buf_fini(&out);
}

void session_heartbeat(struct session *s, json_t *body)
{
    struct err err = {0};
    if (!s->channel.open ||
        byte_stream_queued(s->link->stream) > QUEUE_BYTES) {
        json_decref(body);
        return;
    }
    const char *trouble = s->hooks.trouble(s->hooks.arg);
    if (trouble)
        json_object_set_new(body, "call_error", json_text(trouble));
    if (link_send(s->link, WIRE_HEARTBEAT, 0, body, &err) < 0)
        log_error(NULL, "%s", err.text);
}

void session_gpu_load(struct session *s, json_t *gpus)
{
    struct err err = {0};
    if (!s->channel.open || byte_stream_queued(s->link->stream) > QUEUE_BYTES)
        json_decref(gpus);
    else if (link_send(s->link, WIRE_GPU_LOAD, 0, json_make("{s:s, s:o}", "node", s->id.node, "gpus", gpus), &err) < 0)
        log_error(NULL, "%s", err.text);
}

void session_alive(struct session *s)
{
    struct err err = {0};
    const int64_t now_ms = (int64_t)uv_now(s->loop);
    if (channel_look(&s->channel, now_ms, CHANNEL_ALIVE_MS) == CHANNEL_SAY_ALIVE &&
        link_send(s->link, WIRE_KEEPALIVE, 0, json_object(), &err) < 0)
        log_error(NULL, "%s", err.text);
}

void session_show_listener(struct session *s, json_t *endpoint)
{
    struct err err = {0};
    if (!s->channel.open)
        json_decref(endpoint);
    else if (link_send(s->link, WIRE_LISTENING, 0, json_make("{s:o}", "endpoint", endpoint), &err) < 0)
        log_error(NULL, "%s", err.text);
}

/* --- receiving ------------------------------------------------------------------------- */

/* The controller has all events up to `seq`; a number that is too large means all. */
static void take_ack(struct session *s, int64_t seq)
{
    s->channel.newest = spool_last(s->spool);
    channel_ack(&s->channel, seq < s->channel.newest ? seq : s->channel.newest);
    spool_ack(s->spool, s->channel.acked);
    s->hooks.acked(s->hooks.arg, seq);
}

static bool on_message(void *arg, const struct wire_row *row, const json_t *body)
{
    struct remote_link *l = arg;
    struct session *s = l->session;
    const struct wire_id ours = wire_id(s), said = wire_id_of(body);
    if (!wire_id_same(&ours, &said)) {
        log_warn(NULL, "refused a %s message from another attempt (job %lld attempt %lld)", row->name,
                 (long long)said.job, (long long)said.attempt);
        link_close(l);
        return false;
    }
    if (row->number == WIRE_ACK) {
        take_ack(s, json_integer_value(json_object_get(body, "seq")));
        return !l->closing;
    }
    if (row->number == WIRE_LAUNCH) {
        take_ack(s, json_integer_value(json_object_get(body, "acked")));
        channel_open(&s->channel, s->channel.acked);
    }
    if (row->number == WIRE_STOP && !s->channel.open) /* a stop must work without a launch before it */
        channel_open(&s->channel, s->channel.acked);
    s->hooks.message(s->hooks.arg, row->number, body);
    s->hooks.room(s->hooks.arg);
    return !l->closing;
}

static void on_data(void *arg, const char *bytes, size_t size)
{
    struct remote_link *l = arg;
    struct err err = {0};
    if (l->closing || frame_read_all(l->reader, bytes, size, on_message, l, &err) == 0)
        return;
    log_warn(NULL, "closed the connection to the controller: %s", err.text);
    link_close(l);
}

static void on_ended(void *arg, const char *text)
{
    struct remote_link *l = arg;
    if (l->taken)
        log_warn(NULL, "the connection to the controller closed: %s", text);
    link_close(l);
}

static void on_sent(void *arg)
{
    const struct session *s = ((struct remote_link *)arg)->session;
    s->hooks.room(s->hooks.arg);
}

static struct byte_stream_hooks link_hooks(struct remote_link *l)
{
    return (struct byte_stream_hooks){
        .data = on_data, .ended = on_ended, .sent = on_sent, .closed = link_free, .arg = l};
}

/* NULL: no memory. */
static struct remote_link *link_make(struct session *s, struct err *err)
{
    struct remote_link *l = calloc(1, sizeof(*l));
    if (l)
        l->session = s;
    if (l && frame_reader_create(&l->reader, TO_AGENT, err) == 0)
        return l;
    free(l);
    return NULL;
}

static void link_begin(struct remote_link *l)
{
    struct session *s = l->session;
    struct err err = {0};
    if (s->link)
        link_close(s->link); /* the newer controller replaces the older one */
    s->link = l;
    channel_up(&s->channel);
    if (send_hello(l, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        link_close(l);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct session *s = listener->data;
    struct err err = {0};
    struct remote_link *l = status < 0 ? NULL : link_make(s, &err);
    if (!l)
        return;
    const struct byte_stream_hooks hooks = link_hooks(l);
    int rc = byte_stream_accept(&l->stream, listener, NULL, &hooks, &err);
    if (rc == 0 && byte_stream_check_peer(l->stream, &err) == 0) {
        link_begin(l);
        return;
    }
    log_warn(NULL, "refused a connection: %s", err.text);
    if (rc < 0)
        link_free(l);
    else
        byte_stream_close(l->stream);
}

void session_take(struct session *s, struct byte_stream *stream)
{
    struct err err = {0};
    struct remote_link *l = link_make(s, &err);
    if (!l) {
        byte_stream_close(stream);
        s->hooks.hung_up(s->hooks.arg);
        return;
    }
    const struct byte_stream_hooks hooks = link_hooks(l);
    l->stream = stream;
    l->taken = true;
    byte_stream_set_hooks(stream, &hooks);
    link_begin(l);
}

/* --- creation and release -------------------------------------------------------------- */

int session_open(struct session **out, uv_loop_t *loop, const char *path, const struct session_id *id,
                 const json_t *facts, struct spool *spool, const struct session_hooks *hooks, struct err *err)
{
    struct session *s = calloc(1, sizeof(*s));
    int rc = -1;
    if (!s || !(s->path = strdup(path))) {
        free(s);
        return err_set(err, ERR_MEMORY, "no memory for a session");
    }
    s->loop = loop;
    s->id = *id;
    s->facts = facts;
    s->spool = spool;
    s->channel = (struct channel){.newest = spool_last(spool), .acked = spool_acked(spool),
                                  .looked_ms = (int64_t)uv_now(loop)};
    s->hooks = *hooks;
    int fd = unix_socket_listen(path, err);
    if (fd >= 0) {
        uv_pipe_init(loop, &s->listener, 0);
        s->listener.data = s;
        if ((rc = uv_pipe_open(&s->listener, fd)) < 0 ||
            (rc = uv_listen((uv_stream_t *)&s->listener, 16, on_connection)) < 0)
            err_set(err, ERR_SYSTEM, "cannot listen at '%s': %s", path, uv_strerror(rc));
    }
    if (rc < 0) {
        free(s->path);
        free(s);
        return -1;
    }
    *out = s;
    return 0;
}

void session_close(struct session *s)
{
    if (s->closed)
        return;
    s->closed = true;
    if (s->link)
        link_close(s->link);
    uv_close((uv_handle_t *)&s->listener, NULL);
    unlink(s->path);
}

void session_destroy(struct session *s)
{
    if (!s)
        return;
    free(s->path);
    free(s);
}

void session_set_launched(struct session *s)
{
    s->launched = true;
}

bool session_connected(const struct session *s)
{
    return s->channel.open;
}
