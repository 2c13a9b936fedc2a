/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.cu - matrix products by cuBLASLt; see gemm.cuh
 *
 * cuBLASLt is column-major: it computes c^T = op(b)^T op(a)^T.  The
 * descriptors and the algorithm of a product are looked up once and kept;
 * gemm_tune.cuh times the algorithms that it offers and picks the fastest.
 * A product without an algorithm (odd shapes, bad alignment) runs in a
 * plain kernel of our own.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <cublasLt.h>

#include "kernels/gemm.cuh"

enum { PLANS_MAX = 4096, PLANS_FULL = 3072, OFFERS = 8, TILE = 16, TELL = 8 /* sentences of a process */ };
#define GEMM_WORKSPACE ((size_t)32 << 20)
#define TEXT2(x)       #x
#define TEXT(x)        TEXT2(x)

/* The functions we use, as pointers of their declared types. */
#define CUBLASLT(X)                                                                       \
    X(cublasLtCreate) X(cublasLtMatmul) X(cublasLtMatmulAlgoGetHeuristic)                 \
    X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescSetAttribute)                         \
    X(cublasLtMatmulDescDestroy) X(cublasLtMatrixLayoutDestroy) X(cublasLtGetVersion)     \
    X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutSetAttribute)                     \
    X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceSetAttribute)             \
    X(cublasLtMatmulPreferenceDestroy)

/* The key of a product: products with equal keys share a plan. */
struct gemm_key {
    int      m, n, k, lda, ldb, ldc, batch;
    int64_t  stride_a, stride_b, stride_c;
    unsigned align_a, align_b, align_c, align_bias;
    bool     ta, tb, bias, keep, wide, row_sums;
};

struct gemm_plan {
    struct gemm_key        key;
    cublasLtMatmulDesc_t   desc;
    cublasLtMatrixLayout_t a, b, c; /* in cuBLASLt's order: its a is our b */
    cublasLtMatmulAlgo_t   offer[OFFERS]; /* the first is used */
    int                    offers;  /* 0: our own kernel */
    bool                   used;    /* this slot of the table is used */
    bool                   chosen;  /* the first algorithm is the fastest, or the only one */
    bool                   told;    /* that our own kernel does it */
};

static struct {
#define X(name) decltype(&::name) name;
    CUBLASLT(X)
#undef X
    cublasLtHandle_t  handle;
    struct gemm_plan *plan; /* [PLANS_MAX], each at its hash or the next free slot */
    int               plans;
    bool              tune, sums;
    char              gpu[128];
} lt;

static bool lt_ok(cublasStatus_t s, const char *what)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return device.state == KERN_OK;
    if (device.recording) {
        device_not_recorded(what, "cuBLASLt status", (int)s);
        return false;
    }
    if (device.state == KERN_OK) {
        device.state = s == CUBLAS_STATUS_ALLOC_FAILED ? KERN_NO_MEMORY : KERN_FAULT;
        snprintf(device.why, sizeof(device.why), "%.210s: cuBLASLt status %d", what, (int)s);
    }
    return false;
}

/* The product has not started: another algorithm may do it, or our own kernel. */
static bool lt_refused(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_INVALID_VALUE || s == CUBLAS_STATUS_ARCH_MISMATCH;
}

static bool gemm_open(const char *gpu, char *why, size_t size)
{
    static const char *const names[] = {
        "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR), "libcublasLt.so",
        "/usr/local/cuda/lib64/libcublasLt.so." TEXT(CUBLAS_VER_MAJOR),
    };
    const char *named = getenv("JOBCTL_CUBLASLT");
    void *lib = named && *named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !lib && !(named && *named) && i < sizeof(names) / sizeof(names[0]); i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(why, size, "%s could not be loaded; it comes with the CUDA toolkit %d",
                 named && *named ? named : names[0], CUBLAS_VER_MAJOR);
        return false;
    }
