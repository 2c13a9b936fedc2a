/* SPDX-License-Identifier: Apache-2.0 */
/* byte_stream.c - see byte_stream.h */
#include "agent/wire/byte_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/unix_socket.h"
#include "engine/base/err.h"

struct byte_stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t    tcp;
        uv_pipe_t   pipe;
    } uv;
    uv_timer_t               limit;
    const char              *late; /* the text for `limit` */
    uv_connect_t             connect;
    uv_shutdown_t            shutdown;
    struct byte_stream_hooks hooks;
    struct tls_psk          *tls; /* or NULL */
    int                      handles;
    bool                     ready, ended, closing;
    char                     bytes[65536];
};

/* --- closing -------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct byte_stream *s = handle->data;
    if (--s->handles > 0)
        return;
    if (s->hooks.closed)
        s->hooks.closed(s->hooks.arg);
    tls_psk_free(s->tls);
    free(s);
}

void byte_stream_close(struct byte_stream *s)
{
    if (!s || uv_is_closing(&s->uv.handle))
        return;
    s->closing = true;
    uv_close(&s->uv.handle, on_closed);
    uv_close((uv_handle_t *)&s->limit, on_closed);
}

static void end(struct byte_stream *s, const char *text)
{
    if (s->ended || s->closing)
        return;
    s->ended = true;
    uv_timer_stop(&s->limit);
    uv_read_stop(&s->uv.stream);
    s->hooks.ended(s->hooks.arg, text);
}

static void on_finished(uv_shutdown_t *req, int status)
{
    (void)status;
    byte_stream_close(req->data);
}

static void on_limit(uv_timer_t *timer)
{
    struct byte_stream *s = timer->data;
    if (s->closing)
        byte_stream_close(s);
    else
        end(s, s->late);
}

void byte_stream_limit(struct byte_stream *s, const char *text)
{
    s->late = text;
    uv_timer_start(&s->limit, on_limit, BYTE_STREAM_LIMIT_MS, 0);
}

void byte_stream_set_hooks(struct byte_stream *s, const struct byte_stream_hooks *hooks)
{
    uv_timer_stop(&s->limit);
    s->hooks = *hooks;
}

/* --- data ----------------------------------------------------------------------------------- */

/* A write in progress. */
struct outgoing {
    uv_write_t req;
    void     (*sent)(void *arg, int status);
    void      *arg;
    char       bytes[];
};

static void on_written(uv_write_t *req, int status)
{
    struct outgoing *o = req->data;
    if (o->sent)
        o->sent(o->arg, status);
    free(o);
}

/* Copies and queues bytes for any stream of libuv. `sent`, which may be NULL, gets a status of libuv. */
static int put(uv_stream_t *to, const void *bytes, size_t size, void (*sent)(void *arg, int status), void *arg)
{
    struct outgoing *o = malloc(sizeof(*o) + size);
    if (!o)
        return -1;
    *o = (struct outgoing){.req.data = o, .sent = sent, .arg = arg};
    memcpy(o->bytes, bytes, size);
    uv_buf_t buf = uv_buf_init(o->bytes, (unsigned)size);
    if (uv_write(&o->req, to, &buf, 1, on_written) == 0)
        return 0;
    free(o);
    return -1;
}

static void on_sent(void *arg, int status)
{
    struct byte_stream *s = arg;
    if (status < 0)
        end(s, uv_strerror(status));
    else if (s->hooks.sent && !s->ended && !s->closing)
        s->hooks.sent(s->hooks.arg);
}

/* Sends what TLS has written. */
static int flush(struct byte_stream *s)
{
    char bytes[32768];
    for (size_t n; (n = tls_psk_output(s->tls, bytes, sizeof(bytes))) > 0;)
        if (put(&s->uv.stream, bytes, n, on_sent, s) < 0)
            return -1;
    return 0;
}

