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

struct door;
struct err;

struct door_hooks {
    secure_key_fn key;
    void (*came)(void *arg, struct secure *s); /* it is the hook's now */
    void *arg;
};

int door_open(struct door **out, uv_loop_t *loop, const struct door_hooks *hooks, struct err *err);
void door_close(struct door *d); /* frees itself; NULL is fine */
int door_port(const struct door *d);

/* The addresses of this machine as texts: IPv4 first; the loopback address last, for who is here. */
json_t *door_addresses(void);
/* Only those that are named, as addresses or as interfaces: "10.0.0.1,ib0". NULL: one is neither. */
json_t *door_addresses_of(const char *names, struct err *err);

/* The way to a door, as it is told to others: {"addresses": [text...], "port", "key": 64 digits} */
enum { DOOR_ADDRESSES = 32 };

struct door_way {
    struct sockaddr_storage address[DOOR_ADDRESSES];
    int                     addresses, port;
    unsigned char           key[SECURE_KEY];
};

/* -1: it makes no sense. What is no address is passed over where another one is. */
int door_way_read(struct door_way *out, const json_t *said, struct err *err);

const struct sockaddr *door_way_address(const struct door_way *w, int i);
const char *door_way_text(const struct door_way *w, int i, char out[SECURE_ADDRESS]); /* out */

#endif
