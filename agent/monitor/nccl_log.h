/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_log.h - what NCCL says of the ways it has taken, against what the plan expected
 *
 * Pure: no clock, no I/O.
 * NCCL tells with NCCL_DEBUG=INFO how each two neighbours of its rings are joined, which
 * network it uses, and on which interface it starts:
 *
 *   node1:100:120 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
 *   node1:100:120 [0] NCCL INFO Using network Socket
 *   node1:100:120 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
 *   node1:100:120 [0] NCCL INFO 2 coll channels, 0 nvls channels, 2 p2p channels
 *
 * Lines of other kinds are passed over; a name that is too long is cut.
 */
#ifndef AGENT_MONITOR_NCCL_LOG_H
#define AGENT_MONITOR_NCCL_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { NCCL_LOG_PAIRS = 256 };

enum nccl_way { NCCL_WAY_P2P, NCCL_WAY_SHM, NCCL_WAY_NET, NCCL_WAYS };

struct nccl_log {
    char version[24], network[32], interface[32]; /* "" = not said */
    int  channels, nvls;                          /* -1 = not said */
    int  pairs;
    struct nccl_pair {
        int           a, b; /* ranks, a < b */
        enum nccl_way way;  /* the slowest that was seen */
        char          words[24]; /* "P2P/CUMEM" */
    } pair[NCCL_LOG_PAIRS];
};

void nccl_log_init(struct nccl_log *log);

/* One line of NCCL, whatever stands before it; false: it says nothing of this. */
bool nccl_log_line(struct nccl_log *log, const char *line);

/* Has NCCL come so far that it can be judged? */
bool nccl_log_is_telling(const struct nccl_log *log);

/* A new object, the body of an event: {"text":"...", "expected":true|false, "version":"2.21.5",
 * "network":"IB", "interface":"eth0", "channels":24, "ways":{"p2p":8,"shm":0,"net":0},
 * "unlike":[{"seen","because","todo"}]}; NULL: no memory. */
json_t *nccl_log_judge(const struct nccl_log *log, const json_t *plan, const json_t *facts);

#endif
