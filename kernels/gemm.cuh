/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.cuh - row-major matrix products by cuBLASLt, loaded when the backend is opened
 *
 * c[m, n] = op(a)[m, k] op(b)[k, n] + beta c + bias[n], `batch` times with strides.
 * fp32 with fp32 inputs, or bf16 inputs summed in fp32; c and bias are fp32.
 */
#ifndef KERNELS_GEMM_CUH
#define KERNELS_GEMM_CUH

#include "kernels/device.cuh"

/* A matrix as a product reads it. */
struct operand {
    const void *at; /* float, or bf16 with KERN_BF16 */
    int         ld;
};

struct gemm {
    int            m, n, k;
    bool           ta, tb;   /* a is stored [k, m], b is stored [n, k] */
    struct operand a, b;
    float         *c;
    int            ldc;
    float          beta;
    const float   *bias;     /* or NULL */
    int            batch;
    int64_t        stride_a, stride_b, stride_c; /* in numbers */
};

/* The library and its workspace; on failure `why` has a sentence. */
static bool gemm_open(char *why, size_t size);
static void gemm_run(const char *name, const struct gemm *g);

/* x [rows, cols] with row distance ld, for the precision in force: as it is, or rounded into the
 * scratch memory named (good until that is taken again). */
static struct operand operand_take(enum scratch to, const float *x, size_t rows, int cols, int ld);
static const void *operand_at(struct operand o, size_t numbers);

#endif
