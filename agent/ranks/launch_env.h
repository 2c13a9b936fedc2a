/* SPDX-License-Identifier: Apache-2.0 */
/* launch_env.h - builds the environment of a rank, or of the setup
 *
 * Sources in this order, later ones override: the environment of the job's submitter, else the agent's, without
 * variables of other launchers; the plan; the variables of torchrun and jobctl; the job's `env:`; its secrets.
 */
#ifndef AGENT_RANKS_LAUNCH_ENV_H
#define AGENT_RANKS_LAUNCH_ENV_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/core/submit_env.h"

struct buf;
struct err;
struct snapshot_memfds_claim;

/* Settings common to all ranks of a generation. */
struct launch_env {
    int64_t       job, attempt;
    int           generation;      /* 0: the setup */
    const char   *name;            /* of the job */
    const char   *nonce;
    const char   *run_dir, *ckpt_dir;
    const char   *workdir;         /* directory that the code was copied from; NULL or "": the code is not a copy */
    int           world_size;      /* number of ranks on all nodes */
    int first_rank;                /* lowest rank on this node */
    int local_ranks;               /* number of ranks on this node; 0: all */
    int           node_rank;
    int nodes;                     /* 0 or 1: single node */
    const char *node_ranks;        /* ranks per node, "4,4,2"; NULL: one node */
    const char *node_addr;         /* address of this node for other nodes; NULL: unknown */
    const char *master_addr;       /* address of node 0 for other nodes; NULL: loopback */
    int           master_port;     /* 0: ranks_start() chooses one */
    int ras_port;                  /* port of NCCL's RAS for this generation; 0 = RAS not used */
    int           event_fd, control_fd; /* numbers in the child; -1 = none */
    int snapshot_fd;                    /* the rank's own snapshot memory; 0 = none */
    int old_fd,
        old_fds;      /* snapshot memory of an earlier generation: first descriptor, and how many */
    int64_t restarts; /* restart limit */
    int64_t resume_step; /* a checkpoint's step; -1 = not known */
    int64_t skip_step;   /* step to skip; -1 = none */
    bool forget;         /* do not resume from memory */
    bool pull;           /* generation 0: pulls the job's image instead of running its setup */
    bool fetch;          /* generation 0: downloads the models on a hub that the job names, instead of running its
                          * setup */
    bool rejoin;         /* ranks that lost a peer may wait for the next generation */
    bool keep;           /* live ranks of the last generation continue in this one */
    int64_t deadline_s;  /* Unix time at which the machine ends; 0: not known */
    int from;            /* generation whose memory to resume from; 0 = resume from a checkpoint */
    int64_t snapshot_step; /* step in that memory */
    const json_t *plan;
    bool gpus_moved;     /* the numbers of the plan's GPUs are not theirs any more: by UUID */
    /* number of the plan's fallbacks to set (agent/core/nccl_fallback.h) */
    int           fallbacks;
    const char *fence;             /* fence of ckpt_dir's lease; NULL or "": the directory is the job's own */
    const json_t *secrets;         /* NAME: value, or NULL */
    char *const *base;             /* launch_env_base(); NULL: the agent's own environment */
};

/* Chooses from the snapshots of earlier generations (agent/ranks/snapshot_memfds.h): resumes from the newest, unless
 * the checkpoint is newer. */
void launch_env_recall(struct launch_env *e, const struct snapshot_memfds_claim *claims, int n);

/* The environment of a job on this node, from the agent's `own` and the submitter's entries (env_file.h).
 * NULL-terminated, in one allocation: free() it. NULL: no memory. */
char **launch_env_base(enum submit_env_place place, char *const *own, const struct buf *entries);

/* NULL-terminated, in one allocation: free() it. NULL: no memory. */
char **launch_env_make(const struct launch_env *e, int rank, char *const *inherited, struct err *err);

/* A rank's row in the plan of this node or of all; NULL: none. */
const json_t *launch_env_row(const struct launch_env *e, int rank);

/* The number of ranks on this node. */
int launch_env_local(const struct launch_env *e);

/* A TCP port that is currently free on all interfaces; -1: none. */
int launch_env_free_port(struct err *err);

#endif
