/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - the compute device: chosen once per process, before any model exists
 *
 * The CPU's kernels are in this program; those of NVIDIA GPUs in
 * libjobctl_cuda.so, which is searched in $JOBCTL_CUDA (a file), beside this program,
 * and in ../lib of it.  The GPU is number $LOCAL_RANK; if ranks share $JOBCTL_SHARED_GPUS
 * GPUs, they are assigned round-robin.
 */
#ifndef ENGINE_MODEL_BACKEND_H
#define ENGINE_MODEL_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct kern_graphs;
struct kern_ops;
struct kern_profile;
struct kern_streams;

/* "auto", "cpu" or "cuda"; precision "auto", "fp32" or "bf16". NULL is "auto". Backend auto takes
 * the GPU if one works, else backend_note() gives the reason. Precision auto is bf16 on a GPU that
 * has it, else fp32 (the CPU, and GPUs before compute capability 8.0; backend_note() says so). A
 * second call may only repeat the first choice. ERR_USAGE: no such backend or precision;
 * ERR_NO_DEVICE: cuda was requested and cannot be used. */
int backend_open(const char *backend, const char *precision, struct err *err);

/* Do two GPUs copy to each other correctly (kernels/cuda.h)? 0, or -1 and ERR_NO_DEVICE. */
struct kern_peer;
int backend_try_peers(struct kern_peer *p, struct err *err);

/* The chosen table; the CPU's until backend_open(). */
const struct kern_ops *backend_ops(void);
/* Streams beside that of the kernels (kernels/cuda.h); NULL on the CPU. */
const struct kern_streams *backend_streams(void);
/* CUDA graphs (kernels/cuda.h); NULL on the CPU, or if disabled. */
const struct kern_graphs *backend_graphs(void);
/* Durations of kernels (kernels/cuda.h); NULL on the CPU. */
const struct kern_profile *backend_profile(void);
/* Keep the algorithm choices for matrix products in this file, and use those it holds
 * (kernels/cuda.h). */
void backend_remember(const char *file);
bool backend_is_bf16(void);       /* Are the inputs of products rounded? */
int backend_sharers(void);        /* ranks that share this rank's GPU; 1 if it is alone */
const char *backend_device(void); /* "cpu", or the GPU's name */
const char *backend_note(void);   /* a sentence for people, or "" */

/* Have all calls so far succeeded? 0, or ERR_DEVICE_MEMORY, ERR_DEVICE or ERR_CUDA. Waits for them. */
int backend_check(const struct kern_ops *ops, struct err *err);

/* Purposes of memory. */
enum backend_use {
    USE_WEIGHTS,
    USE_GRADIENTS,
    USE_OPTIMIZER,   /* moments, or CAME's factors */
    USE_EMA,
    USE_ACTIVATIONS, /* kept from the forward pass for the backward pass */
    USE_BACKWARD,    /* gradients of activations */
    USE_INPUTS,      /* batches, outputs, losses, tables */
    USE_PICTURES,    /* a model for sampling, beside the one in training */
    USE_WORKSPACE,   /* allocated by kernels on demand */
    USE_EXCHANGE,    /* buffers of collectives */
    USE_HOST,        /* host copies of a device's arrays */
    USES
};

const char *backend_use_name(enum backend_use use); /* "optimizer state" */

/* alloc() of the table; or NULL: ERR_MEMORY or ERR_DEVICE_MEMORY. */
void *backend_alloc(const struct kern_ops *ops, size_t bytes, enum backend_use use, struct err *err);
/* Zeroed host memory for the copy of a device's array, or NULL; release with backend_host_free(). */
void *backend_host(size_t bytes, struct err *err);
void backend_host_free(void *p);

/* For engine/optim/memory.c: until backend_count_end(), allocations are only counted, as on a
 * device or on the CPU. Models may be created and destroyed, but their arrays must not be
 * accessed. */
struct backend_count {
    int64_t bytes[USES];
};
void backend_count_begin(struct backend_count *count, bool device, bool bf16);
void backend_count_end(void);

#endif
