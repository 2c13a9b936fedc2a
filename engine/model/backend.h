/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - which device computes: one choice per process, made before any model exists
 *
 * The CPU's kernels are in this program; those of NVIDIA GPUs in
 * libjobctl_cuda.so (on the GPU whose number is $LOCAL_RANK; where ranks share $JOBCTL_SHARED_GPUS of
 * them, in turn), looked for in $JOBCTL_CUDA (a file), beside this program,
 * and in ../lib of it.
 */
#ifndef ENGINE_MODEL_BACKEND_H
#define ENGINE_MODEL_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct kern_graphs;
struct kern_ops;
struct kern_streams;

/* "auto", "cpu" or "cuda"; precision "auto", "fp32" or "bf16" (auto: bf16 on a GPU that has it; the
 * CPU and GPUs before compute capability 8.0 have fp32 only, and backend_note() says so). NULL is "auto". auto takes the GPU if there is one that works; else
 * backend_note() says why not. A second call may only repeat the first one's choice.
 * ERR_USAGE: no such backend or precision; ERR_NO_DEVICE: cuda was asked for and cannot be. */
int backend_open(const char *backend, const char *precision, struct err *err);

/* Whether two GPUs copy to each other rightly (kernels/cuda.h): 0, or -1 and ERR_NO_DEVICE. */
struct kern_peer;
int backend_try_peers(struct kern_peer *p, struct err *err);

/* The chosen table; the CPU's until backend_open(). */
const struct kern_ops *backend_ops(void);
/* Streams beside that of the kernels (kernels/cuda.h); NULL on the CPU. */
const struct kern_streams *backend_streams(void);
/* Recordings of calls (kernels/cuda.h); NULL on the CPU, or where they are not wanted. */
const struct kern_graphs *backend_graphs(void);
/* Keep what is found out about products in this file, and use what it says; see kernels/cuda.h. */
void backend_remember(const char *file);
bool backend_is_bf16(void);       /* whether inputs of products are rounded */
int backend_sharers(void);        /* ranks that are on this one's GPU; 1 where it is alone */
const char *backend_device(void); /* "cpu", or the GPU's name */
const char *backend_note(void);   /* a sentence for people, or "" */

/* Whether all calls so far have worked: 0, or ERR_DEVICE_MEMORY or ERR_DEVICE. Waits for them. */
int backend_check(const struct kern_ops *ops, struct err *err);

/* What memory is for. */
enum backend_use {
    USE_WEIGHTS,
    USE_GRADIENTS,
    USE_OPTIMIZER,   /* moments, or CAME's factors */
    USE_EMA,
    USE_ACTIVATIONS, /* kept from the forward pass for the backward pass */
    USE_BACKWARD,    /* gradients on their way back */
    USE_INPUTS,      /* batches, outputs, losses, tables */
    USE_PICTURES,    /* a model that draws, beside the one that learns */
    USE_WORKSPACE,   /* taken by kernels as they need it */
    USE_EXCHANGE,    /* between ranks */
    USE_HOST,        /* this process's copies of a device's arrays */
    USES
};

const char *backend_use_name(enum backend_use use); /* "optimizer state" */

/* alloc() of the table: ERR_MEMORY or ERR_DEVICE_MEMORY. */
int backend_alloc(const struct kern_ops *ops, void **out, size_t bytes, enum backend_use use,
                  struct err *err);
/* Zeroed memory of this process beside a device's array; for backend_host_free(). */
int backend_host(void **out, size_t bytes, struct err *err);
void backend_host_free(void *p);

/* For engine/optim/memory.c: until backend_count_end(), what is made is only counted, as on a
 * device or on the CPU. It may be created and destroyed, with addresses that nobody may follow. */
struct backend_count {
    int64_t bytes[USES];
};
void backend_count_begin(struct backend_count *count, bool device, bool bf16);
void backend_count_end(void);

#endif
