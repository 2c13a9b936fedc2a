/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_model.h - alpha-beta model of the cost of communication on a larger cluster
 *
 * A message takes alpha seconds plus its bytes divided by a bandwidth.  Collectives run within the
 * nodes first and then between them, one GPU per slice; gradients are reduced in buckets
 * during the backward pass.  Formulas: docs/DISTRIBUTED.md.  Only one GPU's step time is measured (by the caller);
 * bandwidths are line rates.
 */
#ifndef ENGINE_DIST_CLUSTER_MODEL_H
#define ENGINE_DIST_CLUSTER_MODEL_H

struct cluster_model_net {
    const char *name;
    double      node_alpha, node_rate; /* between GPUs of a node: s, bytes/s of one GPU */
    double      wire_alpha, wire_rate; /* between nodes: of one port */
    int         ports;                 /* ports per node; 0: one per GPU */
};

enum cluster_model_way { CLUSTER_MODEL_DDP, CLUSTER_MODEL_ZERO1, CLUSTER_MODEL_FSDP,
                        CLUSTER_MODEL_WAYS };

struct cluster_model_job {
    double params;  /* numbers */
    double step_s;  /* forward, backward and optimizer of one GPU, on its part of the batch */
};

struct cluster_model_cost {
    double comm_s;      /* all collectives of a step */
    double exposed_s;   /* ... the part not hidden by computation */
    double efficiency;  /* step_s / (step_s + exposed_s) */
    double wire_bytes;  /* that a node sends to others per step */
};

extern const struct cluster_model_net cluster_model_nets[2]; /* NVSwitch + 400G; + 25 GbE */

struct cluster_model_cost cluster_model_cost(const struct cluster_model_net *net, const struct cluster_model_job *job,
                                             enum cluster_model_way way, int nodes, int gpus);

/* Prints the assumptions, and a table from one node to `nodes`. */
void cluster_model_print(const struct cluster_model_job *job, int nodes, int gpus);

#endif
