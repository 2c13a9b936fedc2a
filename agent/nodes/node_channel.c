/* SPDX-License-Identifier: Apache-2.0 */
/* node_channel.c - see node_channel.h */
#include "agent/nodes/node_channel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/wire/channel.h"
#include "agent/wire/frame.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/tls_listener.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum {
    LOOK_MS = CHANNEL_ALIVE_MS / 4,
    AGAIN_MIN_MS = 50,
    AGAIN_MAX_MS = 1000,
    SAID_QUEUE = 1024 * 1024, /* unreliable messages are dropped behind this many queued bytes */
    KEPT_MAX = 64 * 1024 * 1024,
    PROCESS_ID_SIZE = 17
};

struct node_channel {
    uv_loop_t                *loop;
    struct node_channel_hooks hooks;
    uv_timer_t                look, again;
    int                       handles;
    bool                      closing, lost;
    bool                      head;    /* true: the leader's end */
    bool                      met;     /* a connection has been established once */
    struct byte_stream       *stream;  /* or NULL */
    struct frame_reader      *reader;
    struct channel            channel; /* up: CONNECT and ACCEPTED were exchanged on this connection */
    int                       lost_ms; /* the follower's limit, set by the leader */
    char                      why[200]; /* why the last connection ended, or "" */

    /* the clock */
    int64_t heard_at_ns, heard_ns; /* peer's clock and own clock at the last keepalive; 0: none */
    int64_t add_ns, best_ns;       /* best: smallest round trip on this connection; 0: none */
    bool    clocked;

    /* follower only */
    struct node_channel_call     call;
    char                         nonce[128], process_id[PROCESS_ID_SIZE];
    struct tls_listener_endpoint way;
    int at; /* index of the address being tried */
    int                          again_ms;
    /* leader only */
    char their_process_id[PROCESS_ID_SIZE];
};

static void dial(struct node_channel *l);

/* --- closing connections -------------------------------------------------------------------- */

static void hang_up(struct node_channel *l)
{
    byte_stream_close(l->stream);
    frame_reader_destroy(l->reader);
    l->stream = NULL;
    l->reader = NULL;
    channel_down(&l->channel);
    l->heard_at_ns = 0;
}

static void on_again(uv_timer_t *timer)
{
    dial(timer->data);
}