int byte_stream_write(struct byte_stream *s, const void *bytes, size_t size)
{
    if (!s->ready || s->ended || s->closing)
        return -1;
    if (!s->tls)
        return put(&s->uv.stream, bytes, size, on_sent, s);
    return tls_psk_write(s->tls, bytes, size) < 0 ? -1 : flush(s);
}

size_t byte_stream_queued(const struct byte_stream *s)
{
    return uv_stream_get_write_queue_size(&s->uv.stream);
}

void byte_stream_finish(struct byte_stream *s, int limit_ms)
{
    if (!s || s->closing)
        return;
    s->closing = true;
    s->shutdown.data = s;
    uv_read_stop(&s->uv.stream);
    uv_timer_stop(&s->limit);
    if (limit_ms > 0)
        uv_timer_start(&s->limit, on_limit, (uint64_t)limit_ms, 0);
    if (!s->ready || s->ended || (s->tls && (tls_psk_shutdown(s->tls) < 0 || flush(s) < 0)) ||
        uv_shutdown(&s->shutdown, &s->uv.stream, on_finished) < 0)
        byte_stream_close(s);
}

static void shake_hands(struct byte_stream *s)
{
    const char *why;
    int rc = tls_psk_handshake(s->tls, &why);
    if (flush(s) < 0 || rc < 0) {
        end(s, rc < 0 ? why : "sending failed");
    } else if (rc > 0) {
        s->ready = true;
        uv_timer_stop(&s->limit);
        s->hooks.ready(s->hooks.arg);
    }
}

static void take_secret(struct byte_stream *s, const char *bytes, size_t size)
{
    char plain[16384];
    const char *why;
    int n = 0;
    if (tls_psk_input(s->tls, bytes, size) < 0)
        end(s, "no memory for received data");
    if (!s->ready && !s->ended)
        shake_hands(s);
    while (s->ready && !s->ended && !s->closing &&
           (n = tls_psk_read(s->tls, plain, sizeof(plain), &why)) > 0)
        s->hooks.data(s->hooks.arg, plain, (size_t)n);
    if (n < 0)
        end(s, why);
    else if (!s->ended && !s->closing && flush(s) < 0)
        end(s, "sending failed");
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct byte_stream *s = handle->data;
    (void)suggested;
    *buf = uv_buf_init(s->bytes, sizeof(s->bytes));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct byte_stream *s = stream->data;
    if (n < 0)
        end(s, n == UV_EOF ? "the peer closed the connection" : uv_strerror((int)n));
    else if (n > 0 && s->tls)
        take_secret(s, buf->base, (size_t)n);
    else if (n > 0)
        s->hooks.data(s->hooks.arg, buf->base, (size_t)n);
}

/* --- creation ------------------------------------------------------------------------------- */

/* NULL: no memory. */
static struct byte_stream *make(uv_loop_t *loop, bool tcp, struct tls_psk *tls, const struct byte_stream_hooks *hooks)
{
    struct byte_stream *s = tcp && !tls ? NULL : calloc(1, sizeof(*s));
    if (!s) {
        tls_psk_free(tls);
        return NULL;
    }
    s->hooks = *hooks;
    s->tls = tls;
    s->ready = !tls;
    s->handles = 2;
    tcp ? uv_tcp_init(loop, &s->uv.tcp) : uv_pipe_init(loop, &s->uv.pipe, 0);
    uv_timer_init(loop, &s->limit);
    s->uv.handle.data = s->limit.data = s->connect.data = s;
    if (tls)
        byte_stream_limit(s, "the handshake timed out");
    return s;
}

/* rc: of libuv; below 0 `s`, if any, is closed without its hook. */
static int made(struct byte_stream **out, struct byte_stream *s, int rc, struct err *err)
{
    if (rc == 0) {
        *out = s;
        return 0;
    }
    if (s)
        s->hooks.closed = NULL;
    byte_stream_close(s);
    return err_set(err, ERR_SYSTEM, "%s", uv_strerror(rc));
}

