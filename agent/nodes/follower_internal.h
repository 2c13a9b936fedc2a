/* SPDX-License-Identifier: Apache-2.0 */
/* follower_internal.h - state of a follower, shared by follower.c and follower_report.c only */
#ifndef AGENT_NODES_FOLLOWER_INTERNAL_H
#define AGENT_NODES_FOLLOWER_INTERNAL_H

#include <stdbool.h>

#include "agent/monitor/gpu_watch.h"
#include "agent/monitor/page_feed.h"
#include "agent/nodes/follower.h"
#include "agent/nodes/node_channel.h"
#include "agent/os/payload.h"
#include "agent/ranks/ranks.h"

struct cleanup;
struct inspector;

enum { FOLLOWER_RANKS = 4096 };

struct follower {
    struct follower_options o;
    uv_loop_t              *loop;
    follower_over_fn        over;
    void                   *arg;
    int                     node, nodes;

    struct node_channel *link;
    struct ranks        *ranks;
    struct cleanup      *cleanup;
    struct inspector    *inspector;
    struct nccl_watch *nccl_watch; /* NULL: no NCCL log expected */
    struct gpu_watch *gpu_watch;   /* NULL: ranks without GPUs, or no events from the driver */
    uv_timer_t pages;              /* several looks per second */
    uv_timer_t end;                /* grace, then until the last rank has exited */
    uv_timer_t reap;               /* clean, but not all exits have been reported */
    bool              closed, ending, left;
    int64_t           end_since_ms;

    json_t *prepare; /* the leader's PREPARE; the payload points into it */
    struct payload payload;
    bool           prepared, has_watch;
    int            generation, cleaning;
    int64_t        pids[FOLLOWER_RANKS];
    struct page_view *reported; /* [ranks]: state last sent to the leader */
    int               n_reported;
    char              inspect_path[4096];
};

/* follower_report.c: messages to the leader. */
extern const struct ranks_hooks follower_ranks_hooks;
void follower_join(struct follower *m);
void follower_say(struct follower *m, enum wire_message number, json_t *body);
json_t *follower_text(const char *text); /* a string of any bytes, or null for NULL */
void follower_look(struct follower *m);  /* sends pages that have changed */
void follower_forget_reported(struct follower *m, int n); /* forgets what was sent for n ranks */
void follower_report_gpu(void *arg, const struct gpu_event *e);
void follower_inspected(void *arg, int generation, json_t *body);

#endif
