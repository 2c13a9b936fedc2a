/* SPDX-License-Identifier: Apache-2.0 */
/* glumbconv.cu - SiLU, depthwise 3x3 and gated SiLU in one pass, forward and backward
 *
 * In bf16 with whole packs this is the work of tensor cores (glumbconv_mma.cuh).  The kernels here are for fp32, for
 * other sizes, and for images too wide for those:
 *
 * A block has a slice of the channels of each half (of 16: a sector of memory in bf16) and goes down the image, four
 * rows at a time.  Rows of s = silu(u) are in a ring of shared memory (tile.h), each made once; the backward pass has a
 * second ring, for the gradient of d, and is one row behind.  A thread makes P channels of eight pixels, four rows of
 * two, from six rows of four.  Images of 32 columns have kernels of their own, in which offsets are constants.
 *
 * A pixel's numbers of a half are 32 bytes in bf16, and the lanes of a warp read every second pixel: where this would
 * conflict in a bank, two neighbours are swapped (glumbconv_at).
 */
#include "kernels/device.cuh"
#include "kernels/tile.h"

enum {
    GLUMBCONV_BLOCK = 128,
    GLUMBCONV_ACROSS = 2, /* columns of a thread */
    GLUMBCONV_BEFORE = GLUMBCONV_STEP - 2 /* of the rows before, those that the window needs */
};

struct glumbconv_args {
    void                 *g, *du;
    const void           *u, *dg;
    const float          *w, *b;
    float                *part; /* [samples][GLUMBCONV_SUMS][channels]: nine weights, the bias */
    struct kern_image     s;    /* channels: of both halves */
    int                   channels; /* of a slice */
};

/* W: the width, or 0: any. In a kernel for one width, sizes become constants. */
template <int W> __device__ static inline struct glumbconv_args glumbconv_fixed(struct glumbconv_args m)
{
    if (W > 0)
        m.s.width = W, m.channels = GLUMBCONV_SLICE;
    return m;
}

/* The work of a block and of a thread. */
template <int P> struct glumbconv_place {
    int half, slice, b; /* channels per half; the first of the slice; sample */
    int c, unit, units; /* this thread: channel in the slice, its pair of columns of every `units` */
    int have;           /* channels from c on that exist, of a half */
    __device__ glumbconv_place(const struct glumbconv_args &m)
    {
        const unsigned each = (unsigned)m.channels / P;
        half = m.s.channels / 2;
        slice = (int)blockIdx.x * m.channels;
        b = (int)blockIdx.y;
        c = (int)(threadIdx.x % each) * P;
        unit = (int)(threadIdx.x / each);
        units = (int)(GLUMBCONV_BLOCK / each);
        have = half - slice - c;
    }
    __device__ size_t at(const struct glumbconv_args &m, int h, int x, int cols) const
    {
        return (((size_t)b * m.s.height + h) * m.s.width + x) * cols;
    }
};

/* P numbers of a row in memory; zeros if the channel does not exist. A half has whole packs (by_four). */
template <int P, typename T>
__device__ static inline void glumbconv_load(float *to, const T *from, int have)
{
    if (have > 0)
        load<P>(to, from);
    else
        for (int i = 0; i < P; i++)
            to[i] = 0.0f;
}

template <int P, typename T>
__device__ static inline void glumbconv_store(T *to, const float *from, int have)
{
    if (have > 0)
        store<P>(to, from);
}

/* Where pixel x of a row of a ring begins; columns -1 and those after the last one are zeros. */
__device__ static inline int glumbconv_at(const struct glumbconv_args &m, int row, int which, int x)
{
    const int p = x + 1;
    return ((row * 2 + which) * glumbconv_pitch(m.s.width) + (p ^ (p >> 2 & 1))) * m.channels;
}

/* Zeros beside all rows of a ring. */
template <typename T> __device__ static inline void glumbconv_borders(T *ring, const struct glumbconv_args &m, int rows)
{
    const int sides = glumbconv_pitch(m.s.width) - m.s.width, count = rows * 2 * sides * m.channels;
    for (int i = (int)threadIdx.x; i < count; i += GLUMBCONV_BLOCK) {
        const int c = i % m.channels, px = i / m.channels, side = px % sides, row = px / sides;
        ring[glumbconv_at(m, row / 2, row % 2, side == 0 ? -1 : m.s.width + side - 1) + c] = narrow<T>(0.0f);
    }
}