/* The kernel checks whether the peer is alive, and limits how long data stays unacknowledged. */
static void mind_the_network(struct byte_stream *s)
{
    const int idle_s = BYTE_STREAM_DEAD_S / 3, between_s = BYTE_STREAM_DEAD_S / 5, times = 3, on = 1;
    const unsigned dead_ms = BYTE_STREAM_DEAD_S * 1000;
    uv_os_fd_t fd;
    if (uv_fileno(&s->uv.handle, &fd) < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
}

static void begin(struct byte_stream *s)
{
    if (s->tls)
        mind_the_network(s);
    uv_read_start(&s->uv.stream, on_alloc, on_read);
}

int byte_stream_open(struct byte_stream **out, uv_loop_t *loop, int fd,
                     const struct byte_stream_hooks *hooks, struct err *err)
{
    struct byte_stream *s = make(loop, false, NULL, hooks);
    int rc = s ? uv_pipe_open(&s->uv.pipe, fd) : UV_ENOMEM;
    if (rc < 0)
        close(fd);
    else
        begin(s);
    return made(out, s, rc, err);
}

int byte_stream_accept(struct byte_stream **out, uv_stream_t *listener, struct tls_psk *tls,
                       const struct byte_stream_hooks *hooks, struct err *err)
{
    struct byte_stream *s = make(listener->loop, listener->type == UV_TCP, tls, hooks);
    int rc = s ? uv_accept(listener, &s->uv.stream) : UV_ENOMEM;
    if (rc == 0)
        begin(s);
    return made(out, s, rc, err);
}

static void on_connected(uv_connect_t *req, int status)
{
    struct byte_stream *s = req->data;
    if (status < 0) {
        end(s, uv_strerror(status));
    } else if (!s->closing) {
        begin(s);
        shake_hands(s);
    }
}

int byte_stream_connect(struct byte_stream **out, uv_loop_t *loop, const struct sockaddr *to,
                        struct tls_psk *tls, const struct byte_stream_hooks *hooks, struct err *err)
{
    struct byte_stream *s = make(loop, true, tls, hooks);
    int rc = s ? uv_tcp_connect(&s->connect, &s->uv.tcp, to, on_connected) : UV_ENOMEM;
    return made(out, s, rc, err);
}

/* --- the peer ------------------------------------------------------------------------------- */

int byte_stream_check_peer(const struct byte_stream *s, struct err *err)
{
    uv_os_fd_t fd;
    if (uv_fileno(&s->uv.handle, &fd) < 0)
        return err_set(err, ERR_SYSTEM, "the connection is closed");
    return unix_socket_check_peer(fd, err);
}

const char *byte_stream_key_name(const struct byte_stream *s)
{
    return s->tls ? tls_psk_name(s->tls) : "";
}

int byte_stream_ip(const struct sockaddr *a, char out[BYTE_STREAM_ADDRESS])
{
    return a->sa_family == AF_INET6
               ? uv_ip6_name((const struct sockaddr_in6 *)(const void *)a, out, BYTE_STREAM_ADDRESS)
               : uv_ip4_name((const struct sockaddr_in *)(const void *)a, out, BYTE_STREAM_ADDRESS);
}

bool byte_stream_address(const struct byte_stream *s, bool other, char out[BYTE_STREAM_ADDRESS])
{
    struct sockaddr_storage a;
    int size = sizeof(a);
    struct sockaddr *as = (struct sockaddr *)&a;
    if ((other ? uv_tcp_getpeername(&s->uv.tcp, as, &size)
               : uv_tcp_getsockname(&s->uv.tcp, as, &size)) < 0 ||
        byte_stream_ip(as, out) < 0)
        return false;
    if (strncmp(out, "::ffff:", 7) == 0 && strchr(out, '.')) /* IPv4 on an IPv6 socket */
        memmove(out, out + 7, strlen(out + 7) + 1);
    return true;
}
