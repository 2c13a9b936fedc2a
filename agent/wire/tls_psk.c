/* SPDX-License-Identifier: Apache-2.0 */
/* tls_psk.c - see tls_psk.h; OpenSSL works on memory buffers, libuv does all network I/O */
#include "agent/wire/tls_psk.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "engine/contract/err.h"

#define CIPHERS  "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256" /* SHA-256: see below */

enum { FINISH_MS = 2000 };

struct tls_psk {
    struct tls_psk_hooks hooks;
    uv_tcp_t             tcp;
    uv_timer_t           wait_timer; /* limits the handshake ... */
    const char          *late;       /* ... with this sentence */
    uv_connect_t         connect;
    uv_shutdown_t        shutdown;
    SSL_CTX             *context;
    SSL                 *ssl;
    BIO                 *in, *out; /* owned by ssl */
    char                 name[TLS_PSK_NAME];
    unsigned char key[TLS_PSK_KEY]; /* of the client */
    tls_psk_key_fn find;            /* of the server */
    void                *find_arg;
    bool                 ready, ended, finishing, closing;
    int handles; /* open handles */
    char                 bytes[65536];
};

/* A write in progress. */
struct outgoing {
    uv_write_t      req;
    struct tls_psk *stream;
    char            bytes[];
};

/* --- keys ---------------------------------------------------------------------------------- */