/* silu(u) of the rows from h on, zeros outside of the image, into a step's rows of the ring. */
template <int V, typename T>
__device__ static inline void glumbconv_fill(T *ring, int step, const struct glumbconv_args &m,
                                             const struct glumbconv_place<V> &p, int h)
{
    const unsigned packs = 2 * (unsigned)m.channels / V, pack = threadIdx.x % packs;
    const int which = pack >= packs / 2, c = (int)(pack - which * (packs / 2)) * V;
    const T *u = (const T *)m.u + p.at(m, h, 0, m.s.channels) + which * p.half + p.slice + c;
    for (int x = (int)(threadIdx.x / packs); x < m.s.width; x += (int)(GLUMBCONV_BLOCK / packs)) {
        float s[GLUMBCONV_STEP][V] = {};
        ALL_AT_ONCE
        for (int r = 0; r < GLUMBCONV_STEP; r++)
            if (h + r >= 0 && h + r < m.s.height)
                glumbconv_load<V>(s[r], u + ((ptrdiff_t)r * m.s.width + x) * m.s.channels, p.half - p.slice - c);
        ALL_AT_ONCE
        for (int r = 0; r < GLUMBCONV_STEP; r++) {
            ALL_AT_ONCE
            for (int k = 0; k < V; k++)
                s[r][k] *= sigmoid_for<T>(s[r][k]);
            store<V>(ring + glumbconv_at(m, step * GLUMBCONV_STEP + r, which, x) + c, s[r]);
        }
    }
}

/* [2][channels][nine weights], then [2][channels] biases: the slice's, zeros past the last channel. */
__device__ static inline void glumbconv_take(float *kept, const struct glumbconv_args &m, int half, int slice)
{
    for (int i = (int)threadIdx.x; i < m.channels * 18; i += GLUMBCONV_BLOCK) {
        const int which = i / (m.channels * 9), at = i % (m.channels * 9);
        kept[i] = slice + at / 9 < half ? m.w[((size_t)which * half + slice) * 9 + at] : 0.0f;
    }
    for (int i = (int)threadIdx.x; i < m.channels * 2; i += GLUMBCONV_BLOCK) {
        const int c = slice + i % m.channels;
        kept[m.channels * 18 + i] = c < half ? m.b[i / m.channels * half + c] : 0.0f;
    }
}

template <int P> struct glumbconv_weights {
    float at[P][9], bias[P];
    __device__ glumbconv_weights(const float *kept, int channels, int which, int c)
    {
        float x[P * 9];
        for (int i = 0; i < 9; i++)
            load<P>(x + i * P, kept + (which * channels + c) * 9 + i * P);
        for (int i = 0; i < P * 9; i++)
            at[i / 9][i % 9] = x[i];
        load<P>(bias, kept + channels * 18 + which * channels + c);
    }
};

/* Six rows of a ring: the last two of one step, the four of the next; a thread's four columns of a half. */
template <int P, typename T> struct glumbconv_rows {
    int      row;
    const T *before[GLUMBCONV_ACROSS + 2], *now[GLUMBCONV_ACROSS + 2];
    __device__ glumbconv_rows(const T *ring, int step_before, int step, const struct glumbconv_args &m, int which,
                              int x, int c)
    {
        row = 2 * glumbconv_pitch(m.s.width) * m.channels;
        for (int i = 0; i < GLUMBCONV_ACROSS + 2; i++) {
            const int at = glumbconv_at(m, 0, which, x - 1 + i) + c;
            before[i] = ring + (step_before * GLUMBCONV_STEP + GLUMBCONV_BEFORE) * row + at;
            now[i] = ring + step * GLUMBCONV_STEP * row + at;
        }
    }
    __device__ void get(float *to, int r, int i) const
    {
        load<P>(to, r < 2 ? before[i] + r * row : now[i] + (r - 2) * row);
    }
};

