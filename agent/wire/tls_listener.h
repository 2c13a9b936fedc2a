/* SPDX-License-Identifier: Apache-2.0 */
/* tls_listener.h - a port where those are let in who know a key, and how others find it
 *
 * Listens on all addresses, on a port that the system chooses. Whoever shows within a few seconds that
 * it knows the key of its name is shown in; all others are sent away, and few of them may stand at the
 * door at a time: the oldest makes room.
 */
#ifndef AGENT_WIRE_TLS_LISTENER_H
#define AGENT_WIRE_TLS_LISTENER_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <uv.h>

#include "agent/wire/tls_psk.h"

struct tls_listener;
struct err;

struct tls_listener_hooks {
    tls_psk_key_fn key;
    void (*came)(void *arg, struct tls_psk *s); /* it is the hook's now */
    void *arg;
};

int tls_listener_open(struct tls_listener **out, uv_loop_t *loop,
                      const struct tls_listener_hooks *hooks, struct err *err);
void tls_listener_close(struct tls_listener *d); /* frees itself; NULL is fine */
int tls_listener_port(const struct tls_listener *d);

/* The addresses of this machine as texts: IPv4 first; the loopback address last, for who is here. */
json_t *tls_listener_addresses(void);
/* Only those that are named, as addresses or as interfaces: "10.0.0.1,ib0". NULL: one is neither. */
json_t *tls_listener_addresses_of(const char *names, struct err *err);

/* The way to a door, as it is told to others: {"addresses": [text...], "port", "key": 64 digits} */
enum { TLS_LISTENER_ADDRESSES = 32 };

struct tls_listener_endpoint {
    struct sockaddr_storage address[TLS_LISTENER_ADDRESSES];
    int                     addresses, port;
    unsigned char           key[TLS_PSK_KEY];
};

/* -1: it makes no sense. What is no address is passed over where another one is. */
int tls_listener_endpoint_read(struct tls_listener_endpoint *out, const json_t *said,
                               struct err *err);

const struct sockaddr *tls_listener_endpoint_address(const struct tls_listener_endpoint *w, int i);
const char *tls_listener_endpoint_text(const struct tls_listener_endpoint *w, int i,
                                       char out[TLS_PSK_ADDRESS]); /* out */

#endif
