/* SPDX-License-Identifier: Apache-2.0 */
/* train_env.h - settings of a run from environment variables, most of them set by the agent */
#ifndef ENGINE_TRAIN_TRAIN_ENV_H
#define ENGINE_TRAIN_TRAIN_ENV_H

#include <stdbool.h>
#include <stdint.h>

struct err;

/* Steps to skip because their loss was not finite; each given by the number of steps before it. */
enum { TRAIN_SKIPS = 16 };
struct train_skips {
    int     n;
    int64_t step[TRAIN_SKIPS];
};

struct train_env {
    const char *ckpt_dir;    /* JOBCTL_CKPT_DIR, or NULL */
    const char *flight;      /* JOBCTL_FLIGHT, or NULL */
    const char *backend;     /* --backend, JOBCTL_BACKEND, or NULL: auto */
    int         rank;        /* RANK, or 0 */
    int         world_size;  /* WORLD_SIZE, or 1 */
    struct train_skips skips; /* JOBCTL_SKIP_STEP=17 or 17,23 */
    int         desync_at;   /* JOBCTL_TEST_DESYNC: use the wrong batch from this step on; or 0 */
    int64_t     stop_at;     /* TRAIN_TEST_STOP=1:3:20,...: in generation 1 rank 3 stops itself (SIGSTOP) in step 20;
                              * of this rank and generation; -1: in none. A spec may set it, unlike JOBCTL_... */
    int         snapshot_every; /* TRAIN_TEST_SNAPSHOT_EVERY: on a GPU, steps between snapshots; 0: as measured */
    int         plain_input; /* TRAIN_TEST_PLAIN_INPUT=1: on a GPU, batches are made as on the CPU */
    const char *oom;         /* JOBCTL_TEST_OOM=HxW:N: out of memory with more than N samples of this size; or NULL */
    int64_t     until;       /* --until: end after this step; 0: after the spec's last step */
    bool        new_attempt; /* JOBCTL_ATTEMPT above 1, and its first generation */
    bool        again;       /* JOBCTL_ATTEMPT or JOBCTL_GENERATION above 1: the job ran before */
};

int train_env_read(struct train_env *env, struct err *err);

#endif