/* y = the bias and the sums over 3x3 pixels, four rows of two columns */
template <int P, typename T>
__device__ static inline void glumbconv_sums(float y[GLUMBCONV_STEP][GLUMBCONV_ACROSS][P],
                                             const struct glumbconv_rows<P, T> &s,
                                             const struct glumbconv_weights<P> &w)
{
    ALL_AT_ONCE
    for (int i = 0; i < GLUMBCONV_STEP * GLUMBCONV_ACROSS * P; i++)
        y[i / (GLUMBCONV_ACROSS * P)][i / P % GLUMBCONV_ACROSS][i % P] = w.bias[i % P];
    ALL_AT_ONCE
    for (int r = 0; r < GLUMBCONV_STEP + 2; r++) {
        float in[GLUMBCONV_ACROSS + 2][P];
        for (int i = 0; i < GLUMBCONV_ACROSS + 2; i++)
            s.get(in[i], r, i);
        ALL_AT_ONCE
        for (int to = 0; to < GLUMBCONV_STEP; to++)
            if (r - to >= 0 && r - to < 3)
                for (int i = 0; i < GLUMBCONV_ACROSS * 3 * P; i++) {
                    const int x = i / (3 * P), t = i / P % 3, k = i % P;
                    y[to][x][k] += in[x + t][k] * w.at[k][(r - to) * 3 + t];
                }
    }
}

/* g of the four rows from h on */
template <int P, typename T>
__device__ static inline void glumbconv_gate(const T *ring, int before, int step, const struct glumbconv_weights<P> &wa,
                                             const struct glumbconv_weights<P> &wg, const struct glumbconv_args &m,
                                             const struct glumbconv_place<P> &p, int h)
{
    for (int x = p.unit * GLUMBCONV_ACROSS; x < m.s.width; x += p.units * GLUMBCONV_ACROSS) {
        float ya[GLUMBCONV_STEP][GLUMBCONV_ACROSS][P], yg[GLUMBCONV_STEP][GLUMBCONV_ACROSS][P];
        glumbconv_sums<P>(ya, glumbconv_rows<P, T>(ring, before, step, m, 0, x, p.c), wa);
        glumbconv_sums<P>(yg, glumbconv_rows<P, T>(ring, before, step, m, 1, x, p.c), wg);
        T *out = (T *)m.g + p.at(m, h, x, p.half) + p.slice + p.c;
        ALL_AT_ONCE
        for (int r = 0; r < GLUMBCONV_STEP; r++)
            for (int i = 0; i < GLUMBCONV_ACROSS; i++)
                if (h + r < m.s.height && x + i < m.s.width) {
                    for (int k = 0; k < P; k++)
                        ya[r][i][k] *= yg[r][i][k] * sigmoid_for<T>(yg[r][i][k]);
                    glumbconv_store<P>(out + ((size_t)r * m.s.width + i) * p.half, ya[r][i], p.have);
                }
    }
}

/* In step k rows 4k + 1 to 4k + 4 of s come to those that are there, and rows 4k to 4k + 3 of g leave. */
template <typename T, int V, int W> __global__ void __launch_bounds__(GLUMBCONV_BLOCK,
                                                                      4) glumbconv_kernel(struct glumbconv_args given)
{
    enum { P = V / 2 + V % 2 };
    const struct glumbconv_args m = glumbconv_fixed<W>(given);
    const struct glumbconv_place<P> p(m);
    const struct glumbconv_place<V> packs(m);
    DYNAMIC_SHARED(float, kept);
    T *ring = (T *)(kept + m.channels * GLUMBCONV_KEPT);
    glumbconv_take(kept, m, p.half, p.slice);
    glumbconv_borders(ring, m, GLUMBCONV_STEPS * GLUMBCONV_STEP);
    glumbconv_fill<V>(ring, 0, m, packs, 1 - GLUMBCONV_STEP);
    __syncthreads();
    const struct glumbconv_weights<P> wa(kept, m.channels, 0, p.c), wg(kept, m.channels, 1, p.c);
    for (int h = 0, before = 0; h < m.s.height; h += GLUMBCONV_STEP) {
        const int step = before + 1 < GLUMBCONV_STEPS ? before + 1 : 0;
        glumbconv_fill<V>(ring, step, m, packs, h + 1);
        __syncthreads(); /* once: with three steps in the ring, what the slowest thread still reads stays */
        glumbconv_gate<P>(ring, before, step, wa, wg, m, p, h);
        before = step;
    }
}

