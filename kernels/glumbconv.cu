/* SPDX-License-Identifier: Apache-2.0 */
/* glumbconv.cu - SiLU, depthwise 3x3 and gated SiLU in one pass, forward and backward
 *
 * A block holds a slice of the channels of each half, and all rows of the image
 * or a band of them (tile.h), in shared memory; u is read once from memory and g
 * written once.  A thread walks along a row with P channels, its window of 3x3
 * pixels in registers.  The backward pass recomputes s and d, holds the gradient of d beside
 * them, and reads u a second time, from cache.
 */
#include "kernels/device.cuh"
#include "kernels/tile.h"

enum {
    GLUMBCONV_BLOCK = MIX_WARPS * WARP,
    GLUMBCONV_SLICE = 32, /* channels per half, forward */
    GLUMBCONV_HALO = 2 /* halo rows above and below a band together */
};

struct glumbconv_args {
    void                 *g, *du;
    const void           *u, *dg;
    const float          *w, *b;
    /* [samples * bands][GLUMBCONV_SUMS][channels]: nine weights, the bias */
    float                *part;
    struct kern_image     s;    /* channels: of both halves */
    struct glumbconv_tile z;
};

/* The work of a block and of a thread. Rows of a tile begin `halo` rows above the band. */
template <int P> struct glumbconv_place {
    int half, slice, top, end, b; /* channels per half; its first; rows [top, end); sample */
    int c, unit, units;           /* this thread: channel in the slice, its row of every `units` */
    __device__ glumbconv_place(const struct glumbconv_args &m)
    {
        const int each = m.z.channels / P;
        half = m.s.channels / 2;
        slice = (int)blockIdx.x * m.z.channels;
        top = (int)blockIdx.y * m.z.rows;
        end = top + m.z.rows < m.s.height ? top + m.z.rows : m.s.height;
        b = (int)blockIdx.z;
        c = (int)threadIdx.x % each * P;
        unit = (int)threadIdx.x / each;
        units = GLUMBCONV_BLOCK / each;
    }
    __device__ size_t at(const struct glumbconv_args &m, int h, int x, int cols) const
    {
        return (((size_t)b * m.s.height + h) * m.s.width + x) * cols;
    }
};

/* P numbers of a row in memory; zero past `have`. */
template <int P, typename T>
__device__ static inline void glumbconv_load(float *to, const T *from, int have)
{
    if (have >= P) {
        load<P>(to, from);
        return;
    }
    for (int i = 0; i < P; i++)
        to[i] = i < have ? widen(from[i]) : 0.0f;
}

template <int P, typename T>
__device__ static inline void glumbconv_store(T *to, const float *from, int have)
{
    if (have >= P)
        store<P>(to, from);
    else
        for (int i = 0; i < have; i++)
            to[i] = narrow<T>(from[i]);
}

/* silu(u) of rows [first, last) into tile[row - first][width][2][slice]; zeros outside. */
template <int V, typename T>
__device__ static inline void glumbconv_fill(T *tile, const struct glumbconv_args &m,
                                             const struct glumbconv_place<1> &p, int first, int last)
{
    const int packs = 2 * m.z.channels / V, count = (last - first) * m.s.width * packs;
    for (int i = (int)threadIdx.x; i < count; i += GLUMBCONV_BLOCK) {
        const int at = i % packs * V, px = i / packs, h = first + px / m.s.width;
        const int c = p.slice + at % m.z.channels, which = at / m.z.channels;
        float x[V] = {0};
        if (h >= 0 && h < m.s.height)
            glumbconv_load<V>(x, (const T *)m.u + p.at(m, h, px % m.s.width, m.s.channels) +
                               which * p.half + c, p.half - c);
        for (int k = 0; k < V; k++)
            x[k] *= sigmoid(x[k]);
        store<V>(tile + (size_t)px * 2 * m.z.channels + at, x);
    }
}

