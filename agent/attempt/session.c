/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - see session.h; the spool is the send queue, so a slow controller costs no memory */
#include "agent/attempt/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/spool.h"
#include "agent/os/log.h"
#include "agent/os/unix_socket.h"
#include "agent/wire/channel.h"
#include "agent/wire/frame.h"
#include "engine/contract/clock.h"
#include "engine/contract/err.h"

enum { QUEUE_BYTES = 256 * 1024 }; /* limit of unsent bytes per connection */

/* One connection; it frees itself once its handle is closed. */
struct remote_link {
    struct session *session;
    uv_pipe_t pipe;
    struct frame_reader *reader;
    bool closing;
    char bytes[65536];
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
    int links;         /* not yet freed */
    bool launched, closed;
};

/* A write in progress. */
struct outgoing {
    uv_write_t req;
    struct remote_link *link;
    char *frame;
};

/* --- sending --------------------------------------------------------------------------- */

static void link_closed(uv_handle_t *handle)
{
    struct remote_link *l = handle->data;
    l->session->links--;
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
    uv_close((uv_handle_t *)&l->pipe, link_closed);
}

static void on_written(uv_write_t *req, int status)
{
    struct outgoing *o = req->data;
    struct remote_link *l = o->link;
    free(o->frame);
    free(o);
    if (l->closing)
        return;
    if (status < 0)
        link_close(l);
    else
        session_pump(l->session);
}

/* Adds the identity, frames the message and sends it. Takes the body. seq 0: unreliable. */
static int link_send(struct remote_link *l, enum wire_message number, int64_t seq, json_t *body,
                     struct err *err)
{
    const struct session_id *id = &l->session->id;
    size_t size = 0;
    struct outgoing *o = calloc(1, sizeof(*o));
    if (!body || !o || json_object_set_new(body, "job", json_integer(id->job)) < 0 ||
        json_object_set_new(body, "attempt", json_integer(id->attempt)) < 0 ||
        json_object_set_new(body, "nonce", json_string(id->nonce)) < 0)
        err_set(err, ERR_MEMORY, "no memory for a message");
    else
        o->frame = frame_make(number, body, &size, err);
    json_decref(body);
    if (!o || !o->frame) {
        free(o);
        return -1;
    }
    channel_said(&l->session->channel, seq, (int64_t)uv_now(l->session->loop));
    o->link = l;
    o->req.data = o;
    uv_buf_t buf = uv_buf_init(o->frame, (unsigned)size);
    int rc = uv_write(&o->req, (uv_stream_t *)&l->pipe, &buf, 1, on_written);
    if (rc < 0) {
        free(o->frame);
        free(o);
        return err_set(err, ERR_SYSTEM, "cannot send to the controller: %s", uv_strerror(rc));
    }
    return 0;
}

static int send_hello(struct remote_link *l, struct err *err)
{
    struct session *s = l->session;
    const struct session_id *id = &s->id;
    int64_t last = spool_last(s->spool), acked = spool_acked(s->spool);
    const char *trouble = s->hooks.trouble(s->hooks.arg);
    return link_send(l, WIRE_HELLO, 0,
                     json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:b, s:I, s:I, s:O, s:I, s:s*}", "node",
                               id->node, "boot_id", id->boot_id, "pid", (json_int_t)id->pid,
                               "start_time", (json_int_t)id->start_time, "incarnation",
                               (json_int_t)id->incarnation, "version", id->version, "launched",
                               s->launched, "first_seq", (json_int_t)(last > acked ? acked + 1 : 0),
                               "last_seq", (json_int_t)last, "facts", s->facts, "wall_ms",
                               (json_int_t)clock_unix_ms(), "call_error",
                               trouble),
                     err);
}

void session_pump(struct session *s)
{
    struct err err = {0};
    s->channel.newest = spool_last(s->spool);
    while (s->channel.open && s->channel.sent < s->channel.newest &&
           uv_stream_get_write_queue_size((uv_stream_t *)&s->link->pipe) < QUEUE_BYTES) {
        struct remote_link *l = s->link;
        json_t *event;
        if (spool_next(s->spool, s->channel.sent, &event, &err) < 0) {
            log_error(NULL, "%s", err.text);
            link_close(l);
            return;
        }
        if (!event)
            return;
        int64_t seq = json_integer_value(json_object_get(event, "seq"));
        if (link_send(l, WIRE_EVENT, seq, event, &err) < 0) {
            log_error(NULL, "event %lld: %s", (long long)seq, err.text);
            link_close(l);
            return;
        }
    }
}

