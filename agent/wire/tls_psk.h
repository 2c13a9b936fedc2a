/* SPDX-License-Identifier: Apache-2.0 */
/* tls_psk.h - a stream of bytes between two processes that know the same key, over TCP
 *
 * TLS 1.3 with a pre-shared key and an ephemeral exchange: each side shows that it knows the key, and
 * no certificate counts. What was recorded cannot be read later by whoever learns the key. A
 * handshake that is not done within SECURE_SHAKE_MS has failed; a network that carries nothing for
 * SECURE_DEAD_S ends the stream. The side that dials says by which name its key is known.
 *
 * Hooks come from the loop only, never from inside a call. After secure_close() none comes any more,
 * and the stream frees itself. The process must ignore SIGPIPE.
 */
#ifndef AGENT_WIRE_TLS_PSK_H
#define AGENT_WIRE_TLS_PSK_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct err;
struct secure;

enum { SECURE_KEY = 32, SECURE_ADDRESS = 46, SECURE_NAME = 64 };
enum { SECURE_SHAKE_MS = 3000, SECURE_DEAD_S = 15 };

struct secure_hooks {
    void (*ready)(void *arg); /* the other side knows the key, too */
    void (*data)(void *arg, const char *bytes, size_t size);
    void (*ended)(void *arg, const char *text); /* once: why; it is still to be closed */
    void *arg;
};

/* Of a process by this name, which is outside data; false: there is none. */
typedef bool (*secure_key_fn)(void *arg, const char *name, unsigned char key[SECURE_KEY]);

int secure_dial(struct secure **out, uv_loop_t *loop, const struct sockaddr *to, const char *name,
                const unsigned char key[SECURE_KEY], const struct secure_hooks *hooks,
                struct err *err);
int secure_accept(struct secure **out, uv_stream_t *listener, secure_key_fn find, void *find_arg,
                  const struct secure_hooks *hooks, struct err *err);
void secure_close(struct secure *s); /* NULL is fine */
/* As that, but what was written still goes out, if it does so soon. */
void secure_finish(struct secure *s);

/* It has another owner from now on. */
void secure_set_hooks(struct secure *s, const struct secure_hooks *hooks);

/* After ready(). -1: it cannot be sent; close the stream. */
int secure_write(struct secure *s, const void *bytes, size_t size);
size_t secure_queued(const struct secure *s); /* bytes that the network has not yet taken */

/* An address in figures: 0, or negative for what is neither IPv4 nor IPv6. */
struct sockaddr;
int secure_ip(const struct sockaddr *a, char out[SECURE_ADDRESS]);

/* The address of the other side, or of this one as this stream uses it; false: not known. */
bool secure_address(const struct secure *s, bool other, char out[SECURE_ADDRESS]);

/* By which name the key is known; before ready() it may be a lie, or "". */
const char *secure_name(const struct secure *s);

/* SECURE_KEY random bytes as hexadecimal digits, and back; -1: none, or not such a text. */
int secure_key_draw(char hex[2 * SECURE_KEY + 1]);
int secure_key_parse(unsigned char key[SECURE_KEY], const char *hex);

#endif