/* --- backward ------------------------------------------------------------------------------------ */

/* The gradient of both halves of d, one row and column, in place of d; dg: zero outside of the image. */
template <typename T, int P> __device__ static inline void mix_slope(float *a, float *g, const float *dg)
{
    for (int k = 0; k < P; k++) {
        const float s = sigmoid_for<T>(g[k]), by = dg[k] * s, of_g = a[k] * by * (1.0f + g[k] * (1.0f - s));
        a[k] = g[k] * by;
        g[k] = of_g;
    }
}

/* The gradient of d, four rows from h on, into a step's rows of its ring. */
template <int P, typename T>
__device__ static inline void mix_slopes(T *dd, int to, const T *s, int before, int step, const float *kept,
                                         const struct glumbconv_args &m, const struct glumbconv_place<P> &p, int h)
{
    for (int x = p.unit * GLUMBCONV_ACROSS; x < m.s.width; x += p.units * GLUMBCONV_ACROSS) {
        float ya[GLUMBCONV_STEP][GLUMBCONV_ACROSS][P], yg[GLUMBCONV_STEP][GLUMBCONV_ACROSS][P];
        glumbconv_sums<P>(ya, glumbconv_rows<P, T>(s, before, step, m, 0, x, p.c),
                          glumbconv_weights<P>(kept, m.channels, 0, p.c));
        glumbconv_sums<P>(yg, glumbconv_rows<P, T>(s, before, step, m, 1, x, p.c),
                          glumbconv_weights<P>(kept, m.channels, 1, p.c));
        const T *dg = (const T *)m.dg + p.at(m, h, x, p.half) + p.slice + p.c;
        ALL_AT_ONCE
        for (int r = 0; r < GLUMBCONV_STEP; r++)
            for (int i = 0; i < GLUMBCONV_ACROSS; i++)
                if (x + i < m.s.width) {
                    float d[P] = {};
                    if (h + r < m.s.height)
                        glumbconv_load<P>(d, dg + (ptrdiff_t)((r * m.s.width + i) * p.half), p.have);
                    mix_slope<T, P>(ya[r][i], yg[r][i], d);
                    store<P>(dd + glumbconv_at(m, to * GLUMBCONV_STEP + r, 0, x + i) + p.c, ya[r][i]);
                    store<P>(dd + glumbconv_at(m, to * GLUMBCONV_STEP + r, 1, x + i) + p.c, yg[r][i]);
                }
    }
}

/* Rows of both rings at the pixels of a thread: d's gradient around them, and s at them. */
template <int P, typename T> struct mix_rows {
    struct glumbconv_rows<P, T> dd, s;
};

/* What one row of the gradient of d adds to ds of a row, and with s of that row to the sums of a channel. */
template <int P>
__device__ static inline void mix_row(float ds[GLUMBCONV_ACROSS][P], float sums[GLUMBCONV_SUMS][P],
                                      const float in[GLUMBCONV_ACROSS + 2][P], const float s[GLUMBCONV_ACROSS][P],
                                      const struct glumbconv_weights<P> &w, int line)
{
    for (int x = 0; x < GLUMBCONV_ACROSS; x++)
        for (int k = 0; k < P; k++) {
            for (int t = 0; t < 3; t++) {
                const int mirrored = 8 - (line * 3 + t);
                ds[x][k] += in[x + t][k] * w.at[k][mirrored];
                sums[mirrored][k] += in[x + t][k] * s[x][k];
            }
            if (line == 1)
                sums[9][k] += in[x + 1][k];
        }
}

