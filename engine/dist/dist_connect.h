/* SPDX-License-Identifier: Apache-2.0 */
/* dist_connect.h - TCP connections between ranks on different nodes (dist_link.h)
 *
 * Each rank opens a port that the system chooses, publishes its address through
 * struct dist_bootstrap, connects to all lower ranks and accepts connections from higher ones.  A
 * hello carries the key (of job, attempt and generation), the rank and the number of the
 * connection, and gets the same in reply; any other data closes the connection.  No call
 * waits: the caller repeats dist_connect_poll() until its deadline.
 */
#ifndef ENGINE_DIST_DIST_CONNECT_H
#define ENGINE_DIST_DIST_CONNECT_H

#include <stdint.h>

struct dist_connect;
struct dist_link;
struct dist_bootstrap;
struct err;

struct dist_connect_config {
    int                          rank, world;
    const int                   *names; /* keys of `meet` are "tcp.<name>"; NULL: the ranks */
    uint64_t                     key[2];
    const struct dist_bootstrap *bootstrap;
    struct dist_link            *links; /* [world], owned by the caller; filled here */
};

int dist_connect_open(struct dist_connect **out, const struct dist_connect_config *config, struct err *err);
/* 1: all links are connected. 0: not yet. -1. */
int dist_connect_poll(struct dist_connect *d, struct err *err);
/* The first rank with a missing connection, or -1. */
int dist_connect_absent(const struct dist_connect *d);
void dist_connect_close(struct dist_connect *d);

#endif
