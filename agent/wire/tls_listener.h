/* SPDX-License-Identifier: Apache-2.0 */
/* tls_listener.h - a TCP port with TLS that accepts only peers with a known key
 *
 * Listens on all addresses, on a port chosen by the system. A peer that proves within a few seconds
 * that it knows the key of its name is accepted; all others are closed. The controller has a key for
 * each agent that it expects; the leader of an attempt has one for all followers, and each must send
 * CONNECT (agent/wire/leader_wire.h) within a few seconds as well. A limited number of connections
 * may be unproven: a new one replaces the oldest.
 */
#ifndef AGENT_WIRE_TLS_LISTENER_H
#define AGENT_WIRE_TLS_LISTENER_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <uv.h>

#include "agent/wire/byte_stream.h"

struct tls_listener;
struct err;
struct frame_reader;

#define TLS_LISTENER_NAME "leader" /* name of the key that a listener has generated */

struct tls_listener_hooks {
    tls_psk_key_fn key; /* NULL: generate one for all peers */
    /* Exactly one of these two is set. The hook owns `s` from now on. */
    void (*came)(void *arg, struct byte_stream *s);
    /* NULL: the hook owns `s` and `reader` now; else why the peer is refused, which is sent to it. */
    const char *(*called)(void *arg, struct byte_stream *s, struct frame_reader *reader, const json_t *connect);
    void *arg;
};

int tls_listener_open(struct tls_listener **out, uv_loop_t *loop,
                      const struct tls_listener_hooks *hooks, struct err *err);
void tls_listener_close(struct tls_listener *d); /* frees itself; accepts NULL */
int tls_listener_port(const struct tls_listener *d);

/* An endpoint with the generated key; a new object or NULL. */
json_t *tls_listener_endpoint(const struct tls_listener *d);

/* The addresses of this machine as strings: IPv4 first; loopback last, for local peers. */
json_t *tls_listener_addresses(void);
/* Only the named addresses or interfaces: "10.0.0.1,ib0". NULL: one of them does not exist. */
json_t *tls_listener_addresses_of(const char *names, struct err *err);

/* An endpoint for other machines: {"addresses": [text...], "port", "key": 64 digits} */
enum { TLS_LISTENER_ADDRESSES = 32 };

struct tls_listener_endpoint {
    struct sockaddr_storage address[TLS_LISTENER_ADDRESSES];
    int                     addresses, port;
    unsigned char           key[TLS_PSK_KEY];
};

/* -1: invalid. Unparsable addresses are skipped if another one is valid. */
int tls_listener_endpoint_read(struct tls_listener_endpoint *out, const json_t *said, struct err *err);

const struct sockaddr *tls_listener_endpoint_address(const struct tls_listener_endpoint *w, int i);
const char *tls_listener_endpoint_text(const struct tls_listener_endpoint *w, int i,
                                       char out[BYTE_STREAM_ADDRESS]); /* out */

#endif