/* ds = the sums over 3x3 pixels, mirrored, and what the pixels add to the sums of a channel. */
template <int P, typename T>
__device__ static inline void mix_pixels(float ds[GLUMBCONV_STEP][GLUMBCONV_ACROSS][P],
                                         float sums[GLUMBCONV_SUMS][P], const struct mix_rows<P, T> &rows,
                                         const struct glumbconv_weights<P> &w)
{
    float s[GLUMBCONV_STEP][GLUMBCONV_ACROSS][P];
    ALL_AT_ONCE
    for (int r = 0; r < GLUMBCONV_STEP + 2; r++) {
        float in[GLUMBCONV_ACROSS + 2][P];
        for (int i = 0; i < GLUMBCONV_ACROSS + 2; i++)
            rows.dd.get(in[i], r, i);
        for (int i = 0; r < GLUMBCONV_STEP && i < GLUMBCONV_ACROSS; i++)
            rows.s.get(s[r][i], r, i + 1);
        ALL_AT_ONCE
        for (int to = 0; to < GLUMBCONV_STEP; to++)
            if (r - to >= 0 && r - to < 3)
                mix_row<P>(ds[to], sums, in, s[to], w, r - to);
    }
}

/* ds times the slope of silu at u is du: a pixel's, from number `at` on. */
template <int P, typename T>
__device__ static inline void mix_give(float *ds, const struct glumbconv_args &m, const struct glumbconv_place<P> &p,
                                       size_t at)
{
    float u[P];
    glumbconv_load<P>(u, (const T *)m.u + at, p.have);
    for (int k = 0; k < P; k++) {
        const float y = sigmoid_for<T>(u[k]);
        ds[k] *= y * (1.0f + u[k] * (1.0f - y));
    }
    glumbconv_store<P>((T *)m.du + at, ds, p.have);
}

/* du of one half, four rows from h on, and their share in the sums. */
template <int P, typename T>
__device__ static inline void mix_turn(float sums[GLUMBCONV_SUMS][P], const T *dd, int dd_step, const T *s, int before,
                                       int step, const float *kept, const struct glumbconv_args &m,
                                       const struct glumbconv_place<P> &p, int which, int h)
{
    const struct glumbconv_weights<P> w(kept, m.channels, which, p.c);
    for (int x = p.unit * GLUMBCONV_ACROSS; x < m.s.width; x += p.units * GLUMBCONV_ACROSS) {
        const struct mix_rows<P, T> rows = {
            glumbconv_rows<P, T>(dd, 1 - dd_step, dd_step, m, which, x, p.c),
            glumbconv_rows<P, T>(s, before, step, m, which, x, p.c)};
        float ds[GLUMBCONV_STEP][GLUMBCONV_ACROSS][P] = {};
        mix_pixels<P, T>(ds, sums, rows, w);
        const size_t at = p.at(m, h, x, m.s.channels) + which * p.half + p.slice + p.c;
        ALL_AT_ONCE
        for (int r = 0; r < GLUMBCONV_STEP; r++)
            for (int i = 0; i < GLUMBCONV_ACROSS; i++)
                if (h + r >= 0 && h + r < m.s.height && x + i < m.s.width)
                    mix_give<P, T>(ds[r][i], m, p, at + (ptrdiff_t)((r * m.s.width + i) * m.s.channels));
    }
}

/* The sums of all threads of a channel: lanes of a warp first, then warps in order. */
template <int P>
__device__ static inline void mix_collect(float sums[GLUMBCONV_SUMS][P], float *scratch,
                                          const struct glumbconv_args &m, const struct glumbconv_place<P> &p,
                                          int which)
{
    const int each = m.channels / P, lane = (int)threadIdx.x % WARP;
    const int lanes = each < WARP ? each : WARP, count = m.channels * GLUMBCONV_SUMS;
    for (int t = 0; t < GLUMBCONV_SUMS; t++)
        for (int k = 0; k < P; k++)
            for (int far = lanes; far < WARP; far *= 2)
                sums[t][k] += __shfl_xor_sync(0xffffffffu, sums[t][k], far);
    __syncthreads();
    if (lane < lanes)
        for (int t = 0; t < GLUMBCONV_SUMS; t++)
            for (int k = 0; k < P; k++)
                scratch[((int)threadIdx.x / WARP * GLUMBCONV_SUMS + t) * m.channels + p.c + k] =
                    sums[t][k];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count; i += GLUMBCONV_BLOCK) {
        const int c = i % m.channels, t = i / m.channels;
        float total = 0;
        for (int warp = 0; warp < GLUMBCONV_BLOCK / WARP; warp++)
            total += scratch[(warp * GLUMBCONV_SUMS + t) * m.channels + c];
        if (p.slice + c < p.half)
            m.part[((size_t)p.b * GLUMBCONV_SUMS + t) * m.s.channels + which * p.half + p.slice + c] = total;
    }
}

