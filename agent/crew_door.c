/* SPDX-License-Identifier: Apache-2.0 */
/* crew_door.c - see crew_door.h */
#include "agent/crew_door.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/crew_wire.h"
#include "agent/frame.h"
#include "agent/log.h"
#include "agent/secure.h"
#include "engine/err.h"

enum { VISITORS = 64, BACKLOG = 256, PATIENCE_MS = 2 * SECURE_SHAKE_MS, ADDRESSES = 32 };

/* Somebody who has not yet said who it is. */
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
    uv_tcp_t       listener;
    uv_timer_t     patience;
    int            handles;
    bool           closing;
    char           key_text[2 * SECURE_KEY + 1];
    unsigned char  key[SECURE_KEY];
    int            port;
    struct visitor visitors[VISITORS];
};

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

static void on_ready(void *arg)
{
    (void)arg; /* it speaks first */
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

static void on_visit(uv_stream_t *listener, int status)
{
    struct crew_door *d = listener->data;
    struct visitor *v = NULL;
    struct err err = {0};
    for (int i = 0; i < VISITORS && !v; i++)
        if (!d->visitors[i].stream)
            v = &d->visitors[i];
    if (status < 0 || d->closing)
        return;
    if (!v) { /* the oldest stranger has had its chance */
        v = &d->visitors[0];
        for (int i = 1; i < VISITORS; i++)
            if (d->visitors[i].since_ms < v->since_ms)
                v = &d->visitors[i];
        send_away(v);
    }
    const struct secure_hooks hooks = {
        .ready = on_ready, .data = on_data, .ended = on_ended, .arg = v};
    v->door = d;
    v->since_ms = uv_now(d->loop);
    if (frame_reader_create(&v->reader, TO_HEAD, &err) < 0 ||
        secure_accept(&v->stream, listener, d->key, &hooks, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        send_away(v);
    }
}

static void on_patience(uv_timer_t *timer)
{
    struct crew_door *d = timer->data;
    for (int i = 0; i < VISITORS; i++)
        if (d->visitors[i].stream && uv_now(d->loop) - d->visitors[i].since_ms > PATIENCE_MS)
            on_ended(&d->visitors[i], "it did not say who it is");
}

/* --- where it is ----------------------------------------------------------------------------- */

static bool is_public(const uv_interface_address_t *a)
{
    if (a->is_internal)
        return false;
    return a->address.address4.sin_family == AF_INET ||
           (a->address.address4.sin_family == AF_INET6 &&
            !IN6_IS_ADDR_LINKLOCAL(&a->address.address6.sin6_addr));
}

/* IPv4 first; the loopback address last, for members on this very machine. */
static json_t *addresses(void)
{
    uv_interface_address_t *all = NULL;
    int n = 0;
    json_t *list = json_array();
    if (uv_interface_addresses(&all, &n) < 0)
        n = 0;
    for (int six = 0; six < 2; six++)
        for (int i = 0; i < n && json_array_size(list) < ADDRESSES - 1; i++) {
            char text[SECURE_ADDRESS];
            if (is_public(&all[i]) &&
                (all[i].address.address4.sin_family == AF_INET6) == (six == 1) &&
                uv_ip_name((const struct sockaddr *)&all[i].address, text, sizeof(text)) == 0)
                json_array_append_new(list, json_string(text));
        }
    if (all)
        uv_free_interface_addresses(all, n);
    json_array_append_new(list, json_string("127.0.0.1"));
    return list;
}

json_t *crew_door_say(const struct crew_door *d)
{
    return json_pack("{s:o, s:i, s:s}", "addresses", addresses(), "port", d->port, "key",
                     d->key_text);
}

/* --- life ------------------------------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle)
{
    struct crew_door *d = handle->data;
    if (--d->handles == 0)
        free(d);
}

void crew_door_close(struct crew_door *d)
{
    if (!d || d->closing)
        return;
    d->closing = true;
    for (int i = 0; i < VISITORS; i++)
        send_away(&d->visitors[i]);
    uv_close((uv_handle_t *)&d->listener, on_closed);
    uv_close((uv_handle_t *)&d->patience, on_closed);
}

/* Kernels are built or told to do without. */
static bool has_ipv6(const struct sockaddr_in6 *any)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)any, sizeof(*any)) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

/* A socket of IPv6 takes calls over IPv4, too. */
static int listen_anywhere(struct crew_door *d)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;
    struct sockaddr_storage got;
    int size = sizeof(got);
    uv_ip6_addr("::", 0, &six);
    uv_ip4_addr("0.0.0.0", 0, &four);
    const struct sockaddr *any =
        has_ipv6(&six) ? (const struct sockaddr *)&six : (const struct sockaddr *)&four;
    int rc = uv_tcp_bind(&d->listener, any, 0);
    if (rc < 0 || (rc = uv_listen((uv_stream_t *)&d->listener, BACKLOG, on_visit)) < 0 ||
        (rc = uv_tcp_getsockname(&d->listener, (struct sockaddr *)&got, &size)) < 0)
        return rc;
    d->port = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                                              : ((struct sockaddr_in *)&got)->sin_port);
    return 0;
}

int crew_door_open(struct crew_door **out, uv_loop_t *loop, crew_door_fn called, void *arg,
                   struct err *err)
{
    struct crew_door *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "no memory for a door");
    *d = (struct crew_door){.loop = loop, .called = called, .arg = arg, .handles = 2};
    uv_tcp_init(loop, &d->listener);
    uv_timer_init(loop, &d->patience);
    d->listener.data = d->patience.data = d;
    int rc = listen_anywhere(d);
    if (rc < 0 || secure_key_draw(d->key_text) < 0 || secure_key_parse(d->key, d->key_text) < 0) {
        crew_door_close(d);
        return err_set(err, ERR_SYSTEM, "cannot listen for the agents of other nodes: %s",
                       rc < 0 ? uv_strerror(rc) : "no random numbers");
    }
    uv_timer_start(&d->patience, on_patience, 1000, 1000);
    *out = d;
    return 0;
}
