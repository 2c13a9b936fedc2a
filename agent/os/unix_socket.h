/* SPDX-License-Identifier: Apache-2.0 */
/* unix_socket.h - local sockets at paths of any length, for this user only
 *
 * sockaddr_un holds 108 bytes; a job's directory may be deeper.  A longer path
 * is reached through /proc/self/fd/N/name, N being its opened directory.
 * All descriptors are close-on-exec.
 */
#ifndef AGENT_OS_UNIX_SOCKET_H
#define AGENT_OS_UNIX_SOCKET_H

#include <stdbool.h>

struct err;

/* A listening descriptor, non-blocking; the file has mode 0600 from its first moment.
 * A file left by a dead listener is replaced; ERR_CONFLICT when one listens there, or when
 * something else than a socket is in the way. */
int unix_socket_listen(const char *path, struct err *err);

/* A connected descriptor.  ERR_NOT_FOUND: nobody listens there (no file, or a stale one).
 * With nonblocking it never waits: a full queue of the listener is ERR_SYSTEM. */
int unix_socket_connect(const char *path, bool nonblocking, struct err *err);

/* 0 if the other end runs as our user or as root; else ERR_CONFLICT. */
int unix_socket_check_peer(int fd, struct err *err);

#endif
