/* SPDX-License-Identifier: Apache-2.0 */
/* follower_internal.h - state of a follower, shared by follower.c and follower_report.c only */
#ifndef AGENT_NODES_FOLLOWER_INTERNAL_H
#define AGENT_NODES_FOLLOWER_INTERNAL_H

#include "agent/monitor/gpu_watch.h"
#include "agent/nodes/follower.h"
#include "agent/container/container_words.h"
#include "agent/os/payload.h"
#include "agent/ranks/ranks.h"

enum { FOLLOWER_RANKS = 4096 };

struct follower {
    struct follower_options o;
    struct follower_hooks   hooks;
    uv_loop_t              *loop;
    int                     node, nodes;

    struct ranks      *ranks;
    struct cleanup    *cleanup;
    struct inspector  *inspector;
    struct usage      *usage;
    struct nccl_watch *nccl_watch; /* NULL: no NCCL log expected */
    struct gpu_watch  *gpu_watch;  /* NULL: ranks without GPUs, or no events from the driver */
    uv_timer_t         look;       /* when NCCL's log is next read */
    uv_timer_t         reap;       /* the cleanup is done, but not all exits have been reported */
    bool               closed;

    json_t        *spec, *launch, *plan; /* the payload points into it */
    struct payload payload;
    struct container_job *container; /* NULL: the job has no image, or nothing was started yet */
    struct container_words sweep;    /* the command that removes its containers; empty: they are only processes */
    int            generation, cleaning;
    int64_t        pids[FOLLOWER_RANKS];
    char           inspect_path[4096];
    char           fence[128];
    int            hold; /* follower_set_hold() */
    follower_lease_fn lease; /* NULL: this agent takes none */
    void          *lease_arg;
    char *const   *base; /* follower_set_environment() */
};

/* follower_report.c: messages to the leader. */
extern const struct ranks_hooks follower_ranks_hooks;
void follower_say(struct follower *f, enum wire_message number, json_t *body); /* takes the body */
json_t *follower_text(const char *text); /* a string of arbitrary bytes, or null for NULL */
void follower_report_gpu(void *arg, const struct gpu_event *e);
void follower_report_nccl(uv_timer_t *timer);
void follower_report_stacks(void *arg, int generation, json_t *body);

#endif