/* Three columns of three pixels, P channels each; moves along a row of a tile. */
template <int P, typename T> struct glumbconv_window {
    const T *row;      /* address of the pixel above left at x = 0, this thread's channel */
    int      step, width;
    float    at[3][3][P];
    __device__ glumbconv_window(const T *tile, int line, int w, int channels, int offset)
    {
        step = 2 * channels, width = w;
        row = tile + (size_t)line * w * step + offset;
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < P; k++)
                at[i][1][k] = 0.0f;
        column(0);
    }
    __device__ void column(int x)
    {
        for (int i = 0; i < 3; i++) {
            if (x < width)
                load<P>(at[i][2], row + ((size_t)i * width + x) * step);
            else
                for (int k = 0; k < P; k++)
                    at[i][2][k] = 0.0f;
        }
    }
    __device__ void move(int x) /* to x, from x - 1 */
    {
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < P; k++) {
                at[i][0][k] = at[i][1][k];
                at[i][1][k] = at[i][2][k];
            }
        column(x + 1);
    }
};

template <int P> struct glumbconv_weights {
    float at[9][P], bias[P];
    __device__ glumbconv_weights(const struct glumbconv_args &m, int which, int half, int c)
    {
        for (int k = 0; k < P; k++) {
            const bool is = c + k < half;
            const size_t ch = is ? (size_t)which * half + c + k : 0;
            for (int t = 0; t < 9; t++)
                at[t][k] = is ? m.w[ch * 9 + t] : 0.0f;
            bias[k] = is ? m.b[ch] : 0.0f;
        }
    }
    template <typename T>
    __device__ void apply(float *y, const struct glumbconv_window<P, T> &x) const
    {
        for (int k = 0; k < P; k++) {
            y[k] = bias[k];
            for (int t = 0; t < 9; t++)
                y[k] += x.at[t / 3][t % 3][k] * at[t][k];
        }
    }
};

template <typename T, int V> __global__ void __launch_bounds__(GLUMBCONV_BLOCK,
                                                               1) glumbconv_kernel(struct glumbconv_args m)
{
    enum { P = V / 2 + V % 2 };
    DYNAMIC_SHARED(T, tile);
    const struct glumbconv_place<P> p(m);
    glumbconv_fill<V>(tile, m, glumbconv_place<1>(m), p.top - 1, p.end + 1);
    __syncthreads();
    const struct glumbconv_weights<P> wa(m, 0, p.half, p.slice + p.c), wg(m, 1, p.half,
                                                                          p.slice + p.c);
    for (int h = p.top + p.unit; h < p.end; h += p.units) {
        struct glumbconv_window<P, T> a(tile, h - p.top, m.s.width, m.z.channels, p.c);
        struct glumbconv_window<P, T> g(tile, h - p.top, m.s.width, m.z.channels,
                                        m.z.channels + p.c);
        T *out = (T *)m.g + p.at(m, h, 0, p.half) + p.slice + p.c;
        for (int x = 0; x < m.s.width; x++, out += p.half) {
            float ya[P], yg[P];
            a.move(x);
            g.move(x);
            wa.apply(ya, a);
            wg.apply(yg, g);
            for (int k = 0; k < P; k++)
                ya[k] *= yg[k] * sigmoid(yg[k]);
            glumbconv_store<P>(out, ya, p.half - p.slice - p.c);
        }
    }
}

/* The gradient of d, rows [top - 1, end + 1), into dd; zeros outside of the image. */
template <int P, typename T>
__device__ static inline void mix_slopes(T *dd, const T *s, const struct glumbconv_args &m,
                                         const struct glumbconv_place<P> &p)
{
    const struct glumbconv_weights<P> wa(m, 0, p.half, p.slice + p.c), wg(m, 1, p.half,
                                                                          p.slice + p.c);
    for (int h = p.top - 1 + p.unit; h < p.end + 1; h += p.units) {
        struct glumbconv_window<P, T> a(s, h - p.top + 1, m.s.width, m.z.channels, p.c);
        struct glumbconv_window<P, T> g(s, h - p.top + 1, m.s.width, m.z.channels,
                                        m.z.channels + p.c);
        T *to = dd + (size_t)(h - p.top + 1) * m.s.width * 2 * m.z.channels + p.c;
        for (int x = 0; x < m.s.width; x++, to += 2 * m.z.channels) {
            float ya[P], yg[P], d[P] = {0};
            a.move(x);
            g.move(x);
            wa.apply(ya, a);
            wg.apply(yg, g);
            if (h >= 0 && h < m.s.height)
                glumbconv_load<P>(d, (const T *)m.dg + p.at(m, h, x, p.half) + p.slice + p.c,
                                  p.half - p.slice - p.c);
            for (int k = 0; k < P; k++) {
                const float by = yg[k] * sigmoid(yg[k]);
                yg[k] = d[k] * ya[k] * silu_slope(yg[k]);
                ya[k] = d[k] * by;
            }
            store<P>(to, ya);
            store<P>(to + m.z.channels, yg);
        }
    }
}

