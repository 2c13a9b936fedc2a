/* SPDX-License-Identifier: Apache-2.0 */
/* unix_socket.h - Unix domain sockets at paths of any length, for the same user only
 *
 * sockaddr_un holds 108 bytes; a job's directory may be longer. A longer path is reached through
 * /proc/self/fd/N/name, where N is its opened directory.
 * All descriptors are close-on-exec.
 */
#ifndef AGENT_OS_UNIX_SOCKET_H
#define AGENT_OS_UNIX_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

struct err;

/* Returns a listening descriptor, non-blocking; the file has mode 0600 from the moment it
 * exists. A stale socket file is replaced; ERR_CONFLICT when another process listens there, or
 * the path is not a socket. */
int unix_socket_listen(const char *path, struct err *err);

/* Returns a connected descriptor. ERR_NOT_FOUND: no listener (no file, or a stale one). With
 * nonblocking it never waits: a full listen queue is ERR_SYSTEM. */
int unix_socket_connect(const char *path, bool nonblocking, struct err *err);

/* 0 if the peer runs as the same user or as root; else ERR_CONFLICT. */
int unix_socket_check_peer(int fd, struct err *err);

/* The process at the other end; of a connection, the one that listens. 0: not known. */
int64_t unix_socket_peer(int fd);

#endif