#define X(name)                                                              \
    if (!(lt.name = (decltype(lt.name))dlsym(lib, #name))) {                 \
        snprintf(why, size, "the loaded cuBLASLt has no function %s", #name);          \
        return false;                                                        \
    }
    CUBLASLT(X)
#undef X
    lt.plan = (struct gemm_plan *)calloc(PLANS_MAX, sizeof(*lt.plan));
    const cublasStatus_t rc = lt.plan ? lt.cublasLtCreate(&lt.handle) : CUBLAS_STATUS_ALLOC_FAILED;
    if (rc != CUBLAS_STATUS_SUCCESS) {
        snprintf(why, size, "cuBLASLt does not start: status %d", (int)rc);
        return false;
    }
    snprintf(lt.gpu, sizeof(lt.gpu), "%.127s", gpu);
    lt.tune = device_way("tune");
    lt.sums = device_way("bgrad");
    return true;
}

static bool gemm_sums(void)
{
    return lt.sums;
}

/* --- our own product ---------------------------------------------------------------------- */

/* A tile of c per block, tiles of a and b in shared memory. Rows, of which there may be millions, lie along x: of
 * blocks along y a grid has at most 65,535. */
template <typename T, typename C> __global__ void plain_gemm_kernel(struct gemm g)
{
    __shared__ float as[TILE][TILE + 1], bs[TILE][TILE + 1];
    const T *a = (const T *)g.a + blockIdx.z * g.stride_a;
    const T *b = (const T *)g.b + blockIdx.z * g.stride_b;
    const int x = (int)threadIdx.x, y = (int)threadIdx.y;
    const int row = (int)blockIdx.x * TILE + y, col = (int)blockIdx.y * TILE + x;
    float sum = 0;
    for (int k0 = 0; k0 < g.k; k0 += TILE) {
        const int ka = k0 + x, kb = k0 + y;
        __syncthreads();
        const size_t at = g.ta ? (size_t)ka * g.lda + row : (size_t)row * g.lda + ka;
        const size_t bt = g.tb ? (size_t)col * g.ldb + kb : (size_t)kb * g.ldb + col;
        as[y][x] = row < g.m && ka < g.k ? widen(a[at]) : 0.0f;
        bs[y][x] = col < g.n && kb < g.k ? widen(b[bt]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += as[y][i] * bs[i][x];
    }
    if (row >= g.m || col >= g.n)
        return;
    C *c = (C *)g.c + blockIdx.z * g.stride_c + (size_t)row * g.ldc + col;
    *c = narrow<C>((g.beta != 0 ? g.beta * widen(*c) : 0.0f) + sum + (g.bias
                                                                      ? widen(((const C *)g.bias)[col]) : 0.0f));
}

static void plain_gemm(const char *name, const struct gemm *g)
{
    const dim3 grid(tiles((size_t)g->m, TILE), tiles((size_t)g->n, TILE), (unsigned)g->batch);
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        if (g->wide)
            launch(name, plain_gemm_kernel<T, float>, grid, dim3(TILE, TILE), 0, *g);
        else
            launch(name, plain_gemm_kernel<T, T>, grid, dim3(TILE, TILE), 0, *g);
    });
}

/* --- cuBLASLt ------------------------------------------------------------------------------ */

/* The largest power of two up to 256 that divides the address and all its strides. */
static unsigned alignment(const void *at, int64_t stride, int batch, size_t size)
{
    uintptr_t bits = (uintptr_t)at | 256;
    if (batch > 1)
        bits |= (uintptr_t)stride * size;
    return (unsigned)(bits & (~bits + 1));
}

static cudaDataType_t kind_of(bool fp32)
{
    return fp32 || device.precision == KERN_FP32 ? CUDA_R_32F : CUDA_R_16BF;
}

static size_t size_of(cudaDataType_t kind)
{
    return kind == CUDA_R_32F ? sizeof(float) : sizeof(bf16);
}

static struct gemm_key key_of(const struct gemm *g)
{
    struct gemm_key k;
    memset(&k, 0, sizeof(k)); /* zero the padding too: keys are compared as bytes */
    k.m = g->m, k.n = g->n, k.k = g->k;
    k.lda = g->lda, k.ldb = g->ldb, k.ldc = g->ldc;
    k.batch = g->batch;
    k.stride_a = g->stride_a, k.stride_b = g->stride_b, k.stride_c = g->stride_c;
    k.align_a = alignment(g->a, g->stride_a, g->batch, size_of(kind_of(false)));
    k.align_b = alignment(g->b, g->stride_b, g->batch, size_of(kind_of(false)));
    k.align_c = alignment(g->c, g->stride_c, g->batch, size_of(kind_of(g->wide)));
    k.align_bias = alignment(g->bias ? g->bias : g->row_sums, 0, 1, 1);
    k.ta = g->ta, k.tb = g->tb, k.bias = g->bias != NULL, k.keep = g->beta != 0, k.wide = g->wide;
    k.row_sums = g->row_sums != NULL;
    return k;
}

static bool plan_matrix(cublasLtMatrixLayout_t *out, cudaDataType_t type, int rows, int cols,
                        int ld, int batch, int64_t stride)
{
    const int32_t count = batch;
    return lt_ok(lt.cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)cols, ld),
                 "matrix layout") &&
           lt_ok(lt.cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                     &count, sizeof(count)), "batch") &&
           lt_ok(lt.cublasLtMatrixLayoutSetAttribute(
                     *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
                 "stride");
}

