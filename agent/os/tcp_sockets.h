/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_sockets.h - the TCP sockets of this network namespace, and how many bytes each has moved
 *
 * Read by NETLINK_SOCK_DIAG, because no counter in /proc includes recv() and send().
 */
#ifndef AGENT_OS_TCP_SOCKETS_H
#define AGENT_OS_TCP_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* IPv4 addresses are stored as IPv6: ::ffff:a.b.c.d. */
struct tcp_end {
    uint8_t  address[16];
    uint16_t port;
};

struct tcp_socket {
    uint64_t       inode; /* 0: owned by no process */
    struct tcp_end local, peer;
    bool           listens;
    uint64_t       bytes; /* received, and sent and acknowledged */
};

/* A new array; NULL: none, or the kernel has no such interface (gVisor). */
struct tcp_socket *tcp_sockets_read(size_t *count);

/* Parses a numeric address; all zero for a name. */
void tcp_sockets_address(uint8_t out[16], const char *text);

#endif
