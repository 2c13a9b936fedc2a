/* SPDX-License-Identifier: Apache-2.0 */
/* tls_psk.c - see tls_psk.h */
#include "agent/wire/tls_psk.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

#define CIPHERS  "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256" /* SHA-256: see below */

struct tls_psk {
    SSL_CTX       *context;
    SSL           *ssl;
    BIO           *in, *out; /* owned by ssl */
    char           name[TLS_PSK_NAME];
    unsigned char  key[TLS_PSK_KEY]; /* of the client */
    tls_psk_key_fn find;             /* of the server */
    void          *find_arg;
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

static int set_up(struct tls_psk *s, bool server)
{
    /* Ignores the machine's OpenSSL configuration. */
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    s->context = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    s->in = BIO_new(BIO_s_mem());
    s->out = BIO_new(BIO_s_mem());
    if (!s->context || !s->in || !s->out)
        return -1;
    SSL_CTX_set_options(s->context, SSL_OP_NO_TICKET);
    SSL_CTX_set_verify(s->context, server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(s->context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(s->context, 0) != 1 ||
        SSL_CTX_set_ciphersuites(s->context, CIPHERS) != 1 ||
        !(s->ssl = SSL_new(s->context)))
        return -1;
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
}

static struct tls_psk *make(bool server)
{
    struct tls_psk *s = calloc(1, sizeof(*s));
    if (s && set_up(s, server) == 0)
        return s;
    ERR_clear_error();
    tls_psk_free(s);
    return NULL;
}

struct tls_psk *tls_psk_client(const char *name, const unsigned char key[TLS_PSK_KEY])
{
    struct tls_psk *s = make(false);
    if (s) {
        snprintf(s->name, sizeof(s->name), "%s", name);
        memcpy(s->key, key, TLS_PSK_KEY);
    }
    return s;
}

struct tls_psk *tls_psk_server(tls_psk_key_fn find, void *arg)
{
    struct tls_psk *s = make(true);
    if (s) {
        s->find = find;
        s->find_arg = arg;
    }
    return s;
}

void tls_psk_free(struct tls_psk *s)
{
    if (!s)
        return;
    if (!s->ssl) {
        BIO_free(s->in);
        BIO_free(s->out);
    }
    SSL_free(s->ssl);
    SSL_CTX_free(s->context);
    OPENSSL_cleanse(s->key, sizeof(s->key));
    free(s);
}

const char *tls_psk_name(const struct tls_psk *s)
{
    return s->name;
}

/* --- data ---------------------------------------------------------------------------------- */

int tls_psk_input(struct tls_psk *s, const void *bytes, size_t size)
{
    return BIO_write(s->in, bytes, (int)size) == (int)size ? 0 : -1;
}

size_t tls_psk_output(struct tls_psk *s, void *bytes, size_t size)
{
    int n = BIO_read(s->out, bytes, (int)size);
    return n > 0 ? (size_t)n : 0;
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

int tls_psk_handshake(struct tls_psk *s, const char **why)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(s->ssl);
    int error = SSL_get_error(s->ssl, rc);
    *why = rc == 1 ? "the peer does not know the key of this attempt" : refusal();
    ERR_clear_error();
    if (rc == 1)
        return SSL_session_reused(s->ssl) ? 1 : -1; /* by the key, not by a certificate */
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

int tls_psk_read(struct tls_psk *s, void *bytes, size_t size, const char **why)
{
    ERR_clear_error();
    int n = SSL_read(s->ssl, bytes, (int)size);
    int error = SSL_get_error(s->ssl, n);
    ERR_clear_error();
    if (n > 0)
        return n;
    *why = error == SSL_ERROR_ZERO_RETURN ? "the peer closed the connection"
                                          : "the connection was tampered with";
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

int tls_psk_write(struct tls_psk *s, const void *bytes, size_t size)
{
    const char *p = bytes;
    while (size > 0) {
        size_t n = size < 1024 * 1024 ? size : 1024 * 1024;
        ERR_clear_error();
        int put = SSL_write(s->ssl, p, (int)n); /* into memory: everything, or an error */
        if (put <= 0)
            return -1;
        p += put;
        size -= (size_t)put;
    }
    return 0;
}

int tls_psk_shutdown(struct tls_psk *s)
{
    ERR_clear_error();
    return SSL_shutdown(s->ssl) < 0 ? -1 : 0;
}
