/* SPDX-License-Identifier: Apache-2.0 */
/* leader_proxy.h - a connection between a follower and its leader that a test can cut, on the test's own loop
 * */
#ifndef TESTS_LEADER_PROXY_H
#define TESTS_LEADER_PROXY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <uv.h>

struct proxy {
    uv_loop_t *loop;
    uv_tcp_t listener;
    int to, port;  /* the head's, ours */
    bool cut;      /* nothing passes; connections stay */
    int spoil;     /* so many times one bit of what passes is turned over */
    const char *look_for; /* how often these bytes have passed, in one piece */
    int found;
    struct pipe *pipes;
    int n;         /* connections taken */
};

/* One connection: two sockets. */
struct pipe {
    struct pipe *next;
    struct proxy *proxy;
    uv_tcp_t side[2];
    uv_connect_t connect;
    bool closing;
    int open;
};

struct proxy_write {
    uv_write_t req;
    char bytes[];
};

static inline void pipe_closed(uv_handle_t *h)
{
    struct pipe *p = h->data;
    if (--p->open == 0)
        free(p);
}

static inline void pipe_close(struct pipe *p)
{
    if (p->closing)
        return;
    p->closing = true;
    struct pipe **at = &p->proxy->pipes;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    uv_close((uv_handle_t *)&p->side[0], pipe_closed);
    uv_close((uv_handle_t *)&p->side[1], pipe_closed);
}

static inline void proxy_wrote(uv_write_t *req, int status)
{
    (void)status;
    free(req->data);
}

static inline void proxy_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
    (void)h;
    *buf = uv_buf_init(malloc(size), (unsigned)size);
}

static inline void proxy_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct pipe *p = s->data;
    uv_tcp_t *other = s == (uv_stream_t *)&p->side[0] ? &p->side[1] : &p->side[0];
    if (n < 0) {
        pipe_close(p);
    } else if (n > 0 && !p->proxy->cut) {
        const char *word = p->proxy->look_for;
        p->proxy->found += word && memmem(buf->base, (size_t)n, word, strlen(word));
        if (p->proxy->spoil > 0) {
            p->proxy->spoil--;
            buf->base[n - 1] ^= 1;
        }
        struct proxy_write *w = malloc(sizeof(*w) + (size_t)n);
        memcpy(w->bytes, buf->base, (size_t)n);
        uv_buf_t b = uv_buf_init(w->bytes, (unsigned)n);
        w->req.data = w;
        if (uv_write(&w->req, (uv_stream_t *)other, &b, 1, proxy_wrote) < 0)
            free(w);
    }
    free(buf->base);
}

static inline void proxy_connected(uv_connect_t *req, int status)
{
    struct pipe *p = req->data;
    if (p->closing)
        return;
    if (status < 0) {
        pipe_close(p);
        return;
    }
    uv_read_start((uv_stream_t *)&p->side[0], proxy_alloc, proxy_read);
    uv_read_start((uv_stream_t *)&p->side[1], proxy_alloc, proxy_read);
}

static inline void proxy_taken(uv_stream_t *listener, int status)
{
    struct proxy *x = listener->data;
    struct pipe *p = calloc(1, sizeof(*p));
    struct sockaddr_in a;
    (void)status;
    p->proxy = x;
    p->open = 2;
    for (int i = 0; i < 2; i++) {
        uv_tcp_init(x->loop, &p->side[i]);
        p->side[i].data = p;
    }
    p->next = x->pipes;
    x->pipes = p;
    x->n++;
    p->connect.data = p;
    uv_ip4_addr("127.0.0.1", x->to, &a);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&p->side[0]), 0);
    assert_int_equal(uv_tcp_connect(&p->connect, &p->side[1], (const struct sockaddr *)&a, proxy_connected), 0);
}

/* Bytes that came while it was cut are lost: only a new connection helps. */
static inline void proxy_open(struct proxy *x, uv_loop_t *loop, int to)
{
    struct sockaddr_in a;
    int size = sizeof(a);
    *x = (struct proxy){.loop = loop, .to = to};
    uv_tcp_init(loop, &x->listener);
    x->listener.data = x;
    uv_ip4_addr("127.0.0.1", 0, &a);
    assert_int_equal(uv_tcp_bind(&x->listener, (const struct sockaddr *)&a, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&x->listener, 16, proxy_taken), 0);
    assert_int_equal(uv_tcp_getsockname(&x->listener, (struct sockaddr *)&a, &size), 0);
    x->port = (int)((a.sin_port & 0xFF) << 8 | a.sin_port >> 8);
}

static inline void proxy_break(struct proxy *x)
{
    while (x->pipes)
        pipe_close(x->pipes);
}

static inline void proxy_close(struct proxy *x)
{
    proxy_break(x);
    uv_close((uv_handle_t *)&x->listener, NULL);
}

/* The door as it looks from behind the proxy. */
static inline json_t *proxy_door(const struct proxy *x, const json_t *door)
{
    return json_pack("{s:[s], s:i, s:O}", "addresses", "127.0.0.1", "port", x->port, "key",
                     json_object_get(door, "key"));
}

#endif
