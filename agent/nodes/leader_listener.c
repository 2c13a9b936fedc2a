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

enum { VISITORS = 64, PATIENCE_MS = SECURE_SHAKE_MS };

/* Somebody who knows the key and has not yet said who it is. */
struct visitor {
    struct crew_door    *door;
    struct secure       *stream; /* NULL: nobody */
    struct frame_reader *reader;
    uint64_t             since_ms;
};

struct crew_door {
    uv_loop_t     *loop;
    crew_door_fn   called;
    void          *arg;
    struct door   *door;
    uv_timer_t     patience;
    bool           closing;
    char           key_text[2 * SECURE_KEY + 1];
    unsigned char  key[SECURE_KEY];
    struct visitor visitors[VISITORS];
};

static bool find_key(void *arg, const char *name, unsigned char key[SECURE_KEY])
{
    const struct crew_door *d = arg;
    if (strcmp(name, CREW_DOOR_NAME) != 0)
        return false;
    memcpy(key, d->key, SECURE_KEY);
    return true;
}

static void send_away(struct visitor *v)
{
    secure_close(v->stream);
    frame_reader_destroy(v->reader);
    v->stream = NULL;
    v->reader = NULL;
}

/* Why, in its own language; then it is sent away. */
static void refuse(struct visitor *v, const char *text)
{
    char address[SECURE_ADDRESS];
    size_t size;
    json_t *body = json_pack("{s:s}", "text", text);
    void *frame = body ? frame_make(CREW_REFUSED, body, &size, NULL) : NULL;
    log_warn(NULL, "refused an agent at %s: %s",
             secure_address(v->stream, true, address) ? address : "an unknown address", text);
    if (frame)
        secure_write(v->stream, frame, size);
    free(frame);
    json_decref(body);
    send_away(v);
}

static void on_ended(void *arg, const char *text)
{
    struct visitor *v = arg;
    char address[SECURE_ADDRESS];
    log_warn(NULL, "somebody at %s was not let in: %s",
             secure_address(v->stream, true, address) ? address : "an unknown address", text);
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
    if (used < 0 || row->number != CREW_CALL || (size_t)used != size) {
        on_ended(v, used < 0 ? err.text : "it did not wait to be let in");
    } else {
        const char *text = v->door->called(v->door->arg, v->stream, v->reader, body);
        if (text) {
            refuse(v, text);
        } else {
            v->stream = NULL;
            v->reader = NULL;
        }
    }
    json_decref(body);
}

/* It speaks first. */
static void on_came(void *arg, struct secure *s)
{
    struct crew_door *d = arg;
    struct visitor *v = NULL;
    struct err err = {0};
    for (int i = 0; i < VISITORS && !v; i++)
        if (!d->visitors[i].stream)
            v = &d->visitors[i];
    if (!v || frame_reader_create(&v->reader, TO_HEAD, &err) < 0) {
        log_warn(NULL, "%s", v ? err.text : "too many agents call at once");
        secure_close(s);
        return;
    }
    v->door = d;
    v->stream = s;
    v->since_ms = uv_now(d->loop);
    secure_set_hooks(s, &(struct secure_hooks){.data = on_data, .ended = on_ended, .arg = v});
}

static void on_patience(uv_timer_t *timer)
{
    struct crew_door *d = timer->data;
    for (int i = 0; i < VISITORS; i++)
        if (d->visitors[i].stream && uv_now(d->loop) - d->visitors[i].since_ms > PATIENCE_MS)
            on_ended(&d->visitors[i], "it did not say who it is");
}

json_t *crew_door_say(const struct crew_door *d)
{
    return json_pack("{s:o, s:i, s:s}", "addresses", door_addresses(), "port", door_port(d->door),
                     "key", d->key_text);
}

/* --- life ------------------------------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void crew_door_close(struct crew_door *d)
{
    if (!d || d->closing)
        return;
    d->closing = true;
    door_close(d->door);
    for (int i = 0; i < VISITORS; i++)
        send_away(&d->visitors[i]);
    uv_close((uv_handle_t *)&d->patience, on_closed);
}

int crew_door_open(struct crew_door **out, uv_loop_t *loop, crew_door_fn called, void *arg,
                   struct err *err)
{
    struct crew_door *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "no memory for a door");
    *d = (struct crew_door){.loop = loop, .called = called, .arg = arg};
    uv_timer_init(loop, &d->patience);
    d->patience.data = d;
    const struct door_hooks hooks = {.key = find_key, .came = on_came, .arg = d};
    int rc = secure_key_draw(d->key_text) < 0 || secure_key_parse(d->key, d->key_text) < 0
                 ? err_set(err, ERR_SYSTEM, "no random numbers for a key")
                 : door_open(&d->door, loop, &hooks, err);
    if (rc < 0) {
        crew_door_close(d);
        return -1;
    }
    uv_timer_start(&d->patience, on_patience, 1000, 1000);
    *out = d;
    return 0;
}