/* Address of the bias, or of its gradient. */
static bool plan_bias(const struct gemm_plan *p, const struct gemm *g, const char *name)
{
    const void *at = g->bias ? g->bias : g->row_sums;
    return !at || lt_ok(lt.cublasLtMatmulDescSetAttribute(
                            p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof(at)), name);
}

static bool plan_shapes(struct gemm_plan *p, const struct gemm *g)
{
    const cudaDataType_t type = kind_of(false);
    const cublasOperation_t op_a = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t end = g->bias       ? CUBLASLT_EPILOGUE_BIAS
                                   : g->row_sums ? CUBLASLT_EPILOGUE_BGRADB /* its b is our a */
                                                 : CUBLASLT_EPILOGUE_DEFAULT;
    return lt_ok(lt.cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "matmul") &&
           lt_ok(lt.cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a,
                                                   sizeof(op_a)), "transpose") &&
           lt_ok(lt.cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b,
                                                   sizeof(op_b)), "transpose") &&
           lt_ok(lt.cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &end,
                                                   sizeof(end)), "epilogue") &&
           plan_bias(p, g, "bias") && /* the choice depends on alignment */
           plan_matrix(&p->a, type, g->tb ? g->k : g->n, g->tb ? g->n : g->k, g->ldb, g->batch,
                       g->stride_b) &&
           plan_matrix(&p->b, type, g->ta ? g->m : g->k, g->ta ? g->k : g->m, g->lda, g->batch,
                       g->stride_a) &&
           plan_matrix(&p->c, kind_of(g->wide), g->n, g->m, g->ldc, g->batch, g->stride_c);
}

/* Algorithms for these sizes and alignments, the most promising first. Split-k sums are made in
 * fp32 and in one order, or not at all. */
static bool plan_offers(struct gemm_plan *p, const struct gemm_key *k)
{
    cublasLtMatmulPreference_t want;
    cublasLtMatmulHeuristicResult_t found[OFFERS];
    int count = 0;
    const size_t room = GEMM_WORKSPACE;
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void                          *value;
        size_t                               size;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof(room)},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof(sums)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->align_b, sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->align_a, sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->align_c, sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->align_c, sizeof(uint32_t)},
    };
    if (!lt_ok(lt.cublasLtMatmulPreferenceCreate(&want), "preference"))
        return false;
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof(wishes) / sizeof(wishes[0]); i++)
        ok = lt_ok(lt.cublasLtMatmulPreferenceSetAttribute(want, wishes[i].what, wishes[i].value,
                                                           wishes[i].size), "preference");
    if (ok && lt.cublasLtMatmulAlgoGetHeuristic(lt.handle, p->desc, p->a, p->b, p->c, p->c, want,
                                                lt.tune ? OFFERS : 1, found, &count) ==
                  CUBLAS_STATUS_SUCCESS)
        for (int i = 0; i < count; i++)
            if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= room)
                p->offer[p->offers++] = found[i].algo;
    lt.cublasLtMatmulPreferenceDestroy(want);
    return ok;
}

static void plan_free(struct gemm_plan *p)
{
    if (p->desc)
        lt.cublasLtMatmulDescDestroy(p->desc);
    for (const cublasLtMatrixLayout_t l : {p->a, p->b, p->c})
        if (l)
            lt.cublasLtMatrixLayoutDestroy(l);
    memset(p, 0, sizeof(*p));
}

/* The slot of a product, or a free one: the table always has a free slot. */
static struct gemm_plan *plan_place(const struct gemm_key *key)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < sizeof(*key); i++)
        hash = (hash ^ ((const unsigned char *)key)[i]) * 1099511628211u;
    size_t at = hash % PLANS_MAX;
    while (lt.plan[at].used && memcmp(&lt.plan[at].key, key, sizeof(*key)) != 0)
        at = (at + 1) % PLANS_MAX;
    return &lt.plan[at];
}

/* NULL: failure. */
static struct gemm_plan *plan_for(const struct gemm *g)
{
    const struct gemm_key key = key_of(g);
    struct gemm_plan *p = plan_place(&key);
    if (p->used)
        return p;
    if (lt.plans >= PLANS_FULL) { /* too many shapes in one run: clear the table */
        for (int i = 0; i < PLANS_MAX; i++)
            plan_free(&lt.plan[i]);
        lt.plans = 0;
        p = plan_place(&key);
    }
    if (!plan_shapes(p, g) || !plan_offers(p, &key)) {
        plan_free(p);
        return NULL;
    }
    memcpy(&p->key, &key, sizeof(key));
    p->used = true;
    lt.plans++;
    return p;
}