int tls_psk_key_draw(char hex[2 * TLS_PSK_KEY + 1])
{
    unsigned char key[TLS_PSK_KEY];
    if (RAND_bytes(key, sizeof(key)) != 1)
        return -1;
    for (int i = 0; i < TLS_PSK_KEY; i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
    OPENSSL_cleanse(key, sizeof(key));
    return 0;
}

int tls_psk_key_parse(unsigned char key[TLS_PSK_KEY], const char *hex)
{
    if (!hex || strlen(hex) != 2 * TLS_PSK_KEY ||
        strspn(hex, "0123456789abcdef") != 2 * TLS_PSK_KEY)
        return -1;
    for (int i = 0; i < TLS_PSK_KEY; i++) {
        unsigned v;
        if (sscanf(hex + 2 * i, "%2x", &v) != 1)
            return -1;
        key[i] = (unsigned char)v;
    }
    return 0;
}

/* TLS 1.3 ties external keys given this way to SHA-256, hence the choice of ciphers. */
static unsigned say_key(SSL *ssl, const char *hint, char *identity, unsigned identity_size,
                        unsigned char *key, unsigned key_size)
{
    const struct tls_psk *s = SSL_get_app_data(ssl);
    (void)hint;
    if (identity_size < sizeof(s->name) || key_size < TLS_PSK_KEY)
        return 0;
    memcpy(identity, s->name, sizeof(s->name));
    memcpy(key, s->key, TLS_PSK_KEY);
    return TLS_PSK_KEY;
}

static unsigned find_key(SSL *ssl, const char *identity, unsigned char *key, unsigned key_size)
{
    struct tls_psk *s = SSL_get_app_data(ssl);
    if (!identity || strlen(identity) >= sizeof(s->name) || key_size < TLS_PSK_KEY)
        return 0;
    snprintf(s->name, sizeof(s->name), "%s", identity);
    err_make_printable(s->name);
    return s->find(s->find_arg, s->name, key) ? TLS_PSK_KEY : 0;
}

static int set_up(struct tls_psk *s, bool server, struct err *err)
{
    /* Ignores the machine's OpenSSL configuration. */
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    s->context = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    s->in = BIO_new(BIO_s_mem());
    s->out = BIO_new(BIO_s_mem());
    if (!s->context || !s->in || !s->out)
        goto failed;
    SSL_CTX_set_options(s->context, SSL_OP_NO_TICKET);
    SSL_CTX_set_verify(s->context, server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(s->context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(s->context, 0) != 1 ||
        SSL_CTX_set_ciphersuites(s->context, CIPHERS) != 1 ||
        !(s->ssl = SSL_new(s->context)))
        goto failed;
    SSL_set_app_data(s->ssl, s);
    SSL_set_bio(s->ssl, s->in, s->out);
    if (server) {
        SSL_set_psk_server_callback(s->ssl, find_key);
        SSL_set_accept_state(s->ssl);
    } else {
        SSL_set_psk_client_callback(s->ssl, say_key);
        SSL_set_connect_state(s->ssl);
    }
    return 0;
failed:
    if (!s->ssl) {
        BIO_free(s->in);
        BIO_free(s->out);
    }
    ERR_clear_error();
    return err_set(err, ERR_MEMORY, "no memory for an encrypted connection");
}

/* --- closing ------------------------------------------------------------------------------ */

static void tell_end(struct tls_psk *s, const char *text)
{
    if (s->finishing)
        tls_psk_close(s);
    if (s->ended || s->closing)
        return;
    s->ended = true;
    uv_timer_stop(&s->wait_timer);
    uv_read_stop((uv_stream_t *)&s->tcp);
    s->hooks.ended(s->hooks.arg, text);
}

static void release(struct tls_psk *s)
{
    SSL_free(s->ssl);
    SSL_CTX_free(s->context);
    OPENSSL_cleanse(s->key, sizeof(s->key));
    free(s);
}

static void on_closed(uv_handle_t *handle)
{
    struct tls_psk *s = handle->data;
    if (--s->handles == 0)
        release(s);
}

void tls_psk_close(struct tls_psk *s)
{
    if (!s || s->closing)
        return;
    s->closing = true;
    uv_close((uv_handle_t *)&s->tcp, on_closed);
    uv_close((uv_handle_t *)&s->wait_timer, on_closed);
}

/* --- data ---------------------------------------------------------------------------------- */

static void on_written(uv_write_t *req, int status)
{
    struct outgoing *o = req->data;
    struct tls_psk *s = o->stream;
    free(o);
    if (status < 0)
        tell_end(s, uv_strerror(status));
}

/* Sends what TLS has written to its output buffer. */
static int flush(struct tls_psk *s)
{
    for (size_t n; (n = BIO_ctrl_pending(s->out)) > 0;) {
        struct outgoing *o = malloc(sizeof(*o) + n);
        if (!o)
            return -1;
        int got = BIO_read(s->out, o->bytes, (int)n);
        uv_buf_t buf = uv_buf_init(o->bytes, got > 0 ? (unsigned)got : 0);
        o->stream = s;
        o->req.data = o;
        if (got <= 0 || uv_write(&o->req, (uv_stream_t *)&s->tcp, &buf, 1, on_written) < 0) {
            free(o);
            return -1;
        }
    }
    return 0;
}

/* The sentence for a failed handshake. */
static const char *refusal(void)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    if (reason == SSL_R_BINDER_DOES_NOT_VERIFY || reason == SSL_R_NO_SHARED_CIPHER ||
        reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR || reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
        reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE ||
        reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return "the peer does not know the key of this attempt";
    return "the peer does not speak the agent protocol";
}

static void shake_hands(struct tls_psk *s)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(s->ssl);
    int why = SSL_get_error(s->ssl, rc);
    const char *text = rc == 1 ? NULL : refusal();
    ERR_clear_error();
    if (flush(s) < 0) {
        tell_end(s, "sending failed");
    } else if (rc == 1 && SSL_session_reused(s->ssl)) { /* by the key, not by a certificate */
        s->ready = true;
        uv_timer_stop(&s->wait_timer);
        s->hooks.ready(s->hooks.arg);
    } else if (rc == 1 || (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)) {
        tell_end(s, text ? text : "the peer does not know the key of this attempt");
    }
}

static void read_plain(struct tls_psk *s)
{
    char plain[16384];
    while (!s->closing && !s->ended) {
        ERR_clear_error();
        int n = SSL_read(s->ssl, plain, sizeof(plain));
        if (n > 0) {
            s->hooks.data(s->hooks.arg, plain, (size_t)n);
            continue;
        }
        int why = SSL_get_error(s->ssl, n);
        ERR_clear_error();
        if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
            return;
        tell_end(s, why == SSL_ERROR_ZERO_RETURN ? "the peer closed the connection"
                                                 : "the connection was tampered with");
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct tls_psk *s = handle->data;
    (void)suggested;
    *buf = uv_buf_init(s->bytes, sizeof(s->bytes));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct tls_psk *s = stream->data;
    if (n == 0)
        return;
    if (n < 0) {
        tell_end(s, n == UV_EOF ? "the peer closed the connection" : uv_strerror((int)n));
        return;
    }
    if (BIO_write(s->in, buf->base, (int)n) != (int)n) {
        tell_end(s, "no memory for received data");
        return;
    }
    if (!s->ready)
        shake_hands(s);
    if (s->ready)
        read_plain(s);
    if (!s->closing && !s->ended && flush(s) < 0)
        tell_end(s, "sending failed");
}

int tls_psk_write(struct tls_psk *s, const void *bytes, size_t size)
{
    const char *p = bytes;
    if (!s->ready || s->closing || s->ended)
        return -1;
    while (size > 0) {
        size_t n = size < 1024 * 1024 ? size : 1024 * 1024;
        ERR_clear_error();
        int put = SSL_write(s->ssl, p, (int)n); /* into memory: everything, or an error */
        if (put <= 0)
            return -1;
        p += put;
        size -= (size_t)put;
    }
    return flush(s);
}

size_t tls_psk_queued(const struct tls_psk *s)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&s->tcp);
}

/* --- creation and release ------------------------------------------------------------------ */

static void on_finished(uv_shutdown_t *req, int status)
{
    (void)status;
    tls_psk_close(req->data);
}

static void on_impatience(uv_timer_t *timer)
{
    tls_psk_close(timer->data);
}

