/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tune.cuh - time the algorithms that cuBLASLt offers and pick the fastest; part of gemm.cu
 *
 * Each algorithm is timed once per process, or with gemm_remember()
 * once per training run: the fastest of nearly equal algorithms varies between
 * measurements, and another algorithm gives other last bits.  cuBLASLt's
 * first choice stays unless another is clearly faster. Likewise, sums of rows come with the product unless the product
 * and a separate pass are clearly faster together.
 */
#define TUNE_GAIN 0.98f

enum { TUNE_RUNS = 3 };

/* A line of the file: the choice for one product. The head identifies the machine. */
struct tune_head {
    char     what[16];
    char     gpu[128];
    uint64_t version, key_bytes, algo_bytes;
    uint32_t fp32, zero;
};

struct tune_choice {
    struct gemm_key      key;
    cublasLtMatmulAlgo_t algo;
    uint64_t             apart; /* 1: a separate pass computes the sums of rows */
};

/* Called after each timed run: gemm_sums_come(), gemm_sums_apart() or NULL. */
typedef void (*tune_sums_fn)(const struct gemm *g, float *to);

/* Where timed runs leave their results. */
struct tune_to {
    void        *c;
    float       *sums;
    tune_sums_fn add;
    void        *room; /* cuBLASLt's */
};

static struct {
    char                file[1024]; /* "": none */
    struct tune_choice *known;
    int                 count;
    cudaEvent_t         from, to;
} tune;

static struct tune_head tune_head_now(void)
{
    struct tune_head h;
    memset(&h, 0, sizeof(h));
    snprintf(h.what, sizeof(h.what), "products 2");
    memcpy(h.gpu, lt.gpu, sizeof(h.gpu));
    h.version = lt.cublasLtGetVersion();
    h.key_bytes = sizeof(struct gemm_key);
    h.algo_bytes = sizeof(cublasLtMatmulAlgo_t);
    h.fp32 = device.precision == KERN_FP32;
    return h;
}

/* Reads the file of choices. A truncated line is ignored, and so is another
 * machine's file: the first choice made here then overwrites it. */
static void gemm_remember(const char *file)
{
    const struct tune_head ours = tune_head_now();
    struct tune_head head;
    struct tune_choice next;
    tune.count = 0;
    const int n = snprintf(tune.file, sizeof(tune.file), "%s", file ? file : "");
    if (n >= (int)sizeof(tune.file))
        tune.file[0] = '\0';
    FILE *f = tune.file[0] && lt.tune ? fopen(tune.file, "re") : NULL;
    if (!f)
        return;
    const bool fits = fread(&head, sizeof(head), 1, f) == 1 &&
                      memcmp(&head, &ours, sizeof(head)) == 0;
    while (fits && fread(&next, sizeof(next), 1, f) == 1) {
        struct tune_choice *more = (struct tune_choice *)realloc(
            tune.known, sizeof(next) * (size_t)(tune.count + 1));
        if (!more)
            break;
        tune.known = more;
        memcpy(&tune.known[tune.count++], &next, sizeof(next));
    }
    fclose(f);
    if (!fits)
        remove(tune.file);
}

/* Best effort: the next process repeats a choice that could not be written. */
static void tune_write(const struct gemm_plan *p)
{
    FILE *f = tune.file[0] ? fopen(tune.file, "ae") : NULL;
    if (!f)
        return;
    const struct tune_head head = tune_head_now();
    struct tune_choice c;
    memset(&c, 0, sizeof(c));
    memcpy(&c.key, &p->key, sizeof(c.key));
    c.algo = p->offer[0];
    c.apart = p->offers == 0;
    if (fseek(f, 0, SEEK_END) == 0 && ftell(f) == 0)
        fwrite(&head, sizeof(head), 1, f);
    fwrite(&c, sizeof(c), 1, f);
    fclose(f);
}

static bool tune_known(struct gemm_plan *p)
{
    for (int i = 0; i < tune.count; i++)
        if (memcmp(&tune.known[i].key, &p->key, sizeof(p->key)) == 0) {
            p->offer[0] = tune.known[i].algo;
            p->offers = tune.known[i].apart ? 0 : p->offers;
            return true;
        }
    return false;
}

