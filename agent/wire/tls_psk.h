/* SPDX-License-Identifier: Apache-2.0 */
/* tls_psk.h - a TLS stream over TCP between two processes with a pre-shared key
 *
 * TLS 1.3 with a pre-shared key and an ephemeral key exchange: both sides prove that they know the
 * key, and no certificate is accepted. Recorded traffic stays secret even if the key leaks later. A
 * handshake that takes longer than TLS_PSK_SHAKE_MS fails; a network that delivers nothing for
 * TLS_PSK_DEAD_S ends the stream. The connecting side sends the name of its key.
 *
 * Hooks are called from the loop only, never from inside a call. After tls_psk_close() no hook is
 * called any more, and the stream frees itself. The process must ignore SIGPIPE.
 */
#ifndef AGENT_WIRE_TLS_PSK_H
#define AGENT_WIRE_TLS_PSK_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct err;
struct tls_psk;

enum { TLS_PSK_KEY = 32, TLS_PSK_ADDRESS = 46, TLS_PSK_NAME = 64 };
enum { TLS_PSK_SHAKE_MS = 3000, TLS_PSK_DEAD_S = 15 };

struct tls_psk_hooks {
    void (*ready)(void *arg); /* both sides know the key */
    void (*data)(void *arg, const char *bytes, size_t size);
    void (*ended)(
        void *arg,
        const char *text); /* called once, with the reason; the owner must still close it */
    void *arg;
};

/* Looks up the key of a name, which is untrusted input; false: unknown. */
typedef bool (*tls_psk_key_fn)(void *arg, const char *name, unsigned char key[TLS_PSK_KEY]);

int tls_psk_dial(struct tls_psk **out, uv_loop_t *loop, const struct sockaddr *to, const char *name,
                 const unsigned char key[TLS_PSK_KEY], const struct tls_psk_hooks *hooks,
                 struct err *err);
int tls_psk_accept(struct tls_psk **out, uv_stream_t *listener, tls_psk_key_fn find, void *find_arg,
                   const struct tls_psk_hooks *hooks, struct err *err);
void tls_psk_close(struct tls_psk *s); /* NULL is fine */
/* The same, but data already written is still sent, if that is possible soon. */
void tls_psk_finish(struct tls_psk *s);

/* Ends the stream with `text`, a string constant, unless it has a new owner within TLS_PSK_SHAKE_MS. */
void tls_psk_limit(struct tls_psk *s, const char *text);

/* Replaces the hooks: the stream has a new owner. */
void tls_psk_set_hooks(struct tls_psk *s, const struct tls_psk_hooks *hooks);

/* After ready(). -1: sending failed; close the stream. */
int tls_psk_write(struct tls_psk *s, const void *bytes, size_t size);
size_t tls_psk_queued(const struct tls_psk *s); /* bytes not yet accepted by the network */

/* A numeric address: 0, or negative if it is neither IPv4 nor IPv6. */
struct sockaddr;
int tls_psk_ip(const struct sockaddr *a, char out[TLS_PSK_ADDRESS]);

/* The address of the peer, or the local one of this stream; false: unknown. */
bool tls_psk_address(const struct tls_psk *s, bool other, char out[TLS_PSK_ADDRESS]);

/* The name of the key; unproven before ready(), or "". */
const char *tls_psk_name(const struct tls_psk *s);

/* TLS_PSK_KEY random bytes as hexadecimal digits, and back; -1: no random bytes, or invalid
 * text. */
int tls_psk_key_draw(char hex[2 * TLS_PSK_KEY + 1]);
int tls_psk_key_parse(unsigned char key[TLS_PSK_KEY], const char *hex);

#endif