void session_heartbeat(struct session *s, json_t *body)
{
    struct err err = {0};
    if (!s->channel.open ||
        uv_stream_get_write_queue_size((uv_stream_t *)&s->link->pipe) > QUEUE_BYTES) {
        json_decref(body);
        return;
    }
    const char *trouble = s->hooks.trouble(s->hooks.arg);
    if (trouble)
        json_object_set_new(body, "call_error", json_string(trouble));
    if (link_send(s->link, WIRE_HEARTBEAT, 0, body, &err) < 0)
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
    else if (link_send(s->link, WIRE_LISTENING, 0, json_pack("{s:o}", "endpoint", endpoint), &err) < 0)
        log_error(NULL, "%s", err.text);
}

/* --- receiving ------------------------------------------------------------------------- */

static bool is_ours(const struct session *s, const json_t *body)
{
    const struct wire_id ours = { s->id.job, s->id.attempt, s->id.nonce };
    const struct wire_id said = wire_id_of(body);
    return wire_id_same(&ours, &said);
}

/* The controller has all events up to `seq`; a number that is too large means all. */
static void take_ack(struct session *s, int64_t seq)
{
    s->channel.newest = spool_last(s->spool);
    channel_ack(&s->channel, seq < s->channel.newest ? seq : s->channel.newest);
    spool_ack(s->spool, s->channel.acked);
    s->hooks.acked(s->hooks.arg, seq);
}

static void on_message(struct remote_link *l, const struct wire_row *row, const json_t *body)
{
    struct session *s = l->session;
    if (!is_ours(s, body)) {
        log_warn(NULL, "refused a %s message of another attempt (job %lld attempt %lld)", row->name,
                 (long long)json_integer_value(json_object_get(body, "job")),
                 (long long)json_integer_value(json_object_get(body, "attempt")));
        link_close(l);
        return;
    }
    if (row->number == WIRE_ACK) {
        take_ack(s, json_integer_value(json_object_get(body, "seq")));
        return;
    }
    if (row->number == WIRE_LAUNCH) {
        take_ack(s, json_integer_value(json_object_get(body, "acked")));
        channel_open(&s->channel, s->channel.acked);
    }
    if (row->number == WIRE_STOP && !s->channel.open) /* it must not have to be launched first */
        channel_open(&s->channel, s->channel.acked);
    s->hooks.message(s->hooks.arg, row->number, body);
    session_pump(s);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct remote_link *l = handle->data;
    *buf = uv_buf_init(l->bytes, sizeof(l->bytes));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct remote_link *l = stream->data;
    if (n < 0) {
        link_close(l);
        return;
    }
    for (size_t at = 0; at < (size_t)n && !l->closing;) {
        const struct wire_row *row;
        json_t *body;
        struct err err = {0};
        int used = frame_read(l->reader, buf->base + at, (size_t)n - at, &row, &body, &err);
        if (used < 0) {
            log_warn(NULL, "closed the connection to the controller: %s", err.text);
            link_close(l);
            return;
        }
        at += (size_t)used;
        if (body)
            on_message(l, row, body);
        json_decref(body);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct session *s = listener->data;
    struct remote_link *l = status < 0 ? NULL : calloc(1, sizeof(*l));
    struct err err = {0};
    if (!l)
        return;
    l->session = s;
    uv_pipe_init(s->loop, &l->pipe, 0);
    l->pipe.data = l;
    s->links++;
    uv_os_fd_t fd;
    if (frame_reader_create(&l->reader, TO_AGENT, &err) < 0 ||
        uv_accept(listener, (uv_stream_t *)&l->pipe) < 0 ||
        uv_fileno((uv_handle_t *)&l->pipe, &fd) < 0 || unix_socket_check_peer(fd, &err) < 0) {
        log_warn(NULL, "refused a connection: %s", err.text);
        link_close(l);
        return;
    }
    if (s->link)
        link_close(s->link); /* the newer controller replaces the older one */
    s->link = l;
    channel_up(&s->channel);
    uv_read_start((uv_stream_t *)&l->pipe, on_alloc, on_read);
    if (send_hello(l, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        link_close(l);
    }
}

/* --- creation and release -------------------------------------------------------------- */

int session_open(struct session **out, uv_loop_t *loop, const char *path,
                 const struct session_id *id, const json_t *facts, struct spool *spool,
                 const struct session_hooks *hooks, struct err *err)
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
