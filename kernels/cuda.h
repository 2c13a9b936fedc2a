/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - the one door into libjobctl_cuda.so, which is loaded when it is wanted
 *
 * The plugin holds the CUDA kernels with their runtime, so that the program
 * itself starts on any machine.  Program and plugin are built from one source:
 * `ops_size` says whether they were.
 */
#ifndef KERNELS_CUDA_H
#define KERNELS_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct kern_ops;

enum kern_precision {
    KERN_FP32, /* for comparison with the CPU and the authors' numbers */
    KERN_BF16  /* inputs of matrix products rounded to bf16; sums, weights, all else fp32 */
};

enum kern_cuda_result {
    KERN_CUDA_READY,
    KERN_CUDA_OTHER_BUILD,  /* plugin and program do not fit */
    KERN_CUDA_NO_DRIVER,    /* no NVIDIA driver is loaded */
    KERN_CUDA_OLD_DRIVER,   /* there is one, older than this plugin needs */
    KERN_CUDA_NO_DEVICE,    /* a driver, and no GPU it shows to this process */
    KERN_CUDA_NO_LIBRARY,   /* cuBLASLt is missing or lacks a function */
    KERN_CUDA_UNUSABLE,     /* the GPU refuses: too old, exclusive, broken */
    KERN_CUDA_NO_BF16       /* the GPU computes in fp32 only: ask for that */
};

/* What collectives between GPUs need besides memory: a stream of their own beside the kernels', and
 * marks that say how far a stream has come.  Nothing here waits.  A failure is told by
 * kern_ops.state(). */
struct kern_streams {
    void *(*open)(void);                      /* NULL: it failed */
    void (*close)(void *stream);
    void *(*mark)(void *stream);              /* after all asked of it so far; NULL: the kernels' */
    int (*reached)(void *mark);               /* 1; 0: not yet; -1: the device failed */
    int (*follow)(void *stream, void *mark);  /* what is asked of it from now on waits for the mark */
    void (*drop)(void *mark);
    /* An array's bytes to this process's memory, in the stream's order; -1. Into memory that is not
     * pinned the call may wait for them. */
    int (*fetch)(void *stream, void *to, const void *from, size_t bytes);
    int (*pin)(void *at, size_t bytes);       /* -1: the system does not permit so much */
    void (*unpin)(void *at);
};

/* Calls of kernels written down once, to be asked for at once: a CUDA graph. What is written down
 * are addresses and numbers, so it is good only for the same of both, and until `moves` changes. */
struct kern_graphs {
    int (*begin)(void);        /* from here on calls are written down, not run; -1: they cannot be */
    void *(*end)(void);        /* NULL: they could not; nothing has run, and all is well */
    void (*run)(void *graph);  /* in the kernels' stream, after all before */
    void (*drop)(void *graph);
    unsigned (*moves)(void);
};

/* The first block is filled by the caller, the second by kern_cuda_open(). */
struct kern_cuda {
    size_t              ops_size;   /* KERN_CUDA_SIZE: of the tables both must know */
    int                 device;     /* number among those CUDA shows */
    enum kern_precision precision;

    const struct kern_streams *streams;
    const struct kern_graphs *graphs; /* NULL: not wanted */
    /* From now on algorithms of matrix products are taken from this file, and what is found by
     * trying is added to it: who goes on with a run then has its bits. NULL: forget the file. */
    void (*remember)(const char *file);
    const struct kern_ops *ops;     /* constant; lives until the process ends */
    char name[128];                 /* "NVIDIA H200" */
    char why[256];                  /* a sentence without full stop, unless READY */
};

#define KERN_CUDA_SIZE \
    (sizeof(struct kern_ops) + sizeof(struct kern_streams) + sizeof(struct kern_graphs) + \
     sizeof(struct kern_cuda))

/* One device per process: the first call decides, later ones get the same table if they ask for
 * the same. Returns an enum kern_cuda_result. */
#ifdef __cplusplus
extern "C"
#endif
int kern_cuda_open(struct kern_cuda *c);

typedef int (*kern_cuda_open_fn)(struct kern_cuda *c);

/* Two GPUs by their numbers, and what about a second of copies between them has shown. */
struct kern_peer {
    int     a, b;
    int     direct;       /* the driver permits it; else nothing was tried */
    int64_t words, wrong; /* sent, of 8 bytes; those that arrived as others */
    double  bytes_per_s;  /* the best */
    char    why[256];     /* after -1: a sentence without full stop */
};

/* 0, or -1. Where the way is broken it may never return: call it in a process of its own, which has
 * not called kern_cuda_open(). */
#ifdef __cplusplus
extern "C"
#endif
int kern_cuda_peer(struct kern_peer *p);

typedef int (*kern_cuda_peer_fn)(struct kern_peer *p);

#endif