static bool tune_run(const struct gemm_plan *p, const struct gemm *g, const cublasLtMatmulAlgo_t *algo,
                     const struct tune_to *to)
{
    if (plan_run(p, g, algo, to->c, to->room) != CUBLAS_STATUS_SUCCESS)
        return false;
    if (to->add)
        to->add(g, to->sums);
    return true;
}

/* Milliseconds of some runs; below 0: the algorithm does not support this product. */
static float tune_time(const struct gemm_plan *p, const struct gemm *g, const cublasLtMatmulAlgo_t *algo,
                       const struct tune_to *to)
{
    float ms = -1;
    if (!tune_run(p, g, algo, to) || !device_ok(cudaEventRecord(tune.from, device.stream), "a product's time"))
        return -1;
    for (int i = 0; i < TUNE_RUNS; i++)
        if (!tune_run(p, g, algo, to))
            return -1;
    if (!device_ok(cudaEventRecord(tune.to, device.stream), "a product's time") ||
        !device_ok(cudaEventSynchronize(tune.to), "a product's time") ||
        !device_ok(cudaEventElapsedTime(&ms, tune.from, tune.to), "a product's time"))
        return -1;
    return ms;
}

/* Moves the fastest algorithm to the front: its time, or below 0. */
static float tune_fastest(struct gemm_plan *p, const struct gemm *g, const struct tune_to *to)
{
    int best = -1;
    float least = -1;
    for (int i = 0; i < p->offers && device.state == KERN_OK; i++) {
        const float ms = tune_time(p, g, &p->offer[i], to);
        if (ms >= 0 && (best < 0 || ms < least * TUNE_GAIN)) {
            best = i;
            least = ms;
        }
    }
    if (best > 0) {
        const cublasLtMatmulAlgo_t first = p->offer[0];
        p->offer[0] = p->offer[best];
        p->offer[best] = first;
    }
    return least;
}

/* The fastest without sums of rows, and a pass for these: milliseconds, or below 0. The plan is not kept: one for the
 * table might clear that. */
static float tune_apart(const struct gemm *g, struct tune_to to)
{
    struct gemm plain = *g;
    plain.row_sums = NULL;
    to.add = gemm_sums_apart;
    const struct gemm_key key = key_of(&plain);
    struct gemm_plan p;
    memset(&p, 0, sizeof(p));
    const bool ok = plan_shapes(&p, &plain) && plan_offers(&p, &key);
    const float ms = ok ? tune_fastest(&p, &plain, &to) : -1;
    plan_free(&p);
    return ms;
}

static bool tune_ready(void)
{
    return tune.from || (device_ok(cudaEventCreate(&tune.from), "an event") &&
                         device_ok(cudaEventCreate(&tune.to), "an event"));
}

static bool tune_memory(void **to, size_t bytes)
{
    if (cudaMalloc(to, bytes) == cudaSuccess)
        return true;
    cudaGetLastError();
    *to = NULL;
    return false;
}

/* A product that adds to its result must not be repeated: its results go to a temporary buffer. */
static bool tune_places(struct tune_to *to, const struct gemm *g)
{
    const size_t rows = (size_t)g->ldc * (size_t)g->m;
    const size_t all = (size_t)(g->batch - 1) * (size_t)g->stride_c + rows;
    if (g->beta != 0 && !tune_memory(&to->c, all * size_of(kind_of(g->wide))))
        return false;
    return !g->row_sums || tune_memory((void **)&to->sums, sizeof(float) * (size_t)g->m);
}

/* Chooses what is fastest. Without memory for results, the first algorithm stays. */
static void tune_choose(struct gemm_plan *p, const struct gemm *g, void *room)
{
    struct tune_to to = {g->beta != 0 ? NULL : g->c, NULL, g->row_sums ? gemm_sums_come : NULL, room};
    p->chosen = true;
    if (!lt.tune || (p->offers < 2 && !g->row_sums) || tune_known(p) || !tune_ready())
        return;
    const bool placed = tune_places(&to, g);
    const float ms = placed ? tune_fastest(p, g, &to) : -1;
    const float apart = ms >= 0 && g->row_sums ? tune_apart(g, to) : -1;
    if (apart >= 0 && apart < ms * TUNE_GAIN)
        p->offers = 0;
    if (g->beta != 0 && to.c)
        device_ok(cudaFree(to.c), "a product's time");
    if (to.sums)
        device_ok(cudaFree(to.sums), "a product's time");
    if (ms >= 0)
        tune_write(p);
}