/* du of one half, and the share of its pixels in the sums. */
template <int P, typename T>
__device__ static inline void mix_turn(float sums[GLUMBCONV_SUMS][P], const T *dd, const T *s,
                                       const struct glumbconv_args &m, const struct glumbconv_place<P> &p,
                                       int which)
{
    const struct glumbconv_weights<P> w(m, which, p.half, p.slice + p.c);
    const int offset = which * m.z.channels + p.c, have = p.half - p.slice - p.c;
    for (int t = 0; t < GLUMBCONV_SUMS; t++)
        for (int k = 0; k < P; k++)
            sums[t][k] = 0;
    for (int h = p.top + p.unit; h < p.end; h += p.units) {
        struct glumbconv_window<P, T> d(dd, h - p.top, m.s.width, m.z.channels, offset);
        struct glumbconv_window<P, T> x3(s, h - p.top + 1, m.s.width, m.z.channels, offset);
        for (int x = 0; x < m.s.width; x++) {
            const size_t at = p.at(m, h, x, m.s.channels) + which * p.half + p.slice + p.c;
            float u[P], ds[P];
            d.move(x);
            x3.move(x);
            glumbconv_load<P>(u, (const T *)m.u + at, have);
            for (int k = 0; k < P; k++) {
                ds[k] = 0;
                for (int t = 0; t < 9; t++) {
                    ds[k] += d.at[t / 3][t % 3][k] * w.at[8 - t][k];
                    sums[t][k] += d.at[1][1][k] * x3.at[t / 3][t % 3][k];
                }
                sums[9][k] += d.at[1][1][k];
                ds[k] *= silu_slope(u[k]);
            }
            glumbconv_store<P>((T *)m.du + at, ds, have);
        }
    }
}

/* The sums of all threads of a channel: lanes of a warp first, then warps in order. */
template <int P>
__device__ static inline void mix_collect(float sums[GLUMBCONV_SUMS][P], float *scratch,
                                          const struct glumbconv_args &m, const struct glumbconv_place<P> &p,
                                          int which)
{
    const int each = m.z.channels / P, lane = (int)threadIdx.x % WARP;
    const int lanes = each < WARP ? each : WARP, count = each * P * GLUMBCONV_SUMS;
    const size_t block = (size_t)p.b * gridDim.y + blockIdx.y;
    for (int t = 0; t < GLUMBCONV_SUMS; t++)
        for (int k = 0; k < P; k++)
            for (int far = lanes; far < WARP; far *= 2)
                sums[t][k] += __shfl_xor_sync(0xffffffffu, sums[t][k], far);
    __syncthreads();
    if (lane < lanes)
        for (int t = 0; t < GLUMBCONV_SUMS; t++)
            for (int k = 0; k < P; k++)
                scratch[((int)threadIdx.x / WARP * GLUMBCONV_SUMS + t) * m.z.channels + p.c + k] =
                    sums[t][k];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count; i += GLUMBCONV_BLOCK) {
        const int c = i % m.z.channels, t = i / m.z.channels;
        float total = 0;
        for (int warp = 0; warp < MIX_WARPS; warp++)
            total += scratch[(warp * GLUMBCONV_SUMS + t) * m.z.channels + c];
        if (p.slice + c < p.half)
            m.part[(block * GLUMBCONV_SUMS + t) * m.s.channels + which * p.half + p.slice + c] =
                total;
    }
}