/* Runs one of a plan's algorithms; the result goes to `to`: g's c, or another buffer. */
static cublasStatus_t plan_run(const struct gemm_plan *p, const struct gemm *g,
                               const cublasLtMatmulAlgo_t *algo, void *to, void *room)
{
    const float one = 1;
    return lt.cublasLtMatmul(lt.handle, p->desc, &one, g->b, p->a, g->a, p->b, &g->beta, g->c,
                             p->c, to, p->c, algo, room, GEMM_WORKSPACE, device.stream);
}

#include "kernels/gemm_tune.cuh"

/* With the chosen algorithm, or the first that accepts the product. */
static cublasStatus_t plan_do(struct gemm_plan *p, const struct gemm *g, void *room)
{
    cublasStatus_t rc = plan_run(p, g, &p->offer[0], g->c, room);
    for (int i = 1; lt_refused(rc) && i < p->offers; i++) {
        rc = plan_run(p, g, &p->offer[i], g->c, room);
        if (rc == CUBLAS_STATUS_SUCCESS)
            p->offer[0] = p->offer[i];
    }
    return rc;
}

static cublasStatus_t plan_timed(const char *name, struct gemm_plan *p, const struct gemm *g, void *room)
{
    const int timed = profile_from({name, NULL, dim3(0, 0, 0), (int64_t)g->m * g->batch, g->n, g->k});
    const cublasStatus_t rc = plan_do(p, g, room);
    profile_to(timed);
    return rc;
}

/* What cuBLASLt was asked for: enough to ask it again elsewhere. */
static void name_product(char *to, size_t size, const char *name, const struct gemm *g)
{
    const struct gemm_key k = key_of(g);
    snprintf(to, size, "%s, a product of %d x %d x %d (%s, rows of %d, %d and %d%s%s, %d times, on %u, %u and %u bytes)",
             name, g->m, g->n, g->k, device.precision == KERN_FP32 ? "fp32" : g->wide ? "bf16 to fp32" : "bf16", g->lda,
             g->ldb, g->ldc, g->ta ? ", a transposed" : "", g->tb ? ", b transposed" : "", g->batch, k.align_a,
             k.align_b, k.align_c);
}

/* The plain kernel is many times slower: said once per product, or nobody would learn why a step is slow. */
static void tell_plain(struct gemm_plan *p, const char *name, const struct gemm *g, cublasStatus_t rc)
{
    static int told;
    char product[256];
    if (p->told || told >= TELL)
        return;
    name_product(product, sizeof(product), name, g);
    fprintf(stderr, "cuBLASLt has no algorithm for %s: status %d; a plain kernel computes it, many times slower. "
            "Sizes that are multiples of 8 have algorithms.\n", product, (int)rc);
    p->told = true;
    told++;
}

static bool gemm_run_plain(const char *name, const struct gemm *g)
{
    struct gemm plain = *g;
    plain.row_sums = NULL;
    gemm_run(name, &plain);
    return false;
}

/* Whether cuBLASLt has taken the product; a failure is recorded. */
static bool gemm_run_lt(struct gemm_plan *p, const char *name, const struct gemm *g, void *room)
{
    const cublasStatus_t rc = p->offers > 0 ? plan_timed(name, p, g, room) : CUBLAS_STATUS_NOT_SUPPORTED;
    char product[256];
    if (lt_refused(rc)) {
        p->offers = 0; /* do not ask again */
        if (!g->row_sums)
            tell_plain(p, name, g, rc);
        return false;
    }
    if (rc != CUBLAS_STATUS_SUCCESS) {
        name_product(product, sizeof(product), name, g);
        lt_ok(rc, product);
    }
    return true;
}

static bool gemm_run(const char *name, const struct gemm *g)
{
    void *room = device_scratch(SCRATCH_GEMM, GEMM_WORKSPACE);
    struct gemm_plan *p = room && device.state == KERN_OK ? plan_for(g) : NULL;
    if (!p || !plan_bias(p, g, name))
        return true;
    if (p->offers > 0 && !p->chosen && !device.recording)
        tune_choose(p, g, room);
    if (gemm_run_lt(p, name, g, room))
        return true;
    if (g->row_sums)
        return gemm_run_plain(name, g);
    plain_gemm(name, g);
    return true;
}
