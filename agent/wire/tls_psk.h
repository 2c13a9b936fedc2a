/* SPDX-License-Identifier: Apache-2.0 */
/* tls_psk.h - a stream of bytes between two processes that know the same key, over TCP
 *
 * TLS 1.3 with a pre-shared key and an ephemeral exchange: each side shows that it knows the key, and
 * no certificate counts. What was recorded cannot be read later by whoever learns the key. A
 * handshake that is not done within TLS_PSK_SHAKE_MS has failed; a network that carries nothing for
 * TLS_PSK_DEAD_S ends the stream. The side that dials says by which name its key is known.
 *
 * Hooks come from the loop only, never from inside a call. After tls_psk_close() none comes any
 * more, and the stream frees itself. The process must ignore SIGPIPE.
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
    void (*ready)(void *arg); /* the other side knows the key, too */
    void (*data)(void *arg, const char *bytes, size_t size);
    void (*ended)(void *arg, const char *text); /* once: why; it is still to be closed */
    void *arg;
};

/* Of a process by this name, which is outside data; false: there is none. */
typedef bool (*tls_psk_key_fn)(void *arg, const char *name, unsigned char key[TLS_PSK_KEY]);

int tls_psk_dial(struct tls_psk **out, uv_loop_t *loop, const struct sockaddr *to, const char *name,
                 const unsigned char key[TLS_PSK_KEY], const struct tls_psk_hooks *hooks,
                 struct err *err);
int tls_psk_accept(struct tls_psk **out, uv_stream_t *listener, tls_psk_key_fn find, void *find_arg,
                   const struct tls_psk_hooks *hooks, struct err *err);
void tls_psk_close(struct tls_psk *s); /* NULL is fine */
/* As that, but what was written still goes out, if it does so soon. */
void tls_psk_finish(struct tls_psk *s);

/* It has another owner from now on. */
void tls_psk_set_hooks(struct tls_psk *s, const struct tls_psk_hooks *hooks);

/* After ready(). -1: it cannot be sent; close the stream. */
int tls_psk_write(struct tls_psk *s, const void *bytes, size_t size);
size_t tls_psk_queued(const struct tls_psk *s); /* bytes that the network has not yet taken */

/* An address in figures: 0, or negative for what is neither IPv4 nor IPv6. */
struct sockaddr;
int tls_psk_ip(const struct sockaddr *a, char out[TLS_PSK_ADDRESS]);

/* The address of the other side, or of this one as this stream uses it; false: not known. */
bool tls_psk_address(const struct tls_psk *s, bool other, char out[TLS_PSK_ADDRESS]);

/* By which name the key is known; before ready() it may be a lie, or "". */
const char *tls_psk_name(const struct tls_psk *s);

/* TLS_PSK_KEY random bytes as hexadecimal digits, and back; -1: none, or not such a text. */
int tls_psk_key_draw(char hex[2 * TLS_PSK_KEY + 1]);
int tls_psk_key_parse(unsigned char key[TLS_PSK_KEY], const char *hex);

#endif
