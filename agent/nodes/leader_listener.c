/* SPDX-License-Identifier: Apache-2.0 */
/* leader_listener.c - see leader_listener.h */
#include "agent/nodes/leader_listener.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log.h"
#include "agent/wire/frame.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/tls_listener.h"
#include "agent/wire/tls_psk.h"
#include "engine/contract/err.h"

enum { VISITORS = 64, PATIENCE_MS = TLS_PSK_SHAKE_MS };

/* A peer that knows the key but has not sent CONNECT. */
struct visitor {
    struct leader_listener *listener;
    struct tls_psk *stream; /* NULL: free slot */
    struct frame_reader    *reader;
    uint64_t                since_ms;
};

struct leader_listener {
    uv_loop_t           *loop;
    leader_listener_fn   called;
    void                *arg;
    struct tls_listener *tls;
    uv_timer_t           wait_timer;
    bool                 closing;
    char                 key_text[2 * TLS_PSK_KEY + 1];
    unsigned char        key[TLS_PSK_KEY];
    struct visitor       visitors[VISITORS];
};

static bool find_key(void *arg, const char *name, unsigned char key[TLS_PSK_KEY])
{
    const struct leader_listener *d = arg;
    if (strcmp(name, LEADER_LISTENER_NAME) != 0)
        return false;
    memcpy(key, d->key, TLS_PSK_KEY);
    return true;
}

static void send_away(struct visitor *v)
{
    tls_psk_close(v->stream);
    frame_reader_destroy(v->reader);
    v->stream = NULL;
    v->reader = NULL;
}

/* Sends the reason as REFUSED, and closes. */
static void refuse(struct visitor *v, const char *text)
{
    char address[TLS_PSK_ADDRESS];
    size_t size;
    json_t *body = json_pack("{s:s}", "text", text);
    void *frame = body ? frame_make(NODE_REFUSED, body, &size, NULL) : NULL;
    log_warn(NULL, "refused an agent at %s: %s",
             tls_psk_address(v->stream, true, address) ? address : "an unknown address", text);
    if (frame)
        tls_psk_write(v->stream, frame, size);
    free(frame);
    json_decref(body);
    send_away(v);
}

static void on_ended(void *arg, const char *text)
{
    struct visitor *v = arg;
    char address[TLS_PSK_ADDRESS];
    log_warn(NULL, "refused a connection from %s: %s",
             tls_psk_address(v->stream, true, address) ? address : "an unknown address", text);
    send_away(v);
}

static void on_data(void *arg, const char *bytes, size_t size)
{
    struct visitor *v = arg;
    const struct wire_row *row;
    json_t *body;
    struct err err = {0};
    int used = frame_read(v->reader, bytes, size, &row, &body, &err);
    if (used >= 0 && !body)
        return;
    if (used < 0 || row->number != NODE_CONNECT || (size_t)used != size) {
        on_ended(v, used < 0 ? err.text : "it did not wait for the answer to CONNECT");
    } else {
        const char *text = v->listener->called(v->listener->arg, v->stream, v->reader, body);
        if (text) {
            refuse(v, text);
        } else {
            v->stream = NULL;
            v->reader = NULL;
        }
    }
    json_decref(body);
}

/* The follower sends first. */
static void on_came(void *arg, struct tls_psk *s)
{
    struct leader_listener *d = arg;
    struct visitor *v = NULL;
    struct err err = {0};
    for (int i = 0; i < VISITORS && !v; i++)
        if (!d->visitors[i].stream)
            v = &d->visitors[i];
    if (!v || frame_reader_create(&v->reader, TO_LEADER, &err) < 0) {
        log_warn(NULL, "%s", v ? err.text : "too many agents connect at once");
        tls_psk_close(s);
        return;
    }
    v->listener = d;
    v->stream = s;
    v->since_ms = uv_now(d->loop);
    tls_psk_set_hooks(s, &(struct tls_psk_hooks){.data = on_data, .ended = on_ended, .arg = v});
}

static void on_patience(uv_timer_t *timer)
{
    struct leader_listener *d = timer->data;
    for (int i = 0; i < VISITORS; i++)
        if (d->visitors[i].stream && uv_now(d->loop) - d->visitors[i].since_ms > PATIENCE_MS)
            on_ended(&d->visitors[i], "it sent no CONNECT in time");
}

json_t *leader_listener_say(const struct leader_listener *d)
{
    return json_pack("{s:o, s:i, s:s}", "addresses", tls_listener_addresses(), "port",
                     tls_listener_port(d->tls),
                     "key", d->key_text);
}

/* --- creation and release ---------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void leader_listener_close(struct leader_listener *d)
{
    if (!d || d->closing)
        return;
    d->closing = true;
    tls_listener_close(d->tls);
    for (int i = 0; i < VISITORS; i++)
        send_away(&d->visitors[i]);
    uv_close((uv_handle_t *)&d->wait_timer, on_closed);
}

int leader_listener_open(struct leader_listener **out, uv_loop_t *loop, leader_listener_fn called,
                         void *arg,
                         struct err *err)
{
    struct leader_listener *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "no memory for a listener");
    *d = (struct leader_listener){.loop = loop, .called = called, .arg = arg};
    uv_timer_init(loop, &d->wait_timer);
    d->wait_timer.data = d;
    const struct tls_listener_hooks hooks = {.key = find_key, .came = on_came, .arg = d};
    int rc = tls_psk_key_draw(d->key_text) < 0 || tls_psk_key_parse(d->key, d->key_text) < 0
                 ? err_set(err, ERR_SYSTEM, "no random numbers for a key")
                 : tls_listener_open(&d->tls, loop, &hooks, err);
    if (rc < 0) {
        leader_listener_close(d);
        return -1;
    }
    uv_timer_start(&d->wait_timer, on_patience, 1000, 1000);
    *out = d;
    return 0;
}
