/* SPDX-License-Identifier: Apache-2.0 */
/* cublaslt_cpu.cc - cuBLASLt as this project calls it: columns first, summed in double
 *
 * What the manual forbids ends the program, as it would be wrong on a GPU (cuBLAS, "Using the cublasLt API"):
 * an algorithm used with less alignment, of the bias too, or less workspace than it was chosen for;
 * types, shapes and epilogues that do not fit; a matrix, bias or workspace that leaves its allocation;
 * a result that overlaps what it is made of.  The workspace is overwritten by those who use it.
 * CUDA_CPU_FAIL=algorithm: there is none for any product; bgrad: none that sums b's columns; refuse: algorithms are
 * offered, and none takes the product.
 *
 * Of several algorithms that are asked for, the first does not work, the second is
 * slow, the third is the fastest one: split-k, with partial sums of fp32 in its workspace.  A fourth, still faster,
 * adds partial sums where the result is, in its type; who permits that (CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
 * and takes it is told: sums of bf16 are rounded at each part.  CUDA_CPU_FAIL=bgrad:slow: sums of columns take long.  CUDA_CPU_REPORT set: at the end a line says
 * how often each of them has been run.
 */
#include "cuda_cpu.h"

#include <cublasLt.h>
#include <cuda_bf16.h>

#include <stdio.h>
#include <stdlib.h>

#include <vector>

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
    size_t   room;
    uint32_t schemes;
};

