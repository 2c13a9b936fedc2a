/* SPDX-License-Identifier: Apache-2.0 */
/* tls_listener.c - see tls_listener.h */
#include "agent/wire/tls_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/wire/frame.h"
#include "agent/wire/leader_wire.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum { STRANGERS = 128, BACKLOG = 256 };

/* A connection that its owner has not taken yet. */
struct stranger {
    struct tls_listener *listener;
    struct byte_stream  *stream; /* NULL: free */
    struct frame_reader *reader; /* NULL: it has not proven yet that it knows a key */
    uint64_t             since_ms;
};

struct tls_listener {
    uv_loop_t                *loop;
    struct tls_listener_hooks hooks;
    uv_tcp_t                  listener;
    bool                      closing;
    int                       port;
    char                      key_text[2 * TLS_PSK_KEY + 1]; /* "": the hook knows the keys */
    struct stranger           strangers[STRANGERS];
};

static void send_away(struct stranger *v)
{
    byte_stream_close(v->stream);
    frame_reader_destroy(v->reader);
    v->stream = NULL;
    v->reader = NULL;
}

static void on_ended(void *arg, const char *text)
{
    struct stranger *v = arg;
    char address[BYTE_STREAM_ADDRESS];
    const char *name = byte_stream_key_name(v->stream);
    log_warn(NULL, "refused a connection from %s%s%s: %s",
             byte_stream_address(v->stream, true, address) ? address : "an unknown address",
             name[0] ? " with key name " : "", name, text);
    send_away(v);
}

/* Sends the reason as REFUSED, and closes. */
static void refuse(struct stranger *v, const char *text)
{
    size_t size;
    void *frame = frame_pack(NODE_REFUSED, NULL, json_make("{s:s}", "text", text), &size, NULL);
    if (frame)
        byte_stream_write(v->stream, frame, size);
    free(frame);
    on_ended(v, text);
}

static void on_data(void *arg, const char *bytes, size_t size)
{
    struct stranger *v = arg;
    const struct tls_listener_hooks *hooks = &v->listener->hooks;
    const struct wire_row *row;
    const char *text;
    json_t *body;
    struct err err = {0};
    int used = frame_read(v->reader, bytes, size, &row, &body, &err);
    if (used < 0) {
        on_ended(v, err.text);
    } else if (body && (row->number != NODE_CONNECT || (size_t)used != size)) {
        on_ended(v, "the peer disconnected before the answer to CONNECT");
    } else if (body && (text = hooks->called(hooks->arg, v->stream, v->reader, body))) {
        refuse(v, text);
    } else if (body) {
        v->stream = NULL;
        v->reader = NULL;
    }
    json_decref(body);
}

static void on_ready(void *arg)
{
    struct stranger *v = arg;
    const struct tls_listener_hooks *hooks = &v->listener->hooks;
    struct byte_stream *s = v->stream;
    struct err err = {0};
    if (!hooks->called) {
        v->stream = NULL;
        hooks->came(hooks->arg, s);
    } else if (frame_reader_create(&v->reader, TO_LEADER, &err) < 0) {
        on_ended(v, err.text);
    } else {
        byte_stream_limit(s, "the peer sent no CONNECT in time");
    }
}

static bool own_key(void *arg, const char *name, unsigned char key[TLS_PSK_KEY])
{
    const struct tls_listener *d = arg;
    return strcmp(name, TLS_LISTENER_NAME) == 0 && tls_psk_key_parse(key, d->key_text) == 0;
}

static struct stranger *free_place(struct tls_listener *d)
{
    struct stranger *v = &d->strangers[0];
    for (int i = 0; i < STRANGERS; i++) {
        if (!d->strangers[i].stream)
            return &d->strangers[i];
        if (d->strangers[i].since_ms < v->since_ms)
            v = &d->strangers[i];
    }
    send_away(v); /* the oldest, to make room */
    return v;
}

static void on_visit(uv_stream_t *listener, int status)
{
    struct tls_listener *d = listener->data;
    struct err err = {0};
    const bool drawn = d->key_text[0];
    if (status < 0 || d->closing)
        return;
    struct stranger *v = free_place(d);
    const struct byte_stream_hooks hooks = {
        .ready = on_ready, .data = on_data, .ended = on_ended, .arg = v};
    v->listener = d;
    v->since_ms = uv_now(d->loop);
    struct tls_psk *tls = drawn ? tls_psk_server(own_key, d) : tls_psk_server(d->hooks.key, d->hooks.arg);
    if (byte_stream_accept(&v->stream, listener, tls, &hooks, &err) < 0) {
        v->stream = NULL;
        log_warn(NULL, "cannot accept a connection: %s", err.text);
    }
}

/* --- addresses ------------------------------------------------------------------------------- */

static bool is_public(const uv_interface_address_t *a)
{
    if (a->is_internal)
        return false;
    return a->address.address4.sin_family == AF_INET ||
           (a->address.address4.sin_family == AF_INET6 &&
            !IN6_IS_ADDR_LINKLOCAL(&a->address.address6.sin6_addr));
}

json_t *tls_listener_addresses(void)
{
    uv_interface_address_t *all = NULL;
    int n = 0;
    json_t *list = json_array();
    if (uv_interface_addresses(&all, &n) < 0)
        n = 0;
    for (int six = 0; six < 2; six++)
        for (int i = 0; i < n && json_array_size(list) < TLS_LISTENER_ADDRESSES - 1; i++) {
            char text[BYTE_STREAM_ADDRESS];
            if (is_public(&all[i]) &&
                (all[i].address.address4.sin_family == AF_INET6) == (six == 1) &&
                byte_stream_ip((const struct sockaddr *)&all[i].address, text) == 0)
                json_array_append_new(list, json_text(text));
        }
    if (all)
        uv_free_interface_addresses(all, n);
    json_array_append_new(list, json_text("127.0.0.1"));
    return list;
}

