/* SPDX-License-Identifier: Apache-2.0 */
/* rmsmod.cu - RMS norm times a factor per sample and column; rmsmod_ref.c has the formulas
 *
 * Both directions: a warp per row.  The sums over the tokens of a sample come first, because the gradient of the
 * input may overwrite that of the output.
 */
#include "kernels/device.cuh"

struct rmsmod {
    void        *out;
    float       *rstd_out;
    const float *base; /* NULL: nothing is added */
    const void  *x, *dy;
    const float *rstd, *w, *mod;
    bool         gated; /* mod is the gate, not the scale */
    int          ldm, tokens, cols;
    size_t       rows;
    float        eps;
};

__device__ static inline float rmsmod_factor(bool gated, float mod)
{
    return gated ? tanhf(mod) : 1.0f + mod;
}

/* w f of the columns from c on. */
template <int V> __device__ static inline void rmsmod_weights(float *wf, const struct rmsmod &r, size_t b, int c)
{
    float mod[V];
    load<V>(wf, r.w + c);
    load<V>(mod, r.mod + b * r.ldm + c);
    for (int i = 0; i < V; i++)
        wf[i] *= rmsmod_factor(r.gated, mod[i]);
}

/* X: the type of x, Y: of the result. */
template <typename X, typename Y, int V, int N>
__global__ void __launch_bounds__(BLOCK, 2) rmsmod_kernel(struct rmsmod r)
{
    const size_t row = warp_row(), at = row * r.cols, b = row / r.tokens;
    if (row >= r.rows)
        return;
    const X *x = (const X *)r.x + at;
    enum { KEEP = sizeof(X) == 2 ? N : 0 };
    pack<X, V> kept[KEEP > 0 ? KEEP : 1];
    float squares = 0;
    lane_packs<V, KEEP>(r.cols, [&](int k, int c) {
        float a[V];
        kept[k] = pack_of<V>(x + c);
        unpack<V>(a, kept[k]);
        for (int i = 0; i < V; i++)
            squares += a[i] * a[i];
    });
    const float s = 1.0f / sqrtf(warp_sum(squares) / (float)r.cols + r.eps);
    if (threadIdx.x % WARP == 0)
        r.rstd_out[row] = s;
    lane_packs<V, KEEP>(r.cols, [&](int k, int c) {
        float a[V], wf[V], base[V];
        unpack<V>(a, KEEP > 0 ? kept[k] : pack_of<V>(x + c));
        rmsmod_weights<V>(wf, r, b, c);
        if (r.base)
            load<V>(base, r.base + at + c);
        for (int i = 0; i < V; i++)
            a[i] = a[i] * s * wf[i] + (r.base ? base[i] : 0.0f);
        store<V>((Y *)r.out + at + c, a);
    });
}

/* out = base + (g - n mean(g n)) rstd, g = dy w f, n = x rstd; out may be dy or base. X: the type of x and out, D: of
 * dy. */
template <typename X, typename D, int V, int N>
__global__ void __launch_bounds__(BLOCK, 2) rmsmod_back_kernel(struct rmsmod r)
{
    const size_t row = warp_row(), at = row * r.cols, b = row / r.tokens;
    if (row >= r.rows)
        return;
    const float s = r.rstd[row];
    const D *dy = (const D *)r.dy + at;
    enum { KEEP = sizeof(D) == 2 && KEEPS_WHILE_READING ? N : 0 };
    pack<D, V> kept[KEEP > 0 ? KEEP : 1];
    float sum = 0;
    lane_packs<V, KEEP>(r.cols, [&](int k, int c) {
        float g[V], n[V], wf[V];
        kept[k] = pack_of<V>(dy + c);
        unpack<V>(g, kept[k]);
        load<V>(n, (const X *)r.x + at + c);
        rmsmod_weights<V>(wf, r, b, c);
        for (int i = 0; i < V; i++)
            sum += g[i] * wf[i] * (n[i] * s);
    });
    const float mean = warp_sum(sum) / (float)r.cols;
    lane_packs<V, KEEP>(r.cols, [&](int k, int c) {
        float g[V], n[V], wf[V], base[V];
        unpack<V>(g, KEEP > 0 ? kept[k] : pack_of<V>(dy + c));
        load<V>(n, (const X *)r.x + at + c);
        rmsmod_weights<V>(wf, r, b, c);
        if (r.base)
            load<V>(base, r.base + at + c);
        for (int i = 0; i < V; i++)
            g[i] = (g[i] * wf[i] - n[i] * s * mean) * s + (r.base ? base[i] : 0.0f);
        store<V>((X *)r.out + at + c, g);
    });
}

/* S: the sum of dy x rstd over the tokens of a sample; of V columns at a time. */
template <typename X, typename D, int V> struct rmsmod_columns {
    enum { SUMS = V };
    const D     *dy;
    const X     *x;
    const float *rstd;
    int          cols;
    __device__ void get(float *out, size_t row, int pack) const
    {
        const size_t at = row * cols + pack * V;
        const float s = rstd[row];
        float n[V];
        load<V>(out, dy + at);
        load<V>(n, x + at);
        for (int i = 0; i < V; i++)
            out[i] *= n[i] * s;
    }
};

