/* SPDX-License-Identifier: Apache-2.0 */
/* tls_psk.h - TLS between two processes with a pre-shared key, on bytes in memory
 *
 * TLS 1.3 with a pre-shared key and an ephemeral key exchange: both sides prove that they know the
 * key, and no certificate is accepted. Recorded traffic stays secret even if the key leaks later. The
 * connecting side sends the name of its key. A byte stream moves the bytes (agent/wire/byte_stream.h).
 *
 * On failure functions return -1 and, where they take `why`, a sentence.
 */
#ifndef AGENT_WIRE_TLS_PSK_H
#define AGENT_WIRE_TLS_PSK_H

#include <stdbool.h>
#include <stddef.h>

struct tls_psk;

enum { TLS_PSK_KEY = 32, TLS_PSK_NAME = 64 };

/* Looks up the key of a name, which is untrusted input; false: unknown. */
typedef bool (*tls_psk_key_fn)(void *arg, const char *name, unsigned char key[TLS_PSK_KEY]);

/* NULL: no memory. */
struct tls_psk *tls_psk_client(const char *name, const unsigned char key[TLS_PSK_KEY]);
struct tls_psk *tls_psk_server(tls_psk_key_fn find, void *arg);
void tls_psk_free(struct tls_psk *s); /* accepts NULL */

/* The name of the key; unproven before the handshake is complete, or "". */
const char *tls_psk_name(const struct tls_psk *s);

/* Bytes from the network, and for it: the number of bytes, 0 for none. Every other call may produce some. */
int tls_psk_input(struct tls_psk *s, const void *bytes, size_t size);
size_t tls_psk_output(struct tls_psk *s, void *bytes, size_t size);

/* 1: both sides know the key; 0: needs more input. */
int tls_psk_handshake(struct tls_psk *s, const char **why);

/* After the handshake: data from the peer (number of bytes, 0 for none), and data for it. */
int tls_psk_read(struct tls_psk *s, void *bytes, size_t size, const char **why);
int tls_psk_write(struct tls_psk *s, const void *bytes, size_t size);
int tls_psk_shutdown(struct tls_psk *s); /* no more data follows */

/* TLS_PSK_KEY random bytes as hexadecimal digits, and back; -1: no random bytes, or invalid
 * text. */
int tls_psk_key_draw(char hex[2 * TLS_PSK_KEY + 1]);
int tls_psk_key_parse(unsigned char key[TLS_PSK_KEY], const char *hex);

#endif
