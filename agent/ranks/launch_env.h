/* SPDX-License-Identifier: Apache-2.0 */
/* launch_env.h - the environment of a rank, or of the setup
 *
 * In this order, later wins: our own environment without variables of another
 * launcher's job; the plan; torchrun's variables and ours (DESIGN: agent -
 * rank); the job's own words; its secrets.
 */
#ifndef AGENT_RANKS_LAUNCH_ENV_H
#define AGENT_RANKS_LAUNCH_ENV_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct snapshot_memfds_claim;

/* What is the same for all ranks of a generation. */
struct launch_env {
    int64_t       job, attempt;
    int           generation;      /* 0: the setup */
    const char   *name;            /* of the job */
    const char   *nonce;
    const char   *run_dir, *ckpt_dir;
    int           world_size;      /* on all nodes together */
    int           first_rank;      /* of those on this node */
    int           local_ranks;     /* how many are on this node; 0: all */
    int           node_rank;
    int           nodes;           /* 0 or 1: there is no other */
    const char   *node_ranks;      /* "4,4,2", of all nodes in order; NULL: one node */
    const char   *node_addr;       /* where other nodes reach this one; NULL: nobody said */
    const char   *master_addr;     /* of node 0, as others reach it; NULL: the loopback address */
    int           master_port;     /* 0: ranks_start() chooses one */
    int           ras_port;        /* where NCCL tells of this generation alone; 0 = nobody asks */
    int           event_fd, control_fd; /* numbers in the child; -1 = none */
    int           snapshot_fd;     /* the rank's own; 0 = none */
    int           old_fd, old_fds; /* those of an earlier generation: the first, and how many */
    int64_t       restarts;        /* of the budget */
    int64_t       resume_step;     /* of a checkpoint; -1 = not known */
    int64_t       skip_step;       /* to be left out; -1 = none */
    bool          forget;          /* not from memory */
    bool          rejoin;          /* a rank that has lost the others may wait for new ones */
    bool          keep;            /* who lives of the last generation goes on in this one */
    int64_t       deadline_s;      /* when the machine will be taken away, Unix time; 0: not known */
    int           from;            /* the generation whose memory is resumed from; 0 = a checkpoint is */
    int64_t       snapshot_step;   /* of that memory */
    const json_t *plan;
    /* of the plan: so many, from the first on (agent/core/nccl_fallback.h) */
    int           fallbacks;
    const json_t *secrets;         /* NAME: value, or NULL */
};

/* What generations left in memory (agent/ranks/snapshot_memfds.h): the newest is resumed from,
 * unless the checkpoint is newer. */
void launch_env_recall(struct launch_env *e, const struct snapshot_memfds_claim *claims, int n);

/* NULL-terminated, one allocation: free() it. NULL: no memory. */
char **launch_env_make(const struct launch_env *e, int rank, char *const *inherited,
                       struct err *err);

/* A rank's row in the plan, be it of this node or of all; NULL: it has none. */
const json_t *launch_env_row(const struct launch_env *e, int rank);

/* How many ranks are on this node. */
int launch_env_local(const struct launch_env *e);

/* A TCP port that was free on all interfaces a moment ago; -1: none. */
int launch_env_free_port(struct err *err);

#endif