/* From S in dmod: the gradient of scale or gate, and dw += f S. */
__global__ void rmsmod_finish_kernel(float *dw, float *dmod, const float *w, const float *mod, int ldm, bool gated,
                                     int batch, int cols)
{
    for EACH(c, (size_t)cols) {
        float total = 0;
        for (int b = 0; b < batch; b++) {
            const size_t at = (size_t)b * ldm + c;
            const float s = dmod[at], f = rmsmod_factor(gated, mod[at]);
            dmod[at] = s * w[c] * (gated ? 1.0f - f * f : 1.0f);
            total += f * s;
        }
        if (dw)
            dw[c] += total;
    }
}

static bool rmsmod_fours(const struct rmsmod &r)
{
    return by_four({(size_t)r.cols, (size_t)r.ldm}, r.out, (const void *)r.base, r.x, r.dy, (const void *)r.w,
                   (const void *)r.mod);
}

template <typename X, typename D, int V>
static void rmsmod_sums(const char *name, const struct rmsmod &r, float *dw, float *dmod, int batch)
{
    const struct rmsmod_columns<X, D, V> f = {(const D *)r.dy, (const X *)r.x, r.rstd, r.cols};
    column_sums_of_packs(name, f, {dmod, r.ldm, 0, 1, 0}, batch, r.tokens, r.cols);
    launch(name, rmsmod_finish_kernel, grid_for((size_t)r.cols), dim3(BLOCK), 0, dw, dmod, r.w, r.mod, r.ldm, r.gated,
           batch, r.cols);
}

static struct rmsmod rmsmod_of(const void *x, const float *w, const float *mod, int ldm, int batch, int tokens,
                               int cols)
{
    struct rmsmod r = {};
    r.x = x, r.w = w, r.mod = mod, r.ldm = ldm;
    r.tokens = tokens, r.cols = cols, r.rows = (size_t)batch * (size_t)tokens;
    return r;
}

/* x is float and the result narrow; with a gate the other way round. */
static void rmsmod_run(const char *name, const struct rmsmod &r)
{
    for_rows(rmsmod_fours(r), r.cols, [&](auto t, auto v, auto n) {
        typedef decltype(t) T;
        enum { V = decltype(v)::value, N = decltype(n)::value };
        launch(name, r.gated ? rmsmod_kernel<T, float, V, N> : rmsmod_kernel<float, T, V, N>, grid_of_rows(r.rows),
               dim3(BLOCK), 0, r);
    });
}

template <typename X, typename D, int V, int N>
static void rmsmod_back_of(const char *name, const struct rmsmod &r, float *dw, float *dmod, int batch)
{
    rmsmod_sums<X, D, V>(name, r, dw, dmod, batch);
    launch(name, rmsmod_back_kernel<X, D, V, N>, grid_of_rows(r.rows), dim3(BLOCK), 0, r);
}

static void rmsmod_back(const char *name, const struct rmsmod &r, float *dw, float *dmod, int batch)
{
    for_rows(rmsmod_fours(r), r.cols, [&](auto t, auto v, auto n) {
        typedef decltype(t) T;
        enum { V = decltype(v)::value, N = decltype(n)::value };
        r.gated ? rmsmod_back_of<T, float, V, N>(name, r, dw, dmod, batch)
                : rmsmod_back_of<float, T, V, N>(name, r, dw, dmod, batch);
    });
}

static void cuda_rms_mod(void *h, float *rstd, const float *x, const float *w, const float *scale, int ldm, int batch,
                         int tokens, int cols, float eps)
{
    struct rmsmod r = rmsmod_of(x, w, scale, ldm, batch, tokens, cols);
    r.out = h, r.rstd_out = rstd, r.eps = eps;
    rmsmod_run("rms_mod", r);
}

static void cuda_rms_mod_back(float *dx, float *dw, float *dscale, const void *dh, const float *x, const float *rstd,
                              const float *w, const float *scale, int ldm, int batch, int tokens, int cols)
{
    struct rmsmod r = rmsmod_of(x, w, scale, ldm, batch, tokens, cols);
    r.out = dx, r.base = dx, r.dy = dh, r.rstd = rstd;
    rmsmod_back("rms_mod_back", r, dw, dscale, batch);
}

static void cuda_rms_gate(float *y, float *rstd, const float *x, const void *a, const float *w, const float *gate,
                          int ldg, int batch, int tokens, int cols, float eps)
{
    struct rmsmod r = rmsmod_of(a, w, gate, ldg, batch, tokens, cols);
    r.out = y, r.rstd_out = rstd, r.base = x, r.gated = true, r.eps = eps;
    rmsmod_run("rms_gate", r);
}

static void cuda_rms_gate_back(void *da, float *dw, float *dgate, const float *dy, const void *a, const float *rstd,
                               const float *w, const float *gate, int ldg, int batch, int tokens, int cols)
{
    struct rmsmod r = rmsmod_of(a, w, gate, ldg, batch, tokens, cols);
    r.out = da, r.dy = dy, r.rstd = rstd, r.gated = true;
    rmsmod_back("rms_gate_back", r, dw, dgate, batch);
}

static void fill_rmsmod(struct kern_ops *ops)
{
    ops->rms_mod = cuda_rms_mod;
    ops->rms_mod_back = cuda_rms_mod_back;
    ops->rms_gate = cuda_rms_gate;
    ops->rms_gate_back = cuda_rms_gate_back;
}
