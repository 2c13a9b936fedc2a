/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.cuh - row-major matrix products by cuBLASLt, which is loaded when the backend is opened
 *
 * c[m, n] = op(a)[m, k] op(b)[k, n] + beta c + bias[n], `batch` times with strides.
 * a and b are narrow (kernels.h), c narrow or fp32, bias of the same type as c (required by
 * cuBLASLt), sums fp32.  In a product for the gradient of a weight the row sums of op(a)
 * are the gradient of the bias: cuBLASLt can compute them in the same pass.
 */
#ifndef KERNELS_GEMM_CUH
#define KERNELS_GEMM_CUH

#include "kernels/device.cuh"

struct gemm {
    int            m, n, k;
    bool           ta, tb;   /* a is stored [k, m], b is stored [n, k] */
    const void    *a, *b;
    int            lda, ldb;
    void          *c;
    bool           wide;     /* c is fp32 */
    int            ldc;
    float          beta;
    const void    *bias;     /* or NULL */
    float         *row_sums; /* of op(a), [m], with an fp32 c and without bias; or NULL */
    int            batch;
    int64_t        stride_a, stride_b, stride_c; /* in numbers */
};

/* Loads the library; on failure `why` gets a sentence. */
static bool gemm_open(const char *gpu, char *why, size_t size);
static void gemm_remember(const char *file); /* see cuda.h */
/* false: row_sums were requested but not computed, because that is impossible or, by the clock, slower. */
static bool gemm_run(const char *name, const struct gemm *g);
/* Add the sums of op(a)'s rows to `to` [m]: those that came with the product; from a separate pass (matmul.cu). */
static void gemm_sums_come(const struct gemm *g, float *to);
static void gemm_sums_apart(const struct gemm *g, float *to);
/* Whether to request row_sums: the option `bgrad` of $JOBCTL_CUDA_WAYS. */
static bool gemm_sums(void);

#endif
