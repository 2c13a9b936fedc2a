/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - interface of libjobctl_cuda.so, the CUDA plugin, which is loaded on demand
 *
 * The plugin holds the CUDA kernels and links the CUDA runtime, so that the program
 * itself starts on any machine.  Program and plugin are built from one source;
 * `ops_size` detects a mismatch.
 */
#ifndef KERNELS_CUDA_H
#define KERNELS_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kern_ops;

enum kern_precision {
    KERN_FP32, /* for comparison with the CPU and with the authors' results */
    KERN_BF16  /* inputs of matrix products rounded to bf16; sums, weights and the rest fp32 */
};

enum kern_cuda_result {
    KERN_CUDA_READY,
    KERN_CUDA_OTHER_BUILD,  /* plugin and program have different versions */
    KERN_CUDA_NO_DRIVER,    /* no NVIDIA driver is loaded */
    KERN_CUDA_OLD_DRIVER,   /* the driver is older than this plugin needs */
    KERN_CUDA_NO_DEVICE,    /* the driver shows this process no GPU */
    KERN_CUDA_NO_LIBRARY,   /* cuBLASLt is missing or lacks a function */
    KERN_CUDA_UNUSABLE,     /* the GPU refuses: too old, in exclusive use, or faulty */
    KERN_CUDA_NO_BF16       /* the GPU computes in fp32 only: request fp32 */
};

/* For collectives between GPUs: a stream beside that of the kernels, and events that mark the progress of a stream. No
 * call here waits. kern_ops.state() reports a failure. */
struct kern_streams {
    /* Blocks of an urgent stream's kernels go to the GPU before those of others that wait. NULL: failure */
    void *(*open)(bool urgent);
    void (*close)(void *stream);
    void *(*mark)(void *stream);              /* after all calls so far; NULL: kernels' stream */
    int (*reached)(void *mark);               /* 1: reached; 0: not yet; -1: the device failed */
    /* Calls queued from now on wait for the event; NULL: those of the kernels' stream. */
    int (*follow)(void *stream, void *mark);
    void (*drop)(void *mark);
    /* Copy device memory to host memory, in stream order; -1: failure. The call may block if the
     * host memory is not pinned. */
    int (*fetch)(void *stream, void *to, const void *from, size_t bytes);
    int (*pin)(void *at, size_t bytes);       /* -1: the system's limit is reached; from any thread */
    void (*unpin)(void *at, size_t bytes);    /* what pin() was called with */
};

/* A CUDA graph: kernel calls recorded once and replayed with one call. A recording holds addresses
 * and sizes; it is valid only for the same ones, and until `moves` changes. */
struct kern_graphs {
    int (*begin)(void);        /* record calls from here on, do not run them; -1: impossible */
    void *(*end)(void);        /* NULL: recording failed; nothing ran, the device is usable */
    void (*run)(void *graph);  /* in the kernels' stream, after all earlier calls */
    void (*drop)(void *graph);
    unsigned (*moves)(void);
};

/* In a profile, all calls of one kernel by one operation, with one grid; or of one matrix product, or of one kind of
 * copy. */
struct kern_profile_row {
    char     op[32];     /* as kernels.h and messages name it: "cross_attn" */
    char     kernel[96]; /* "flash_kernel<112,8>"; "": a product, a copy, or the toolkit (before CUDA 12.3) cannot tell */
    unsigned grid[3];    /* 0 for products and copies */
    int64_t  m, n, k;    /* sizes of a product, all of its batch in m; else 0 */
    long     calls;
    double   ms, least;  /* of all calls together; of the shortest one */
};

/* Durations of calls, by an event before and one after each. Replays of recorded calls (kern_graphs) have no rows. */
struct kern_profile {
    void (*start)(void);
    /* Waits for all calls since start(). Rows in the order of their first calls, valid until the next start(); NULL: the
     * device failed. */
    const struct kern_profile_row *(*stop)(int *rows);
};

/* The caller fills the first block, kern_cuda_open() the second. */
struct kern_cuda {
    size_t              ops_size;   /* KERN_CUDA_SIZE: size of the tables that both sides share */
    int                 device;     /* device number among those that CUDA shows */
    enum kern_precision precision;

    const struct kern_streams *streams;
    const struct kern_graphs *graphs; /* NULL: not needed */
    const struct kern_profile *profile;
    /* Read the algorithm choices for matrix products from this file, and append new choices to it:
     * a resumed run then computes the same bits. NULL: stop using a file. */
    void (*remember)(const char *file);
    const struct kern_ops *ops;     /* constant; lives until the process ends */
    char name[128];                 /* "NVIDIA H200" */
    char why[256];                  /* a sentence without full stop, unless READY */
};

#define KERN_CUDA_SIZE \
    (sizeof(struct kern_ops) + sizeof(struct kern_streams) + sizeof(struct kern_graphs) + \
     sizeof(struct kern_profile) + sizeof(struct kern_profile_row) + sizeof(struct kern_cuda))

/* One device per process: the first call decides, a later call gets the same table if its request
 * is the same. Returns an enum kern_cuda_result. */
#ifdef __cplusplus
extern "C"
#endif
int kern_cuda_open(struct kern_cuda *c);

typedef int (*kern_cuda_open_fn)(struct kern_cuda *c);

/* Two GPUs by number, and the results of about one second of copies between them. */
struct kern_peer {
    int     a, b;
    int     direct;       /* the driver permits peer access; if not, no copy was tried */
    int64_t words, wrong; /* 8-byte numbers sent, and those that arrived changed */
    double  bytes_per_s;  /* the best rate */
    char    why[256];     /* after -1: a sentence without full stop */
};

/* 0, or -1. On a broken path the call may hang: call it in a separate process that has not called kern_cuda_open(). */
#ifdef __cplusplus
extern "C"
#endif
int kern_cuda_peer(struct kern_peer *p);

typedef int (*kern_cuda_peer_fn)(struct kern_peer *p);

#endif
