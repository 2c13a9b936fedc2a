/* SPDX-License-Identifier: Apache-2.0 */
/* plan_internal.h - declarations shared by plan*.c only */
#ifndef AGENT_PLAN_PLAN_INTERNAL_H
#define AGENT_PLAN_PLAN_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>

struct err;

enum { PLAN_GPUS_MOST = 64, PLAN_RANKS_MOST = 1024 };

/* A device for ranks: a whole GPU, or the one MIG slice of a GPU. */
struct plan_gpu {
    const json_t *facts;  /* the GPU's, also for a slice */
    const char   *uuid;   /* the GPU's, or the slice's */
    bool          slice;
};

/* A plan being built. */
struct plan_view {
    const json_t   *facts, *spec, *resources;
    bool            engine, share;
    int             nodes;
    struct plan_gpu
        gpu[PLAN_GPUS_MOST]; /* `present` usable devices, of which the first `gpus` are used */
    int             present, gpus;
    bool            chosen;              /* the job itself named its GPUs */
    int left_out;                        /* GPUs that are present but not used */
    char            first_left_out[160]; /* the first of those, with its reason */
    int  hidden;                         /* usable GPUs hidden by the environment's CUDA_VISIBLE_DEVICES ... */
    char hidden_by[64];                  /* ... and its value */
    int             np;                  /* number of ranks on this node */
    int cpus;                            /* CPUs that the job may use */
    char            why[160];
    json_t         *plan, *env, *notes;
};

/* Does this variable only configure NCCL's log? */
bool plan_is_words(const json_t *row);

/* plan_builder.c */
void plan_note(struct plan_view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void plan_note_harm(struct plan_view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Sets a variable for every rank. fact: the evidence; confidence: "high", "medium" or "low". */
void plan_set(struct plan_view *v, const char *name, const char *value, const char *why,
              const char *fact, const char *confidence);

/* Sets it only if the environment does not have it already, as torchrun does. */
void plan_set_unset(struct plan_view *v, const char *name, const char *value, const char *why, const char *fact);

/* Hashes the content of the plan, except NCCL's log settings. */
void plan_set_hash(json_t *plan);

/* plan_gpus.c: fills gpu and present, with a note for each GPU that is not used. -1: the job's
 * own CUDA_VISIBLE_DEVICES names a GPU that does not exist, or one GPU twice. */
int plan_find_gpus(struct plan_view *v, struct err *err);

/* Has nothing failed? */
bool plan_gpu_healthy(const json_t *gpu);

/* Connections between the GPUs in use, counted over their pairs. */
struct plan_pairs {
    int pairs, direct, through_switch; /* all; by NVLink, directly or through a switch */
    int unreadable;                    /* without NVLink, and P2P is refused by driver or hardware */
    int near;    /* without NVLink, P2P permitted, only PCIe switches between them */
    int far;     /* the same, but farther apart */
    int broken;  /* among all: the copy self-test failed (agent/plan/gpu_selftest.h) */
    int unknown; /* P2P status unknown */
};
void plan_count_pairs(struct plan_pairs *out, const struct plan_view *v);

/* plan_nccl.c: NCCL variables, the expected transport, and warnings. */
void plan_set_nccl(struct plan_view *v);
/* The interface of this node that reaches other nodes, "" if unknown. */
const char *plan_interface(const struct plan_view *v);
/* The number of active RDMA ports. */
int plan_rdma_ports(const struct plan_view *v);
bool plan_rdma_is_ethernet(const struct plan_view *v); /* some ports, none of InfiniBand */
/* NCCL uses P2P across PCIe switches; on AMD hosts with two GPUs, at any distance. */
bool plan_p2p_everywhere(const struct plan_view *v);

/* plan_fallback.c: variables that the self-test showed to be necessary; and those to add after a
 * hang before the first step. */
void plan_set_fallbacks(struct plan_view *v);
void plan_add_fallbacks(struct plan_view *v);

/* plan_container.c: the runtime for the job's image. -1: this node cannot run it. */
int plan_set_container(struct plan_view *v, struct err *err);

/* plan_user_env.c: checks the job's own variables and inherited ones. -1: one of them must not
 * be set. */
int plan_take_user_env(struct plan_view *v, struct err *err);

#endif
