/* SPDX-License-Identifier: Apache-2.0 */
/* plan_internal.h - what the plan*.c files share; nobody else */
#ifndef AGENT_PLAN_PLAN_INTERNAL_H
#define AGENT_PLAN_PLAN_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>

struct err;

enum { PLAN_GPUS_MOST = 64, PLAN_RANKS_MOST = 1024 };

/* A device that ranks can be given: a whole GPU, or the one slice of a divided one. */
struct plan_gpu {
    const json_t *facts;  /* of the GPU that it is, or is a part of */
    const char   *uuid;   /* of the GPU, or of the slice */
    bool          slice;
};

/* The plan in the making. */
struct plan_view {
    const json_t   *facts, *spec, *resources;
    bool            engine, share;
    int             nodes;
    struct plan_gpu gpu[PLAN_GPUS_MOST]; /* `present` that could be used, the first `gpus` are */
    int             present, gpus;
    bool            chosen;              /* the job itself named its GPUs */
    int             left_out;            /* GPUs that are here but cannot be used */
    char            first_left_out[160]; /* the first of them, with its reason */
    int             np;                  /* ranks of this node */
    int             cpus;                /* that the job may use */
    char            why[160];
    json_t         *plan, *env, *notes;
};

/* plan_builder.c: "" where there is no such text. */
const char *plan_text(const json_t *object, const char *key);
bool plan_true(const json_t *object, const char *key);

/* Does this variable only say where NCCL's own words go? */
bool plan_is_words(const json_t *row);

void plan_note(struct plan_view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A variable for every rank. fact: what was seen; confidence: "high", "medium" or "low". */
void plan_set(struct plan_view *v, const char *name, const char *value, const char *why,
              const char *fact, const char *confidence);

/* Names the plan by what is in it, but for where NCCL writes its log. */
void plan_set_hash(json_t *plan);

/* plan_gpus.c: fills gpu and present, with a note for each GPU that is left out. -1: the job's own
 * CUDA_VISIBLE_DEVICES names what is not there, or one GPU twice. */
int plan_find_gpus(struct plan_view *v, struct err *err);

/* What joins those in use, counted over their pairs. */
struct plan_pairs {
    int pairs, direct, through_switch; /* all; by NVLink, straight or through a switch */
    int unreadable;                    /* without NVLink, and P2P is refused by driver or hardware */
    int near;                          /* without NVLink, P2P permitted, at most PCIe switches apart */
    int far;                           /* the same, further apart */
    int broken; /* of all, copies were tried and failed (agent/plan/gpu_selftest.h) */
    int unknown;                       /* whether P2P is permitted is not known */
};
void plan_count_pairs(struct plan_pairs *out, const struct plan_view *v);

/* plan_nccl.c: the variables of NCCL, what it will make of the machine, and what to heed. */
void plan_set_nccl(struct plan_view *v);
/* The interface on which this node talks to others, "" if none is known. */
const char *plan_interface(const struct plan_view *v);
/* RDMA ports that are up. */
int plan_rdma_ports(const struct plan_view *v);
bool plan_rdma_is_ethernet(const struct plan_view *v); /* there is some, and none of InfiniBand */
bool plan_has_efa(const struct plan_view *v);
/* NCCL uses P2P up to PCIe switches; on AMD hosts with two GPUs, everywhere. */
bool plan_p2p_everywhere(const struct plan_view *v);

/* plan_fallback.c: what two ranks that were tried needed; and what the next start would change
 * after a hang before the first step. */
void plan_set_fallbacks(struct plan_view *v);
void plan_add_fallbacks(struct plan_view *v);

/* plan_user_env.c: the job's own variables and inherited ones, judged. -1: one of them cannot be.
 * */
int plan_take_user_env(struct plan_view *v, struct err *err);

#endif
