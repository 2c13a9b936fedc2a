/* SPDX-License-Identifier: Apache-2.0 */
/* cublaslt_cpu.cc - cuBLASLt as this project calls it: columns first, naive, summed in double
 *
 * An algorithm holds for the alignments it was asked for: a product whose
 * pointers are aligned less ends the program, as it would be wrong on a GPU.
 * CUDA_CPU_FAIL=algorithm: there is none for any product; bgrad: none that sums b's columns.
 *
 * Of several algorithms that are asked for, the first does not work, the second is
 * slow, the third is the fastest one.  CUDA_CPU_REPORT set: at the end a line says
 * how often each of them has been run.
 */
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <stdio.h>
#include <stdlib.h>

struct cuda_cpu_desc {
    cublasOperation_t  ta, tb;
    cublasLtEpilogue_t end;
    void              *bias;
};

struct cuda_cpu_layout {
    cudaDataType_t type;
    int64_t        rows, cols, ld, stride;
    int32_t        batch;
};

struct cuda_cpu_preference {
    uint32_t align[4];
};

enum { OFFERS = 3, BROKEN = 0 };
static const float cost[OFFERS] = {0.1f, 3.0f, 1.0f};
static long        runs[OFFERS], sums;

static void report(void)
{
    fprintf(stderr, "cublaslt_cpu: run: the slow algorithm %ld times, the fast one %ld times, "
                    "columns summed %ld times\n", runs[1], runs[2], sums);
}

static void die(const char *what)
{
    fprintf(stderr, "cublaslt_cpu: %s\n", what);
    abort();
}

extern "C" cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = NULL;
    if (getenv("CUDA_CPU_REPORT"))
        atexit(report);
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" size_t cublasLtGetVersion(void)
{
    return 130000;
}

