/* SPDX-License-Identifier: Apache-2.0 */
/* dist_connect.h - how ranks on different nodes come to have links (dist_link.h)
 *
 * Each opens a port that the system chooses, tells the others where it is through
 * struct dist_bootstrap, calls all ranks below its own and is called by those above.  Who
 * calls says its key (of job, attempt and generation), its rank and which connection
 * it shall be, and hears the same; who says anything else is sent away.  Nothing here
 * waits: dist_connect_poll() is asked again until the caller's deadline.
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
    struct dist_link            *links; /* [world], the caller's; filled here */
};

int dist_connect_open(struct dist_connect **out, const struct dist_connect_config *config,
                      struct err *err);
/* 1: all links are there. 0: not yet. -1. */
int dist_connect_poll(struct dist_connect *d, struct err *err);
/* The first rank of which a connection is missing, or -1. */
int dist_connect_absent(const struct dist_connect *d);
void dist_connect_close(struct dist_connect *d);

#endif