enum { OFFERS = 4, BROKEN = 0, FAST = 2, IN_PLACE = 3 };
static const float cost[OFFERS] = {0.1f, 3.0f, 1.0f, 0.5f};
static const unsigned room_of[OFFERS] = {0, 0, 64 << 10, 0};
static const uint32_t scheme_of[OFFERS] = {0, 0, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
                                           CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE};
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
    *p = new cuda_cpu_preference{{256, 256, 256, 256}, 0, CUBLASLT_REDUCTION_SCHEME_MASK};
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                     cublasLtMatmulPreferenceAttributes_t what, const void *from,
                                     size_t size)
{
    const int which = (int)what - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && size == sizeof(p->schemes)) {
        memcpy(&p->schemes, from, size);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
        if (size != sizeof(p->room))
            return CUBLAS_STATUS_INVALID_VALUE;
        memcpy(&p->room, from, size);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (size != sizeof(uint32_t) || which < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&p->align[which], from, size);
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

/* The largest power of two up to 16 that divides the address. */
static unsigned alignment(const void *p)
{
    const uintptr_t bits = (uintptr_t)p | 16;
    return (unsigned)(bits & (~bits + 1));
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
    const int first = wanted > 1 ? BROKEN : FAST;
    for (int n = first; n < OFFERS && *count < wanted; n++) {
        if (room_of[n] > p->room || (scheme_of[n] && !(scheme_of[n] & p->schemes)))
            continue;
        found[*count] = {};
        found[*count].algo.number = n;
        found[*count].algo.bias = alignment(d->bias);
        found[*count].algo.room = room_of[n];
        found[*count].workspaceSize = room_of[n];
        for (int i = 0; i < 4; i++)
            found[*count].algo.align[i] = p->align[i];
        found[*count].state = CUBLAS_STATUS_SUCCESS;
        ++*count;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static float number(const void *p, cudaDataType_t type, int64_t i)
{
    return type == CUDA_R_32F ? ((const float *)p)[i]
                              : __bfloat162float(((const __nv_bfloat16 *)p)[i]);
}

/* Sums are made in tiles of the result. Each goes through its depth in order, and the product of two floats is exact
 * in double: the bits do not depend on tiles, nor on the instruction set. */
enum { TILE_ROWS = 4, TILE_COLS = 4 };

/* Numbers [depth, width] of `width` rows of a^T or columns of b from `first` on, 0 behind the last. across: the next of
 * them is the next in memory, and the next of the depth is `ld` numbers away. */
static void pack(double *to, const void *from, const cuda_cpu_layout *l, bool across, int64_t at, int64_t first,
                 int64_t all, int width, int64_t depth)
{
    const int64_t step = across ? 1 : l->ld, deeper = across ? l->ld : 1;
    for (int64_t k = 0; k < depth; k++)
        for (int i = 0; i < width; i++)
            to[k * width + i] = first + i < all ? number(from, l->type, at + (first + i) * step + k * deeper) : 0.0;
}

/* sum[TILE_COLS][TILE_ROWS] of a[depth][TILE_ROWS] and b[depth][TILE_COLS] */
static void sum_tile(double *sum, const double *a, const double *b, int64_t depth)
{
    typedef double pair __attribute__((vector_size(16)));
    enum { PAIRS = TILE_ROWS / 2 };
    pair s[TILE_COLS][PAIRS] = {};
    for (int64_t k = 0; k < depth; k++)
#pragma GCC unroll 4 /* then the sums are in registers */
        for (int i = 0; i < PAIRS; i++) {
            const pair x = {a[k * TILE_ROWS + 2 * i], a[k * TILE_ROWS + 2 * i + 1]};
#pragma GCC unroll 4
            for (int j = 0; j < TILE_COLS; j++)
                s[j][i] += x * b[k * TILE_COLS + j];
        }
    memcpy(sum, s, sizeof(s));
}

/* A product with all that it was asked with: a capture keeps it. */
struct product {
    cuda_cpu_desc   d;
    cuda_cpu_layout la, lb, lc;
    float           alpha, beta;
    const void     *a, *b, *c;
    void           *e, *room;
    size_t          room_bytes;
    cublasLtMatmulAlgo_t algo;
    void check() const;
    void run() const;
    void sum_columns() const;
    void run_one(int64_t z, int64_t depth) const;
    void put_tile(int64_t z, int64_t i, int64_t j, const double *sum) const;
    void put(int64_t z, int64_t i, int64_t j, double total) const;
};

static size_t bytes_of(cudaDataType_t type)
{
    return type == CUDA_R_32F ? sizeof(float) : sizeof(__nv_bfloat16);
}

static size_t span_of(const cuda_cpu_layout &l)
{
    return ((size_t)(l.batch - 1) * (size_t)l.stride + (size_t)(l.cols - 1) * (size_t)l.ld + (size_t)l.rows) *
           bytes_of(l.type);
}

static void must_be_there(const void *p, size_t bytes, const char *what)
{
    if (!cuda_cpu_is_device(p, bytes))
        die(what);
}

static bool overlap(const void *p, size_t n, const void *q, size_t m)
{
    return (const char *)p < (const char *)q + m && (const char *)q < (const char *)p + n;
}

static void check_alignment(const product &p)
{
    if ((uintptr_t)p.a % p.algo.align[0] || (uintptr_t)p.b % p.algo.align[1] ||
        (uintptr_t)p.c % p.algo.align[2] || (uintptr_t)p.e % p.algo.align[3])
        die("the algorithm was chosen for better aligned matrices");
    if (p.d.end != CUBLASLT_EPILOGUE_DEFAULT && alignment(p.d.bias) < p.algo.bias)
        die("the algorithm was chosen for a better aligned bias");
    if (p.algo.room > p.room_bytes || (uintptr_t)p.room % 16)
        die("the algorithm was chosen with more workspace, or with one that is aligned to 16 bytes");
}

static void check_memory(const product &p)
{
    must_be_there(p.a, span_of(p.la), "matrix A leaves its allocation");
    must_be_there(p.b, span_of(p.lb), "matrix B leaves its allocation");
    must_be_there(p.e, span_of(p.lc), "matrix D leaves its allocation");
    if (p.beta != 0)
        must_be_there(p.c, span_of(p.lc), "matrix C leaves its allocation");
    if (p.room_bytes)
        must_be_there(p.room, p.room_bytes, "the workspace leaves its allocation");
    if (p.d.end == CUBLASLT_EPILOGUE_BIAS)
        must_be_there(p.d.bias, (size_t)p.lc.rows * bytes_of(p.lc.type), "the bias leaves its allocation");
    if (p.d.end == CUBLASLT_EPILOGUE_BGRADB)
        must_be_there(p.d.bias, (size_t)p.lc.cols * sizeof(float), "the bias' gradient leaves its allocation");
    if (overlap(p.e, span_of(p.lc), p.a, span_of(p.la)) || overlap(p.e, span_of(p.lc), p.b, span_of(p.lb)) ||
        (p.beta != 0 && p.e != p.c && overlap(p.e, span_of(p.lc), p.c, span_of(p.lc))))
        die("the result overlaps what it is made of");
}

void product::check() const
{
    if (la.type != lb.type || (lc.type != la.type && lc.type != CUDA_R_32F))
        die("there are no products of these types");
    if (lc.batch > 1 && d.end == CUBLASLT_EPILOGUE_BGRADB)
        die("sums of columns are made for one matrix, not for a batch");
    if (d.end == CUBLASLT_EPILOGUE_BGRADB && lc.type != CUDA_R_32F)
        die("sums of columns are made in the kind of the result, and wanted as fp32");
    for (const cuda_cpu_layout *l : {&la, &lb, &lc})
        if (l->batch > 1 && l->stride == 0 && l == &lc)
            die("the results of a batch are all in one place");
    check_alignment(*this);
    check_memory(*this);
}

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

/* One number of the result, from its sum. */
void product::put(int64_t z, int64_t i, int64_t j, double total) const
{
    const int64_t at = z * lc.stride + j * lc.ld + i;
    const float sum = alpha * (float)total;
    const bool biased = d.end == CUBLASLT_EPILOGUE_BIAS;
    const float bias = biased ? number(d.bias, lc.type, i) : 0.0f;
    const float y = sum + (beta != 0 ? beta * number(c, lc.type, at) : 0.0f) + bias;
    if (lc.type == CUDA_R_32F)
        ((float *)e)[at] = y;
    else
        ((__nv_bfloat16 *)e)[at] = __float2bfloat16_rn(y);
}

void product::put_tile(int64_t z, int64_t i, int64_t j, const double *sum) const
{
    for (int64_t y = j; y < lc.cols && y < j + TILE_COLS; y++)
        for (int64_t x = i; x < lc.rows && x < i + TILE_ROWS; x++)
            put(z, x, y, sum[(y - j) * TILE_ROWS + x - i]);
}

/* Matrix z of the batch. */
void product::run_one(int64_t z, int64_t depth) const
{
    std::vector<double> left((size_t)(depth * TILE_ROWS)), right((size_t)((lc.cols + TILE_COLS) * depth));
    for (int64_t j = 0; j < lc.cols; j += TILE_COLS)
        pack(&right[(size_t)(j * depth)], b, &lb, d.tb != CUBLAS_OP_N, z * lb.stride, j, lc.cols, TILE_COLS, depth);
    for (int64_t i = 0; i < lc.rows; i += TILE_ROWS) {
        double sum[TILE_COLS * TILE_ROWS];
        pack(left.data(), a, &la, d.ta == CUBLAS_OP_N, z * la.stride, i, lc.rows, TILE_ROWS, depth);
        for (int64_t j = 0; j < lc.cols; j += TILE_COLS) {
            sum_tile(sum, left.data(), &right[(size_t)(j * depth)], depth);
            put_tile(z, i, j, sum);
        }
    }
}

void product::run() const
{
    const int64_t depth = d.ta == CUBLAS_OP_N ? la.cols : la.rows;
    cuda_cpu_pass(cost[algo.number]);
    cuda_cpu_open_memory();
    if (algo.room)
        memset(room, 0xff, algo.room);
    for (int64_t z = 0; z < lc.batch; z++)
        run_one(z, depth);
    if (d.end == CUBLASLT_EPILOGUE_BGRADB)
        sum_columns();
    if (d.end == CUBLASLT_EPILOGUE_BGRADB && cuda_cpu_fails("bgrad:slow"))
        cuda_cpu_pass(5);
    cuda_cpu_close_memory();
}

extern "C" cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                         const void *alpha, const void *a,
                                         cublasLtMatrixLayout_t la, const void *b,
                                         cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                                         cublasLtMatrixLayout_t lc, void *e, cublasLtMatrixLayout_t,
                                         const cublasLtMatmulAlgo_t *algo, void *room, size_t room_bytes,
                                         cudaStream_t stream)
{
    const int64_t m = lc->rows, n = lc->cols, k = d->ta == CUBLAS_OP_N ? la->cols : la->rows;
    if (cuda_cpu_recording() && cuda_cpu_fails("recorded"))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if ((d->ta == CUBLAS_OP_N ? la->rows : la->cols) != m ||
        (d->tb == CUBLAS_OP_N ? lb->rows : lb->cols) != k ||
        (d->tb == CUBLAS_OP_N ? lb->cols : lb->rows) != n || la->batch != lc->batch ||
        lb->batch != lc->batch)
        die("the shapes of a product do not fit");
    const product p = {*d, *la, *lb, *lc, *(const float *)alpha, *(const float *)beta, a, b, c, e,
                       room, room_bytes, *algo};
    p.check();
    if (algo->number == BROKEN)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (cuda_cpu_fails("refuse"))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo->number == IN_PLACE)
        die("split-k sums in place, or in the type of the result, are rounded at each part");
    runs[algo->number]++;
    if (!cuda_cpu_bare())
        cuda_cpu_submit_call(stream, [p] { p.run(); });
    return CUBLAS_STATUS_SUCCESS;
}