template <typename T, int V>
__global__ void __launch_bounds__(GLUMBCONV_BLOCK, 1) mix_back_kernel(struct glumbconv_args m)
{
    enum { P = V / 2 + V % 2 };
    DYNAMIC_SHARED(float, scratch); /* [warps][sums][slice], then s, then dd */
    T *s = (T *)(scratch + MIX_WARPS * GLUMBCONV_SUMS * m.z.channels);
    T *dd = s + (size_t)(m.z.rows + 4) * m.s.width * 2 * m.z.channels;
    const struct glumbconv_place<P> p(m);
    glumbconv_fill<V>(s, m, glumbconv_place<1>(m), p.top - 2, p.end + 2);
    __syncthreads();
    mix_slopes<P>(dd, s, m, p);
    __syncthreads();
    for (int which = 0; which < 2; which++) {
        float sums[GLUMBCONV_SUMS][P];
        mix_turn<P>(sums, dd, s, m, p, which);
        mix_collect<P>(sums, scratch, m, p, which);
    }
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

static dim3 mix_grid(const struct glumbconv_args &m)
{
    return dim3(tiles((size_t)m.s.channels / 2, (size_t)m.z.channels),
                tiles((size_t)m.s.height, (size_t)m.z.rows), (unsigned)m.s.batch);
}

static bool mix_fits(const struct glumbconv_args &m)
{
    if (m.z.rows < 1 && device.state == KERN_OK) {
        device.state = KERN_FAULT;
        snprintf(device.why, sizeof(device.why),
                 "a row of an image of width %d does not fit into shared memory", m.s.width);
    }
    return m.z.rows > 0;
}

static void cuda_mix(void *g, struct kern_glumbconv, const void *u, const float *w, const float *b,
                     struct kern_image s)
{
    struct glumbconv_args m = {};
    m.g = g, m.u = u, m.w = w, m.b = b, m.s = s;
    for_kind(by_four({(size_t)s.channels / 2}, g, u), [&](auto t, auto v) {
        typedef decltype(t) T;
        m.z = glumbconv_tile(s.height, s.width, GLUMBCONV_SLICE, 1, GLUMBCONV_HALO, sizeof(T),
                             device.shared_most);
        if (mix_fits(m))
            launch("mix", glumbconv_kernel<T, decltype(v)::value>, mix_grid(m),
                   dim3(GLUMBCONV_BLOCK),
                   glumbconv_bytes(m.z, s.width, 1, GLUMBCONV_HALO, sizeof(T)), m);
    });
}

static void cuda_mix_back(void *du, float *dw, float *db, void *, const void *dg, const void *u,
                          struct kern_glumbconv, const float *w, const float *b, struct kern_image s)
{
    struct glumbconv_args m = {};
    m.du = du, m.dg = dg, m.u = u, m.w = w, m.b = b, m.s = s;
    for_kind(by_four({(size_t)s.channels / 2}, du, dg, u), [&](auto t, auto v) {
        typedef decltype(t) T;
        m.z = glumbconv_back_tile(s.height, s.width, sizeof(T), device.shared_most);
        if (!mix_fits(m))
            return;
        const dim3 grid = mix_grid(m);
        const size_t blocks = (size_t)grid.y * grid.z;
        m.part = (float *)device_scratch(SCRATCH_PARTS, sizeof(float) * GLUMBCONV_SUMS * blocks *
                                                            (size_t)s.channels);
        if (!m.part)
            return;
        launch("mix_back", mix_back_kernel<T, decltype(v)::value>, grid, dim3(GLUMBCONV_BLOCK),
               GLUMBCONV_SCRATCH + glumbconv_bytes(m.z, s.width, 2, MIX_BACK_HALO, sizeof(T)), m);
        if (!dw)
            return;
        launch("mix_back", mix_finish, grid_for((size_t)s.channels * GLUMBCONV_SUMS), dim3(BLOCK),
               0, dw,
               db, m.part, s.channels, (int)blocks);
    });
}

static void fill_mix(struct kern_ops *ops)
{
    ops->glumbconv = cuda_mix;
    ops->glumbconv_back = cuda_mix_back;
}