/* Adds an address, or those of an interface; false: neither exists. */
static bool add_named(json_t *list, const char *name, const uv_interface_address_t *all, int n)
{
    struct sockaddr_storage a;
    char text[BYTE_STREAM_ADDRESS];
    bool found = uv_ip4_addr(name, 0, (struct sockaddr_in *)&a) == 0 ||
                 uv_ip6_addr(name, 0, (struct sockaddr_in6 *)&a) == 0;
    if (found)
        json_array_append_new(list, json_text(name));
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0 &&
            byte_stream_ip((const struct sockaddr *)&all[i].address, text) == 0) {
            json_array_append_new(list, json_text(text));
            found = true;
        }
    return found;
}

json_t *tls_listener_addresses_of(const char *names, struct err *err)
{
    uv_interface_address_t *all = NULL;
    int n = 0;
    json_t *list = json_array();
    if (uv_interface_addresses(&all, &n) < 0)
        n = 0;
    for (const char *at = names; list && *at;) {
        char name[64];
        const size_t size = strcspn(at, ",");
        snprintf(name, sizeof(name), "%.*s", (int)(size < sizeof(name) ? size : 0), at);
        if (!add_named(list, name, all, n)) {
            err_set(err, ERR_USAGE, "\"%s\" is neither an interface of this machine nor an address", name);
            json_decref(list);
            list = NULL;
        }
        at += size + (at[size] == ',');
    }
    if (all)
        uv_free_interface_addresses(all, n);
    return list;
}

int tls_listener_port(const struct tls_listener *d)
{
    return d->port;
}

json_t *tls_listener_endpoint(const struct tls_listener *d)
{
    return json_make("{s:o, s:i, s:s}", "addresses", tls_listener_addresses(), "port", d->port, "key", d->key_text);
}

int tls_listener_endpoint_read(struct tls_listener_endpoint *out, const json_t *said, struct err *err)
{
    size_t i;
    const json_t *entry;
    const json_int_t port = json_integer_value(json_object_get(said, "port"));
    const char *key = json_string_value(json_object_get(said, "key"));
    *out = (struct tls_listener_endpoint){.port = port > 0 && port <= UINT16_MAX ? (int)port : 0};
    json_array_foreach(json_object_get(said, "addresses"), i, entry)
    {
        const char *text = json_string_value(entry);
        struct sockaddr_storage *a = &out->address[out->addresses];
        if (text && out->addresses < TLS_LISTENER_ADDRESSES &&
            (uv_ip4_addr(text, out->port, (struct sockaddr_in *)a) == 0 ||
             uv_ip6_addr(text, out->port, (struct sockaddr_in6 *)a) == 0))
            out->addresses++;
    }
    if (out->addresses == 0 || out->port == 0 || tls_psk_key_parse(out->key, key) < 0)
        return err_set(err, ERR_DATA, "an endpoint needs addresses, a port and a key");
    return 0;
}

const struct sockaddr *tls_listener_endpoint_address(const struct tls_listener_endpoint *w, int i)
{
    return (const struct sockaddr *)&w->address[i];
}

const char *tls_listener_endpoint_text(const struct tls_listener_endpoint *w, int i, char out[BYTE_STREAM_ADDRESS])
{
    if (byte_stream_ip(tls_listener_endpoint_address(w, i), out) < 0)
        out[0] = 0;
    return out;
}

/* --- creation and release -------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct tls_listener *d = handle->data;
    explicit_bzero(d->key_text, sizeof(d->key_text));
    free(d);
}

void tls_listener_close(struct tls_listener *d)
{
    if (!d || d->closing)
        return;
    d->closing = true;
    for (int i = 0; i < STRANGERS; i++)
        send_away(&d->strangers[i]);
    uv_close((uv_handle_t *)&d->listener, on_closed);
}

/* IPv6 may be compiled out or disabled. */
static bool has_ipv6(const struct sockaddr_in6 *any)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)any, sizeof(*any)) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

/* An IPv6 socket also accepts IPv4 connections. */
static int listen_anywhere(struct tls_listener *d)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;
    struct sockaddr_storage got;
    int size = sizeof(got);
    uv_ip6_addr("::", 0, &six);
    uv_ip4_addr("0.0.0.0", 0, &four);
    const struct sockaddr *any = has_ipv6(&six) ? (const struct sockaddr *)&six : (const struct sockaddr *)&four;
    int rc = uv_tcp_bind(&d->listener, any, 0);
    if (rc < 0 || (rc = uv_listen((uv_stream_t *)&d->listener, BACKLOG, on_visit)) < 0 ||
        (rc = uv_tcp_getsockname(&d->listener, (struct sockaddr *)&got, &size)) < 0)
        return rc;
    d->port = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                                              : ((struct sockaddr_in *)&got)->sin_port);
    return 0;
}

int tls_listener_open(struct tls_listener **out, uv_loop_t *loop,
                      const struct tls_listener_hooks *hooks, struct err *err)
{
    struct tls_listener *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "no memory for a listener");
    d->loop = loop;
    d->hooks = *hooks;
    uv_tcp_init(loop, &d->listener);
    d->listener.data = d;
    int rc = !hooks->key && tls_psk_key_draw(d->key_text) < 0 ? UV_EIO : listen_anywhere(d);
    if (rc < 0) {
        tls_listener_close(d);
        return err_set(err, ERR_SYSTEM, "cannot listen for agents: %s", uv_strerror(rc));
    }
    *out = d;
    return 0;
}