extern "C" cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    delete d;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    delete l;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t,
                                                   cudaDataType_t scale)
{
    *d = new cuda_cpu_desc{CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL};
    return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

extern "C" cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                                         cublasLtMatmulDescAttributes_t what,
                                                         const void *from, size_t size)
{
    if (size != (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof(void *) : sizeof(int32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA: memcpy(&d->ta, from, size); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: memcpy(&d->tb, from, size); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: memcpy(&d->end, from, size); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: memcpy(&d->bias, from, size); break;
    }
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l,
                                                     cudaDataType_t type, uint64_t rows,
                                                     uint64_t cols, int64_t ld)
{
    *l = new cuda_cpu_layout{type, (int64_t)rows, (int64_t)cols, ld, 0, 1};
    return ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

extern "C" cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                           cublasLtMatrixLayoutAttribute_t what,
                                                           const void *from, size_t size)
{
    const bool count = what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    if (size != (count ? sizeof(l->batch) : sizeof(l->stride)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(count ? (void *)&l->batch : (void *)&l->stride, from, size);
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = new cuda_cpu_preference{{256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                     cublasLtMatmulPreferenceAttributes_t what, const void *from,
                                     size_t size)
{
    const int which = (int)what - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return size == sizeof(uint32_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    if (which < 0)
        return size == sizeof(size_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    if (size != sizeof(uint32_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&p->align[which], from, size);
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t, cublasLtMatmulPreference_t p, int wanted,
                               cublasLtMatmulHeuristicResult_t *found, int *count)
{
    const char *fail = getenv("CUDA_CPU_FAIL");
    *count = 0;
    if (d->end != CUBLASLT_EPILOGUE_DEFAULT && !d->bias)
        die("the bias must be there before algorithms are asked for: they depend on its alignment");
    if (fail && (strcmp(fail, "algorithm") == 0 ||
                 (strcmp(fail, "bgrad") == 0 && d->end == CUBLASLT_EPILOGUE_BGRADB)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const int first = wanted > 1 ? BROKEN : OFFERS - 1;
    for (int n = first; n < OFFERS && *count < wanted; n++, ++*count) {
        found[*count] = {};
        found[*count].algo.number = n;
        for (int i = 0; i < 4; i++)
            found[*count].algo.align[i] = p->align[i];
        found[*count].state = CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static float number(const void *p, cudaDataType_t type, int64_t i)
{
    return type == CUDA_R_32F ? ((const float *)p)[i]
                              : __bfloat162float(((const __nv_bfloat16 *)p)[i]);
}

static float dot(const cuda_cpu_desc *d, const void *a, const cuda_cpu_layout *la, const void *b,
                 const cuda_cpu_layout *lb, int64_t i, int64_t j, int64_t depth, int64_t n)
{
    const int64_t a0 = n * la->stride, b0 = n * lb->stride;
    double sum = 0;
    for (int64_t k = 0; k < depth; k++) {
        const int64_t at = a0 + (d->ta == CUBLAS_OP_N ? i + k * la->ld : k + i * la->ld);
        const int64_t bt = b0 + (d->tb == CUBLAS_OP_N ? k + j * lb->ld : j + k * lb->ld);
        sum += (double)number(a, la->type, at) * (double)number(b, lb->type, bt);
    }
    return (float)sum;
}

static void check_alignment(const cublasLtMatmulAlgo_t *algo, const void *a, const void *b,
                            const void *c)
{
    if ((uintptr_t)a % algo->align[0] || (uintptr_t)b % algo->align[1] ||
        (uintptr_t)c % algo->align[2])
        die("the algorithm was chosen for better aligned matrices");
}

/* A product with all that it was asked with: a capture keeps it. */
struct product {
    cuda_cpu_desc   d;
    cuda_cpu_layout la, lb, lc;
    float           alpha, beta;
    const void     *a, *b, *c;
    void           *e;
    void run() const;
    void sum_columns() const;
};

/* Of b, as it enters the product: one sum for each column of the result, as wide as that is. */
void product::sum_columns() const
{
    const int64_t depth = d.ta == CUBLAS_OP_N ? la.cols : la.rows;
    for (int64_t j = 0; j < lc.cols; j++) {
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += (double)number(b, lb.type, d.tb == CUBLAS_OP_N ? k + j * lb.ld : j + k * lb.ld);
        ((float *)d.bias)[j] = (float)sum;
    }
    sums++;
}

void product::run() const
{
    const int64_t depth = d.ta == CUBLAS_OP_N ? la.cols : la.rows;
    cuda_cpu_open_memory();
    for (int64_t z = 0; z < lc.batch; z++)
        for (int64_t j = 0; j < lc.cols; j++)
            for (int64_t i = 0; i < lc.rows; i++) {
                const int64_t at = z * lc.stride + j * lc.ld + i;
                const float sum = alpha * dot(&d, a, &la, b, &lb, i, j, depth, z);
                const bool biased = d.end == CUBLASLT_EPILOGUE_BIAS;
                const float bias = biased ? number(d.bias, lc.type, i) : 0.0f;
                const float y = sum + (beta != 0 ? beta * number(c, lc.type, at) : 0.0f) + bias;
                if (lc.type == CUDA_R_32F)
                    ((float *)e)[at] = y;
                else
                    ((__nv_bfloat16 *)e)[at] = __float2bfloat16_rn(y);
            }
    if (d.end == CUBLASLT_EPILOGUE_BGRADB)
        sum_columns();
    cuda_cpu_close_memory();
}

extern "C" cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                         const void *alpha, const void *a,
                                         cublasLtMatrixLayout_t la, const void *b,
                                         cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                                         cublasLtMatrixLayout_t lc, void *e, cublasLtMatrixLayout_t,
                                         const cublasLtMatmulAlgo_t *algo, void *, size_t,
                                         cudaStream_t)
{
    const int64_t m = lc->rows, n = lc->cols, k = d->ta == CUBLAS_OP_N ? la->cols : la->rows;
    if ((d->ta == CUBLAS_OP_N ? la->rows : la->cols) != m ||
        (d->tb == CUBLAS_OP_N ? lb->rows : lb->cols) != k ||
        (d->tb == CUBLAS_OP_N ? lb->cols : lb->rows) != n || la->batch != lc->batch ||
        lb->batch != lc->batch)
        die("the shapes of a product do not fit");
    if (d->end == CUBLASLT_EPILOGUE_BGRADB && lc->type != CUDA_R_32F)
        die("sums of columns are made in the kind of the result, and wanted as fp32");
    check_alignment(algo, a, b, e);
    if (algo->number == BROKEN)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    runs[algo->number]++;
    cuda_cpu_pass(cost[algo->number]);
    const product p = {*d, *la, *lb, *lc, *(const float *)alpha, *(const float *)beta, a, b, c, e};
    if (!cuda_cpu_record([p] { p.run(); }))
        p.run();
    return CUBLAS_STATUS_SUCCESS;
}