/* The connection is gone: the follower reconnects, the leader waits. */
static void break_off(struct node_channel *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void break_off(struct node_channel *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(l->why, sizeof(l->why), fmt, ap);
    va_end(ap);
    bool was_up = l->channel.up;
    hang_up(l);
    if (l->head || l->closing || l->lost)
        return;
    if (!was_up)
        l->at = (l->at + 1) % l->way.addresses;
    l->again_ms = was_up ? AGAIN_MIN_MS
                         : l->again_ms * 2 < AGAIN_MAX_MS ? l->again_ms * 2 : AGAIN_MAX_MS;
    uv_timer_start(&l->again, on_again, (uint64_t)l->again_ms, 0);
}

static void lose(struct node_channel *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void lose(struct node_channel *l, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (l->lost || l->closing)
        return;
    l->lost = true;
    uv_timer_stop(&l->look);
    uv_timer_stop(&l->again);
    hang_up(l);
    l->hooks.lost(l->hooks.arg, text);
}

/* --- sending -------------------------------------------------------------------------------- */

/* seq 0: unreliable. */
static bool put(struct node_channel *l, int64_t seq, const void *frame, size_t size)
{
    if (!l->stream || byte_stream_write(l->stream, frame, size) < 0)
        return false;
    channel_said(&l->channel, seq, clock_ms());
    return true;
}

static void put_kept(struct node_channel *l)
{
    for (const struct channel_frame *f; (f = channel_next(&l->channel));)
        if (!put(l, l->channel.sent + 1, f->bytes, f->size))
            return; /* repeated on the next connection */
}

/* Sends a message of the channel itself. */
static bool tell(struct node_channel *l, enum wire_message number, json_t *body)
{
    size_t size;
    void *frame = frame_pack(number, NULL, body, &size, NULL);
    bool said = frame && put(l, 0, frame, size);
    free(frame);
    return said;
}

static void keepalive(struct node_channel *l)
{
    const int64_t now = (int64_t)clock_ns();
    tell(l, l->head ? NODE_LEADER_KEEPALIVE : NODE_KEEPALIVE,
         json_make("{s:I, s:I, s:I, s:I}", "ack", (json_int_t)channel_tell(&l->channel), "at_ns",
                   (json_int_t)now, "echo_ns", (json_int_t)l->heard_at_ns, "echo_age_ns",
                   (json_int_t)(l->heard_at_ns ? now - l->heard_ns : 0)));
}

int node_channel_send(struct node_channel *l, enum wire_message number, json_t *body, struct err *err)
{
    size_t size;
    if (body)
        json_object_set_new(body, "seq", json_integer(l->channel.newest + 1));
    void *frame = frame_pack(number, NULL, body, &size, err);
    if (!frame)
        return -1;
    if (channel_keep(&l->channel, frame, size) < 0) {
        free(frame);
        return err_set(err, ERR_MEMORY, "no memory for a message");
    }
    put_kept(l);
    return 0;
}

bool node_channel_say(struct node_channel *l, enum wire_message number, json_t *body)
{
    if (!l->channel.up || byte_stream_queued(l->stream) > SAID_QUEUE) {
        json_decref(body);
        return false;
    }
    return tell(l, number, body);
}

/* Both sides know what the other has received. */
static void begin(struct node_channel *l, int64_t they_have)
{
    l->met = true;
    channel_up(&l->channel);
    channel_open(&l->channel, they_have);
    l->channel.limit_ms = (int64_t)(l->head ? l->lost_ms * LINK_HEAD_SHARE : l->lost_ms);
    l->best_ns = 0;
    l->again_ms = AGAIN_MIN_MS;
    put_kept(l);
    keepalive(l);
    l->hooks.up(l->hooks.arg);
}

/* --- receiving ------------------------------------------------------------------------------ */

static int64_t int_of(const json_t *body, const char *key)
{
    return json_integer_value(json_object_get(body, key));
}

/* The sample with the shortest round trip is the most exact; older samples count less over time. */
static void take_clock(struct node_channel *l, const json_t *body)
{
    const int64_t now = (int64_t)clock_ns(), echo = int_of(body, "echo_ns");
    l->heard_at_ns = int_of(body, "at_ns");
    l->heard_ns = now;
    if (echo <= 0)
        return;
    int64_t trip = now - echo - int_of(body, "echo_age_ns");
    trip = trip > 0 ? trip : 1;
    l->best_ns += l->best_ns / 16;
    if (l->best_ns && trip > l->best_ns)
        return;
    l->best_ns = trip;
    l->add_ns = now - trip / 2 - l->heard_at_ns;
    l->clocked = true;
}

static void receive_keepalive(struct node_channel *l, const json_t *body)
{
    if (channel_ack(&l->channel, int_of(body, "ack")))
        take_clock(l, body);
    else
        break_off(l, "invalid acknowledgement");
}

/* The first message of the leader on a new connection. */
static void take_answer(struct node_channel *l, const struct wire_row *row, const json_t *body)
{
    if (row->number == NODE_REFUSED) {
        lose(l, "has refused this node: %.200s", json_string_value(json_object_get(body, "text")));
        return;
    }
    int64_t received = int_of(body, "received"), lost_ms = int_of(body, "lost_ms");
    if (row->number != NODE_ACCEPTED || !channel_can_open(&l->channel, received) || lost_ms < 1 ||
        lost_ms > INT32_MAX) {
        break_off(l, "invalid ACCEPTED message");
        return;
    }
    l->lost_ms = (int)lost_ms;
    begin(l, received);
}

static void take_message(struct node_channel *l, const struct wire_row *row, const json_t *body)
{
    const json_t *said = json_object_get(body, "seq");
    const int64_t seq = json_integer_value(said), received = l->channel.received;
    const enum channel_order order = said ? channel_take(&l->channel, seq) : CHANNEL_NEW;
    if (row->number == NODE_KEEPALIVE || row->number == NODE_LEADER_KEEPALIVE)
        receive_keepalive(l, body);
    else if (order == CHANNEL_GAP)
        break_off(l, "message %lld followed message %lld", (long long)seq, (long long)received);
    else if (order == CHANNEL_NEW) /* a repeat: its acknowledgement was lost with the old connection */
        l->hooks.message(l->hooks.arg, row, body);
}

/* False: the connection it came on has ended. */
static bool take(void *arg, const struct wire_row *row, const json_t *body)
{
    struct node_channel *l = arg;
    const struct frame_reader *reader = l->reader;
    channel_heard(&l->channel);
    if (l->channel.up)
        take_message(l, row, body);
    else
        take_answer(l, row, body);
    return !l->closing && l->reader == reader;
}

static void on_data(void *arg, const char *bytes, size_t size)
{
    struct node_channel *l = arg;
    struct err err = {0};
    if (!l->closing && l->stream && frame_read_all(l->reader, bytes, size, take, l, &err) < 0)
        break_off(l, "%.180s", err.text);
}

static void on_ended(void *arg, const char *text)
{
    break_off(arg, "%s", text);
}

/* --- timeouts ------------------------------------------------------------------------------- */

static void on_look(uv_timer_t *timer)
{
    struct node_channel *l = timer->data;
    const enum channel_due due = channel_look(&l->channel, clock_ms(), LOOK_MS);
    if (due == CHANNEL_LOST)
        lose(l, l->met ? "sent no heartbeat for %.0f s%s%s%s" : "did not connect within %.0f s%s%s%s",
             (double)l->channel.limit_ms / 1000, l->why[0] ? " (" : "", l->why, l->why[0] ? ")" : "");
    else if (l->channel.kept_bytes > KEPT_MAX)
        lose(l, "has not acknowledged %d MiB of messages", KEPT_MAX >> 20);
    else if (due == CHANNEL_RECONNECT)
        break_off(l, "no data received");
    else if (due == CHANNEL_SAY_ALIVE)
        keepalive(l);
}

/* --- connecting (follower) ------------------------------------------------------------------ */

static void on_ready(void *arg)
{
    struct node_channel *l = arg;
    const struct wire_id *id = &l->call.id;
    if (!tell(l, NODE_CONNECT,
              json_make("{s:I, s:I, s:s, s:i, s:s, s:I}", "job", (json_int_t)id->job, "attempt",
                        (json_int_t)id->attempt, "nonce", id->nonce, "node", l->call.node, "process_id",
                        l->process_id, "received", (json_int_t)l->channel.received)))
        break_off(l, "sending failed");
}

static void on_dial_ended(void *arg, const char *text)
{
    struct node_channel *l = arg;
    char address[BYTE_STREAM_ADDRESS];
    if (l->channel.up)
        break_off(l, "%s", text);
    else
        break_off(l, "%s port %d: %s", tls_listener_endpoint_text(&l->way, l->at, address), l->way.port, text);
}

static void dial(struct node_channel *l)
{
    struct err err = {0};
    struct byte_stream_hooks hooks = {
        .ready = on_ready, .data = on_data, .ended = on_dial_ended, .arg = l};
    if (l->closing || l->lost)
        return;
    channel_try(&l->channel);
    if (frame_reader_create(&l->reader, TO_FOLLOWER, &err) < 0 ||
        byte_stream_connect(&l->stream, l->loop, tls_listener_endpoint_address(&l->way, l->at),
                            tls_psk_client(TLS_LISTENER_NAME, l->way.key), &hooks, &err) < 0)
        on_dial_ended(l, err.text);
}

/* --- creation and release ------------------------------------------------------------------- */

static struct node_channel *make(uv_loop_t *loop, const struct node_channel_hooks *hooks, int join_ms)
{
    struct node_channel *l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    *l = (struct node_channel){.loop = loop, .hooks = *hooks, .handles = 2, .again_ms = AGAIN_MIN_MS,
                               .channel = {.limit_ms = join_ms, .looked_ms = clock_ms()}};
    uv_timer_init(loop, &l->look);
    uv_timer_init(loop, &l->again);
    l->look.data = l->again.data = l;
    uv_timer_start(&l->look, on_look, LOOK_MS, LOOK_MS);
    return l;
}

int node_channel_dial(struct node_channel **out, uv_loop_t *loop, const struct node_channel_call *call,
                      const struct node_channel_hooks *hooks, struct err *err)
{
    uint64_t process_id;
    struct node_channel *l = make(loop, hooks, call->join_ms);
    if (!l)
        return err_set(err, ERR_MEMORY, "no memory for a channel to the leader");
    l->call = *call;
    snprintf(l->nonce, sizeof(l->nonce), "%s", call->id.nonce);
    l->call.id.nonce = l->nonce;
    l->call.endpoint = NULL; /* owned by the caller */
    if (tls_listener_endpoint_read(&l->way, call->endpoint, err) < 0 ||
        uv_random(NULL, NULL, &process_id, sizeof(process_id), 0, NULL) < 0) {
        node_channel_close(l);
        return err && err->code != ERR_NONE ? err_prefix(err, "endpoint of the leader: ")
                                            : err_set(err, ERR_SYSTEM, "no random numbers");
    }
    snprintf(l->process_id, sizeof(l->process_id), "%016llx", (unsigned long long)process_id);
    uv_timer_start(&l->again, on_again, 0, 0);
    *out = l;
    return 0;
}

int node_channel_await(struct node_channel **out, uv_loop_t *loop, int join_ms, int lost_ms,
                       const struct node_channel_hooks *hooks, struct err *err)
{
    struct node_channel *l = make(loop, hooks, join_ms);
    if (!l)
        return err_set(err, ERR_MEMORY, "no memory for a channel to a follower");
    l->head = true;
    l->lost_ms = lost_ms;
    *out = l;
    return 0;
}

const char *node_channel_take(struct node_channel *l, struct byte_stream *s, struct frame_reader *reader,
                              const json_t *call)
{
    const char *process_id = json_string_value(json_object_get(call, "process_id"));
    int64_t received = int_of(call, "received");
    struct byte_stream_hooks hooks = {.data = on_data, .ended = on_ended, .arg = l};
    if (l->lost || l->closing)
        return "the attempt continues without this node";
    if (strlen(process_id) >= PROCESS_ID_SIZE || (l->met && strcmp(process_id, l->their_process_id) != 0))
        return "a different process of this node connected first";
    if (!channel_can_open(&l->channel, received))
        return "invalid `received` in CONNECT";
    hang_up(l); /* a peer that reconnects has given up its old connection */
    snprintf(l->their_process_id, sizeof(l->their_process_id), "%s", process_id);
    l->stream = s;
    l->reader = reader;
    byte_stream_set_hooks(s, &hooks);
    if (tell(l, NODE_ACCEPTED,
             json_make("{s:I, s:i}", "received", (json_int_t)l->channel.received, "lost_ms", l->lost_ms)))
        begin(l, received);
    else
        break_off(l, "sending failed");
    return NULL;
}

static void on_closed(uv_handle_t *handle)
{
    struct node_channel *l = handle->data;
    if (--l->handles > 0)
        return;
    channel_free(&l->channel);
    free(l);
}

void node_channel_close(struct node_channel *l)
{
    if (!l || l->closing)
        return;
    l->closing = true;
    hang_up(l);
    uv_close((uv_handle_t *)&l->look, on_closed);
    uv_close((uv_handle_t *)&l->again, on_closed);
}

bool node_channel_is_up(const struct node_channel *l)
{
    return l->channel.up;
}

int node_channel_silent_ms(const struct node_channel *l)
{
    return (int)l->channel.silent_ms;
}

bool node_channel_clock(const struct node_channel *l, int64_t *add_ns)
{
    *add_ns = l->add_ns;
    return l->clocked;
}

bool node_channel_address(const struct node_channel *l, bool other, char out[BYTE_STREAM_ADDRESS])
{
    return l->stream && byte_stream_address(l->stream, other, out);
}
