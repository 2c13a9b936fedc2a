/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_model.c - see cluster_model.h */
#include "engine/dist/cluster_model.h"

#include <math.h>
#include <stdio.h>

#include "engine/dist/bucket_plan.h"

enum { NUMBER = 4 }; /* bytes of a gradient */

#define FORWARD (1.0 / 3) /* share of a step; the backward pass is the rest */

const struct cluster_model_net cluster_model_nets[2] = {
    {"NVSwitch, 400G per GPU", 3e-6, 450e9, 8e-6, 50e9, 0},
    {"NVSwitch, 25 GbE per node", 3e-6, 450e9, 30e-6, 3.125e9, 1},
};

static const char *const way_names[CLUSTER_MODEL_WAYS] = {"ddp", "zero1", "fsdp"};

/* A reduce-scatter or an all-gather of `bytes`, in `pieces`. */
static double collect(const struct cluster_model_net *net, double bytes, double pieces, int nodes, int gpus)
{
    double ports = net->ports ? net->ports : gpus;
    double alpha = (gpus - 1) * net->node_alpha + ceil(log2(nodes)) * net->wire_alpha;
    double here = bytes * (gpus - 1) / gpus / net->node_rate;
    double wire = bytes * (nodes - 1) / nodes / ports / net->wire_rate;
    return pieces * alpha + here + wire;
}

/* The part of `comm` that `beside` does not hide: at least the last of `pieces`. */
static double exposed(double comm, double beside, double pieces)
{
    double last = comm / pieces, rest = comm - beside * (1 - 1 / pieces);
    return rest > last ? rest : last;
}

struct cluster_model_cost cluster_model_cost(const struct cluster_model_net *net, const struct cluster_model_job *job,
                                             enum cluster_model_way way, int nodes, int gpus)
{
    double bytes = NUMBER * job->params, pieces = ceil(bytes / (double)bucket_plan_bytes((size_t)bytes));
    double one = collect(net, bytes, pieces, nodes, gpus);
    double forward = FORWARD * job->step_s, backward = job->step_s - forward;
    struct cluster_model_cost c = {0};
    int passes = way == CLUSTER_MODEL_FSDP ? 3 : 2;
    c.comm_s = passes * one;
    c.wire_bytes = passes * bytes * (nodes - 1) / nodes;
    switch (way) {
    case CLUSTER_MODEL_DDP: /* sum: scatter and gather overlap the backward pass */
        c.exposed_s = exposed(2 * one, backward, pieces);
        break;
    case CLUSTER_MODEL_ZERO1: /* scatter overlaps the backward pass; all wait for the weights */
        c.exposed_s = exposed(one, backward, pieces) + one;
        break;
    case CLUSTER_MODEL_FSDP: /* weights overlap both passes, scatter overlaps the backward pass */
    case CLUSTER_MODEL_WAYS:
        c.exposed_s = exposed(one, forward, pieces) + exposed(2 * one, backward, pieces);
        break;
    }
    if (nodes * gpus == 1)
        c = (struct cluster_model_cost){0};
    c.efficiency = job->step_s / (job->step_s + c.exposed_s);
    return c;
}

static void print_row(const struct cluster_model_net *net, const struct cluster_model_job *job, int nodes, int gpus)
{
    printf("  %5d", nodes * gpus);
    for (int w = 0; w < CLUSTER_MODEL_WAYS; w++) {
        struct cluster_model_cost c = cluster_model_cost(net, job, (enum cluster_model_way)w, nodes, gpus);
        printf("  %8.1f %8.1f %4.0f %%", 1e3 * c.comm_s, 1e3 * c.exposed_s, 100 * c.efficiency);
    }
    printf("  %7.2f GB\n", cluster_model_cost(net, job, CLUSTER_MODEL_DDP, nodes, gpus).wire_bytes * 1e-9);
}

void cluster_model_print(const struct cluster_model_job *job, int nodes, int gpus)
{
    printf("a model of communication, not a measurement: %.0f M parameters, gradients and weights\n"
           "of 4 bytes in buckets of %zu MiB, a step of %.1f ms on one GPU\n", job->params * 1e-6,
           bucket_plan_bytes((size_t)(NUMBER * job->params)) >> 20, 1e3 * job->step_s);
    for (int k = 0; k < 2; k++) {
        const struct cluster_model_net *n = &cluster_model_nets[k];
        printf("\n%s: %.0f GB/s and %.0f us within a node, %.4g GB/s and %.0f us between\n", n->name,
               n->node_rate * 1e-9, 1e6 * n->node_alpha, n->wire_rate * 1e-9, 1e6 * n->wire_alpha);
        printf("   GPUs");
        for (int w = 0; w < CLUSTER_MODEL_WAYS; w++)
            printf("  %-6s ms  exposed  eff.", way_names[w]);
        printf("  node sends\n");
        for (int i = 1; i < nodes; i *= 2)
            print_row(n, job, i, gpus);
        print_row(n, job, nodes, gpus);
    }
}
