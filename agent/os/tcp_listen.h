/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_listen.h - a TCP socket on a numeric address, for listeners beside the unix socket */
#ifndef AGENT_OS_TCP_LISTEN_H
#define AGENT_OS_TCP_LISTEN_H

#include <stdbool.h>

struct err;

enum { TCP_LISTEN_TEXT = 64 };

/* "127.0.0.1:9473" or "[::1]:9473"; port 0 means any free one. -1: ERR_USAGE, with the expected form. */
int tcp_listen_check(const char *at, struct err *err);

/* A listening descriptor, or -1. `bound` gets the actual address and port. */
int tcp_listen(char bound[TCP_LISTEN_TEXT], const char *at, struct err *err);

#endif