void tls_psk_finish(struct tls_psk *s)
{
    if (!s || s->closing || s->finishing)
        return;
    uv_read_stop((uv_stream_t *)&s->tcp);
    ERR_clear_error();
    if (!s->ready || s->ended || SSL_shutdown(s->ssl) < 0 || flush(s) < 0 ||
        uv_shutdown(&s->shutdown, (uv_stream_t *)&s->tcp, on_finished) < 0) {
        tls_psk_close(s);
        return;
    }
    s->shutdown.data = s;
    s->finishing = true;
    uv_timer_start(&s->wait_timer, on_impatience, FINISH_MS, 0);
}

static void on_patience(uv_timer_t *timer)
{
    struct tls_psk *s = timer->data;
    tell_end(s, s->late);
}

void tls_psk_limit(struct tls_psk *s, const char *text)
{
    s->late = text;
    uv_timer_start(&s->wait_timer, on_patience, TLS_PSK_SHAKE_MS, 0);
}

static int make(struct tls_psk **out, uv_loop_t *loop, bool server,
                const struct tls_psk_hooks *hooks, struct err *err)
{
    struct tls_psk *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "no memory for a connection");
    s->hooks = *hooks;
    if (set_up(s, server, err) < 0) {
        release(s);
        return -1;
    }
    uv_tcp_init(loop, &s->tcp);
    uv_timer_init(loop, &s->wait_timer);
    s->handles = 2;
    s->tcp.data = s->wait_timer.data = s;
    tls_psk_limit(s, "the handshake timed out");
    *out = s;
    return 0;
}

/* The kernel checks whether the peer is alive, and limits how long data stays unacknowledged. */
static void mind_the_network(struct tls_psk *s)
{
    const int idle_s = TLS_PSK_DEAD_S / 3, between_s = TLS_PSK_DEAD_S / 5, times = 3, on = 1;
    const unsigned dead_ms = TLS_PSK_DEAD_S * 1000;
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&s->tcp, &fd) < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
}

static void begin(struct tls_psk *s)
{
    uv_tcp_nodelay(&s->tcp, 1);
    mind_the_network(s);
    uv_read_start((uv_stream_t *)&s->tcp, on_alloc, on_read);
}

static void on_connected(uv_connect_t *req, int status)
{
    struct tls_psk *s = req->data;
    if (s->closing)
        return;
    if (status < 0) {
        tell_end(s, uv_strerror(status));
        return;
    }
    begin(s);
    shake_hands(s);
}

int tls_psk_dial(struct tls_psk **out, uv_loop_t *loop, const struct sockaddr *to, const char *name,
                 const unsigned char key[TLS_PSK_KEY], const struct tls_psk_hooks *hooks,
                 struct err *err)
{
    struct tls_psk *s;
    if (make(&s, loop, false, hooks, err) < 0)
        return -1;
    snprintf(s->name, sizeof(s->name), "%s", name);
    memcpy(s->key, key, TLS_PSK_KEY);
    s->connect.data = s;
    int rc = uv_tcp_connect(&s->connect, &s->tcp, to, on_connected);
    if (rc < 0) {
        tls_psk_close(s);
        return err_set(err, ERR_SYSTEM, "%s", uv_strerror(rc));
    }
    *out = s;
    return 0;
}

int tls_psk_accept(struct tls_psk **out, uv_stream_t *listener, tls_psk_key_fn find, void *find_arg,
                   const struct tls_psk_hooks *hooks, struct err *err)
{
    struct tls_psk *s;
    if (make(&s, listener->loop, true, hooks, err) < 0)
        return -1;
    s->find = find;
    s->find_arg = find_arg;
    int rc = uv_accept(listener, (uv_stream_t *)&s->tcp);
    if (rc < 0) {
        tls_psk_close(s);
        return err_set(err, ERR_SYSTEM, "cannot accept a connection: %s", uv_strerror(rc));
    }
    begin(s);
    *out = s;
    return 0;
}

void tls_psk_set_hooks(struct tls_psk *s, const struct tls_psk_hooks *hooks)
{
    uv_timer_stop(&s->wait_timer);
    s->hooks = *hooks;
}

const char *tls_psk_name(const struct tls_psk *s)
{
    return s->name;
}

int tls_psk_ip(const struct sockaddr *a, char out[TLS_PSK_ADDRESS])
{
    return a->sa_family == AF_INET6
               ? uv_ip6_name((const struct sockaddr_in6 *)(const void *)a, out, TLS_PSK_ADDRESS)
               : uv_ip4_name((const struct sockaddr_in *)(const void *)a, out, TLS_PSK_ADDRESS);
}

bool tls_psk_address(const struct tls_psk *s, bool other, char out[TLS_PSK_ADDRESS])
{
    struct sockaddr_storage a;
    int size = sizeof(a);
    const struct sockaddr *as = (const struct sockaddr *)&a;
    if ((other ? uv_tcp_getpeername(&s->tcp, (struct sockaddr *)&a, &size)
               : uv_tcp_getsockname(&s->tcp, (struct sockaddr *)&a, &size)) < 0 ||
        tls_psk_ip(as, out) < 0)
        return false;
    if (strncmp(out, "::ffff:", 7) == 0 && strchr(out, '.')) /* IPv4 on an IPv6 socket */
        memmove(out, out + 7, strlen(out + 7) + 1);
    return true;
}
