/* SPDX-License-Identifier: Apache-2.0 */
/* sgemm.h - bare matrix products, for benchmarks
 *
 * BLAS alone is the reference speed of a training step: this runs the
 * three products of a linear layer, with either way of using all cores.
 */
#ifndef KERNELS_SGEMM_H
#define KERNELS_SGEMM_H

enum sgemm_kind {
    SGEMM_FORWARD, /* c[m,n] = a[m,k] b[n,k]^T */
    SGEMM_INPUT,   /* c[m,k] = a[m,n] b[n,k] */
    SGEMM_WEIGHT   /* c[n,k] = a[m,n]^T b[m,k] */
};

enum sgemm_threads {
    SGEMM_SPLIT, /* split among our threads, as the kernels do */
    SGEMM_BLAS   /* one call with the threads of BLAS; afterwards BLAS has one thread again */
};

void sgemm_run(enum sgemm_kind kind, enum sgemm_threads threads, float *c, const float *a,
               const float *b, int m, int k, int n);

/* Threads that a step uses. */
int sgemm_thread_count(void);

#endif
