/* SPDX-License-Identifier: Apache-2.0 */
/* byte_stream.h - bytes in both directions over one socket of the event loop, with TLS or without
 *
 * A Unix socket, or a TCP connection with TLS (agent/wire/tls_psk.h): there a handshake that takes
 * longer than BYTE_STREAM_LIMIT_MS fails, and a network that delivers nothing for BYTE_STREAM_DEAD_S
 * ends the stream.
 *
 * Hooks are called from the loop only, never from inside a call. After byte_stream_close() only the hook `closed` is
 * called, and the stream frees itself. The process must ignore SIGPIPE.
 */
#ifndef AGENT_WIRE_BYTE_STREAM_H
#define AGENT_WIRE_BYTE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "agent/wire/tls_psk.h"

struct byte_stream;
struct err;
struct sockaddr;

enum { BYTE_STREAM_ADDRESS = 46, BYTE_STREAM_LIMIT_MS = 3000, BYTE_STREAM_DEAD_S = 15 };

/* `data` and `ended` are required; `ready` only for a stream with TLS. */
struct byte_stream_hooks {
    void (*ready)(void *arg); /* both sides know the key: data may flow */
    void (*data)(void *arg, const char *bytes, size_t size);
    void (*ended)(void *arg, const char *text); /* once, with the reason; the owner must still close the stream */
    void (*sent)(void *arg);                    /* the queue has become shorter */
    void (*closed)(void *arg);                  /* the last call */
    void *arg;
};

/* Both take ownership even on failure: of an open Unix socket, of one side of TLS. `listener` is a uv_tcp_t with
 * TLS, a uv_pipe_t without (NULL). */
int byte_stream_open(struct byte_stream **out, uv_loop_t *loop, int fd,
                     const struct byte_stream_hooks *hooks, struct err *err);
int byte_stream_accept(struct byte_stream **out, uv_stream_t *listener, struct tls_psk *tls,
                       const struct byte_stream_hooks *hooks, struct err *err);
int byte_stream_connect(struct byte_stream **out, uv_loop_t *loop, const struct sockaddr *to,
                        struct tls_psk *tls, const struct byte_stream_hooks *hooks, struct err *err);

/* Both accept NULL. finish: first sends the queued bytes, within limit_ms (0: no limit). */
void byte_stream_close(struct byte_stream *s);
void byte_stream_finish(struct byte_stream *s, int limit_ms);

/* Replaces the hooks: the stream has a new owner. */
void byte_stream_set_hooks(struct byte_stream *s, const struct byte_stream_hooks *hooks);
/* Ends the stream with `text`, a string constant, unless it has a new owner within
 * BYTE_STREAM_LIMIT_MS. */
void byte_stream_limit(struct byte_stream *s, const char *text);

/* Copies and queues the bytes. -1: not ready, or sending failed; close the stream. */
int byte_stream_write(struct byte_stream *s, const void *bytes, size_t size);
size_t byte_stream_queued(const struct byte_stream *s); /* bytes not yet taken by the kernel */

/* 0 if the peer of a Unix socket runs as the same user or as root. */
int byte_stream_check_peer(const struct byte_stream *s, struct err *err);
/* The name of the peer's key; unproven before ready(), or "". */
const char *byte_stream_key_name(const struct byte_stream *s);
/* The address of the peer, or the local one; false: unknown. */
bool byte_stream_address(const struct byte_stream *s, bool other, char out[BYTE_STREAM_ADDRESS]);
/* A numeric address: 0, or negative if it is neither IPv4 nor IPv6. */
int byte_stream_ip(const struct sockaddr *a, char out[BYTE_STREAM_ADDRESS]);

#endif