/* In step k rows 4k + 1 to 4k + 4 of s come, 4k to 4k + 3 of the gradient of d, and 4k - 1 to 4k + 2 of du leave. */
template <typename T, int V, int W>
__global__ void __launch_bounds__(GLUMBCONV_BLOCK, 4) mix_back_kernel(struct glumbconv_args given)
{
    enum { P = W == 0 ? 1 : V / 2 + V % 2 }; /* with sizes that are not constants two take more than 128 registers */
    const struct glumbconv_args m = glumbconv_fixed<W>(given);
    const struct glumbconv_place<P> p(m);
    const struct glumbconv_place<V> packs(m);
    DYNAMIC_SHARED(float, kept);
    T *s = (T *)(kept + m.channels * GLUMBCONV_KEPT);
    T *dd = s + glumbconv_at(m, GLUMBCONV_STEPS * GLUMBCONV_STEP, 0, -1);
    float sums[2][GLUMBCONV_SUMS][P] = {};
    glumbconv_take(kept, m, p.half, p.slice);
    glumbconv_borders(s, m, MIX_BACK_STEPS * GLUMBCONV_STEP);
    glumbconv_fill<V>(s, 0, m, packs, 1 - GLUMBCONV_STEP);
    glumbconv_fill<V>(dd, 1, m, packs, -GLUMBCONV_STEP); /* rows before the first: zeros */
    for (int h = 0, before = 0, to = 0; h <= m.s.height; h += GLUMBCONV_STEP, to = 1 - to) {
        const int step = before + 1 < GLUMBCONV_STEPS ? before + 1 : 0;
        glumbconv_fill<V>(s, step, m, packs, h + 1);
        __syncthreads(); /* s is there, and nobody reads the gradient of two steps ago */
        if (h < m.s.height)
            mix_slopes<P>(dd, to, s, before, step, kept, m, p, h);
        else
            glumbconv_fill<V>(dd, to, m, packs, h); /* zeros */
        __syncthreads();
        ALL_AT_ONCE
        for (int which = 0; which < 2; which++)
            mix_turn<P>(sums[which], dd, to, s, before, step, kept, m, p, which, h - 1);
        before = step;
    }
    ALL_AT_ONCE
    for (int which = 0; which < 2; which++)
        mix_collect<P>(sums[which], (float *)s, m, p, which);
}

/* dw[c][9] += and db[c] += the sums of all blocks. */
__global__ void mix_finish(float *dw, float *db, const float *part, int cols, int blocks)
{
    for EACH(i, (size_t)cols * GLUMBCONV_SUMS) {
        const size_t t = i / cols, c = i % cols;
        float total = 0;
        for (int k = 0; k < blocks; k++)
            total += part[((size_t)k * GLUMBCONV_SUMS + t) * cols + c];
        if (t < 9)
            dw[c * 9 + t] += total;
        else
            db[c] += total;
    }
}

#include "kernels/glumbconv_mma.cuh"

static dim3 mix_grid(const struct glumbconv_args &m)
{
    return dim3(tiles((size_t)m.s.channels / 2, (size_t)m.channels), (unsigned)m.s.batch);
}

static bool mix_fits(const struct glumbconv_args &m)
{
    if (m.channels < 1 && device.state == KERN_OK) {
        device.state = KERN_FAULT;
        snprintf(device.why, sizeof(device.why),
                 "a row of an image of width %d does not fit into shared memory", m.s.width);
    }
    return m.channels > 0;
}

