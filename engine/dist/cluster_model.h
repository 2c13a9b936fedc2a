/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_model.h - what communication would cost on a cluster that is not here: an alpha-beta
 * model
 *
 * A message takes alpha seconds plus its bytes over a bandwidth.  Collectives go within the
 * nodes first and then between them, a GPU for each slice; gradients go in buckets
 * while the backward pass runs.  Formulas: docs/DISTRIBUTED.md.  Nothing is measured but
 * the step of one GPU, which the caller brings; the rest are line rates.
 */
#ifndef ENGINE_DIST_CLUSTER_MODEL_H
#define ENGINE_DIST_CLUSTER_MODEL_H

struct cluster_model_net {
    const char *name;
    double      node_alpha, node_rate; /* between GPUs of a node: s, bytes/s of one GPU */
    double      wire_alpha, wire_rate; /* between nodes: of one port */
    int         ports;                 /* of a node; 0: one for each GPU */
};

enum cluster_model_way { CLUSTER_MODEL_DDP, CLUSTER_MODEL_ZERO1, CLUSTER_MODEL_FSDP,
                        CLUSTER_MODEL_WAYS };

struct cluster_model_job {
    double params;  /* numbers */
    double step_s;  /* one GPU's forward, backward and optimizer, on its part of the batch */
};

struct cluster_model_cost {
    double comm_s;      /* all collectives of a step */
    double exposed_s;   /*   of which nothing hides */
    double efficiency;  /* step_s / (step_s + exposed_s) */
    double wire_bytes;  /* that a node sends to others in a step */
};

extern const struct cluster_model_net cluster_model_nets[2]; /* NVSwitch + 400G a GPU; + 25 GbE a node */

struct cluster_model_cost cluster_model_cost(const struct cluster_model_net *net,
                                             const struct cluster_model_job *job,
                                             enum cluster_model_way way, int nodes, int gpus);

/* The assumptions, and a table from one node to `nodes`. */
void cluster_model_print(const struct cluster_model_job *job, int nodes, int gpus);

#endif
