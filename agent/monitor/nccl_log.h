/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_log.h - parses NCCL's log for the transports in use, and compares them with the plan
 *
 * Pure: no clock, no I/O.
 * With NCCL_DEBUG=INFO, NCCL logs the transport between neighbours of its rings, the network in
 * use, and the interface of its bootstrap:
 *
 *   node1:100:120 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
 *   node1:100:120 [0] NCCL INFO Using network Socket
 *   node1:100:120 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
 *   node1:100:120 [0] NCCL INFO 2 coll channels, 0 nvls channels, 2 p2p channels
 *
 * Other lines are skipped; long names are truncated.
 */
#ifndef AGENT_MONITOR_NCCL_LOG_H
#define AGENT_MONITOR_NCCL_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { NCCL_LOG_PAIRS = 256 };

enum nccl_way { NCCL_WAY_P2P, NCCL_WAY_SHM, NCCL_WAY_NET, NCCL_WAYS };

struct nccl_log {
    char version[24], network[32], interface[32]; /* "" = not in the log */
    int channels, nvls;                           /* -1 = not in the log */
    int  pairs;
    struct nccl_pair {
        int           a, b; /* ranks, a < b */
        enum nccl_way way;  /* the slowest transport seen */
        char          words[24]; /* "P2P/CUMEM" */
    } pair[NCCL_LOG_PAIRS];
};

void nccl_log_init(struct nccl_log *log);

/* Takes one line of NCCL's log, with any prefix; false: not about transports. */
bool nccl_log_line(struct nccl_log *log, const char *line);

/* Has NCCL logged enough to be judged? */
bool nccl_log_is_telling(const struct nccl_log *log);

/* A new object, the body of an event: {"text":"...", "expected":true|false, "version":"2.21.5",
 * "network":"IB", "interface":"eth0", "channels":24, "ways":{"p2p":8,"shm":0,"net":0},
 * "pairs":[{"a":0,"b":1,"way":"p2p","words":"P2P/CUMEM"}] (GPUs of this node, by their index in the facts),
 * "unlike":[{"seen","because","todo"}]}; NULL: no memory. */
json_t *nccl_log_judge(const struct nccl_log *log, const json_t *plan, const json_t *facts);

#endif