/* fn(W): of the kernel for the image, as a constant */
template <int V, typename F> static void mix_width(const struct glumbconv_args &m, F fn)
{
    if constexpr (V > 1) {
        if (m.s.width == 32 && m.channels == GLUMBCONV_SLICE) {
            fn(std::integral_constant<int, 32>());
            return;
        }
    }
    fn(std::integral_constant<int, 0>());
}

/* Whether packs of four numbers, V of them, are for tensor cores: then a slice has its channels. */
template <typename T, int V> static bool mix_on_tensor_cores(struct glumbconv_args *m, int steps, int rings)
{
    const bool fits = std::is_same<T, bf16>::value && V == 4 && device_way("tensor") &&
                      glumbconv_mma_bytes(m->s.width, rings) <= device.shared_most;
    m->channels = fits ? GLUMBCONV_SLICE : glumbconv_slice(m->s.width, steps, sizeof(T), device.shared_most);
    return fits;
}

template <typename T, int V> static void mix_forward(struct glumbconv_args m)
{
    const dim3 block(GLUMBCONV_BLOCK);
    if (mix_on_tensor_cores<T, V>(&m, GLUMBCONV_STEPS, 1))
        mix_width<V>(m, [&](auto width) {
            launch("mix", glumbconv_mma_kernel<decltype(width)::value>, mix_grid(m), block,
                   glumbconv_mma_bytes(m.s.width, 1), m);
        });
    else if (mix_fits(m))
        mix_width<sizeof(T) == 4 ? V : 1>(m, [&](auto width) {
            launch("mix", glumbconv_kernel<T, V, decltype(width)::value>, mix_grid(m), block,
                   glumbconv_bytes(m.channels, m.s.width, GLUMBCONV_STEPS, sizeof(T)), m);
        });
}

template <typename T, int V> static void mix_backward(const struct glumbconv_args &m, bool tensor)
{
    const dim3 block(GLUMBCONV_BLOCK);
    if (tensor)
        mix_width<V>(m, [&](auto width) {
            launch("mix_back", mix_back_mma_kernel<decltype(width)::value>, mix_grid(m), block,
                   glumbconv_mma_bytes(m.s.width, 2), m);
        });
    else
        mix_width<sizeof(T) == 4 ? V : 1>(m, [&](auto width) {
            launch("mix_back", mix_back_kernel<T, V, decltype(width)::value>, mix_grid(m), block,
                   glumbconv_bytes(m.channels, m.s.width, MIX_BACK_STEPS, sizeof(T)), m);
        });
}

static void cuda_mix(void *g, struct kern_glumbconv, const void *u, const float *w, const float *b,
                     struct kern_image s)
{
    struct glumbconv_args m = {};
    m.g = g, m.u = u, m.w = w, m.b = b, m.s = s;
    for_kind(by_four({(size_t)s.channels / 2}, g, u),
             [&](auto t, auto v) { mix_forward<decltype(t), decltype(v)::value>(m); });
}

static void cuda_mix_back(void *du, float *dw, float *db, void *, const void *dg, const void *u,
                          struct kern_glumbconv, const float *w, const float *b, struct kern_image s)
{
    struct glumbconv_args m = {};
    m.du = du, m.dg = dg, m.u = u, m.w = w, m.b = b, m.s = s;
    for_kind(by_four({(size_t)s.channels / 2}, du, dg, u), [&](auto t, auto v) {
        const bool tensor = mix_on_tensor_cores<decltype(t), decltype(v)::value>(&m, MIX_BACK_STEPS, 2);
        if (!tensor && !mix_fits(m))
            return;
        m.part = (float *)device_scratch(SCRATCH_PARTS, sizeof(float) * GLUMBCONV_SUMS * (size_t)s.batch *
                                                            (size_t)s.channels);
        if (!m.part)
            return;
        mix_backward<decltype(t), decltype(v)::value>(m, tensor);
        if (dw)
            launch("mix_back", mix_finish, grid_for((size_t)s.channels * GLUMBCONV_SUMS), dim3(BLOCK), 0, dw, db,
                   m.part, s.channels, s.batch);
    });
}

static void fill_mix(struct kern_ops *ops)
{
    ops->glumbconv = cuda_mix;
    ops->glumbconv_back = cuda_mix_back;
}
