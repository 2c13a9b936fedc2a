/* SPDX-License-Identifier: Apache-2.0 */
/* glumbconv_mma.cuh - the gated 3x3 convolution on tensor cores, for bf16; part of glumbconv.cu
 *
 * A block has 16 channels of each half, as in glumbconv.cu, and goes down the image eight rows a step.  A ring has rows
 * of s = silu(u), those of a step and the two before; the backward pass has a second one, for the gradient of d, and is
 * one row behind.  A warp makes tiles of four rows of 16 pixels.
 *
 * Two taps of eight channels are a product [16 pixels][2 x 8 channels] x [2 x 8 channels][8 channels], whose right side
 * has the weights on two diagonals. Each weight is two bf16 numbers, the rounded value and the remainder, in separate
 * products: sums are those of weights of 16 bits, in fp32. An octet has two channels of each four: so a lane's sums of
 * both octets are four channels side by side in memory, and for eight pixels in a row the lanes of a warp write whole
 * sectors. In a ring the octets of a row lie apart, so that eight pixels in a row are 128 bytes.
 *
 * The gradient of the weights is the diagonal of [taps x channels][pixels] x [pixels][channels]: a warp computes it for
 * an octet of a half over the whole image, so no sums of several warps are combined.
 *
 * A NaN or Inf of s spreads to the sums of all eight channels of its octet, because zero times it is NaN.
 */
#ifndef KERNELS_GLUMBCONV_MMA_CUH
#define KERNELS_GLUMBCONV_MMA_CUH

#include "kernels/mma.cuh"
#include "kernels/tile.h"

enum {
    GMMA_ROWS = 4, GMMA_GROUPS = GLUMBCONV_MMA_STEP / GMMA_ROWS, /* of a tile; in a step */
    GMMA_WARPS = GLUMBCONV_BLOCK / WARP,
    GMMA_PAIRS = GLUMBCONV_MMA_STEP / 2 + 1, /* of rows, in a ring: the one before, and those of a step */
    GMMA_VECTORS = 5,                        /* of four words: the weights of an octet that a lane has */
    GMMA_NEXT = GLUMBCONV_MMA_SLOTS * 4,     /* words to the next of them */
    GMMA_PRODUCTS = GLUMBCONV_SUMS / 2,      /* of a row of the gradient of the weights: two sums each */
    GMMA_ONES = 0x3f803f80                   /* two bf16 */
};
typedef struct pack<uint32_t, 2> gmma_quad; /* four channels of a pixel */
typedef struct pack<uint32_t, 4> gmma_vector;
static_assert(GMMA_WARPS == 4, "an octet of a half for each warp");

/* threadIdx.x, read again: what is computed from it takes no registers in between. */
__device__ static inline unsigned gmma_thread(void)
{
#ifdef CUDA_ON_CPU
    return threadIdx.x;
#else
    unsigned at;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(at));
    return at;
#endif
}

/* The work of a block, and of a lane: its pixels of eight, its four channels. */
struct gmma_place {
    int  half, slice, b; /* channels per half; the first of the slice; sample */
    int  warp, group, quarter;
    bool have;           /* the four channels exist */
    __device__ gmma_place(const struct glumbconv_args &m)
    {
        half = m.s.channels / 2;
        slice = (int)blockIdx.x * GLUMBCONV_SLICE;
        b = (int)blockIdx.y;
        const unsigned thread = gmma_thread();
        warp = (int)(thread / WARP);
        group = (int)(thread % WARP / 4);
        quarter = (int)(thread % 4);
        have = slice + quarter * 4 < half;
    }
    /* The lane's channels of a pixel in memory that has `cols` numbers of each; a row's size fits into an int. */
    __device__ ptrdiff_t at(const struct glumbconv_args &m, int h, int x, int cols) const
    {
        return (ptrdiff_t)(b * m.s.height + h) * (m.s.width * cols) + (x * cols + slice + quarter * 4);
    }
};

/* Words of a row of an octet in a ring; a row has those of two octets of two halves. */
__device__ static inline int gmma_plane(const struct glumbconv_args &m)
{
    return glumbconv_mma_pitch(m.s.width) * 4;
}

/* Where pair i of rows begins: `first` is the pair before those of the step. */
__device__ static inline int gmma_pair(int first, int i, int plane)
{
    const int at = first + i;
    return (at < GMMA_PAIRS ? at : at - GMMA_PAIRS) * 8 * plane;
}

/* --- weights: [half][octet][vector][slot], then biases [half][channel] -------------------------------------- */

/* Vectors 0 to 2 are the two left taps of one row each: two bf16, then their two remainders. 3 has the right taps of
 * three rows, 4 their remainders. Slots 1 to 8 are for lanes that have numbers on a diagonal; the first and the last
 * slot have zeros, of which one has no bank conflict. `n`: the channel, of eight. */
__device__ static inline gmma_vector gmma_weights(const float *w, unsigned vector, unsigned n)
{
    gmma_vector to = {};
    for (unsigned e = 0; e < 4; e++) {
        const bool right = vector >= 3;
        const float x = w && !(right && e == 3) ? w[right ? e * 3 + 2 : vector * 3 + e % 2] : 0.0f;
        const uint32_t high = mma_pair(x, 0), rest = mma_pair(x - mma_low(high), 0);
        to.at[e] = (right ? vector == 4 : e / 2) ? rest : high;
        to.at[e] = n % 2 ? to.at[e] << 16 : to.at[e];
    }
    return to;
}

/* The channel of a slice that is the n-th of an octet. */
__device__ static inline unsigned gmma_channel(unsigned octet, unsigned n)
{
    return n / 2 * 4 + octet * 2 + n % 2;
}

/* `raw`: room for the slice's weights as they come. */
__device__ static inline void gmma_take(uint32_t *kept, float *raw, const struct glumbconv_args &m,
                                        const struct gmma_place &p)
{
    float *bias = (float *)(kept + GLUMBCONV_MMA_WEIGHTS);
    for (unsigned i = threadIdx.x; i < 2 * GLUMBCONV_SLICE * 9; i += GLUMBCONV_BLOCK) {
        const unsigned which = i / (GLUMBCONV_SLICE * 9), at = i % (GLUMBCONV_SLICE * 9);
        raw[i] = p.slice + (int)(at / 9) < p.half ? m.w[(which * p.half + p.slice) * 9 + at] : 0.0f;
    }
    for (unsigned i = threadIdx.x; i < 2 * GLUMBCONV_SLICE; i += GLUMBCONV_BLOCK) {
        const int c = p.slice + (int)(i % GLUMBCONV_SLICE);
        bias[i] = c < p.half ? m.b[(int)(i / GLUMBCONV_SLICE) * p.half + c] : 0.0f;
    }
    __syncthreads(); /* `raw` is there */
    for (unsigned i = threadIdx.x; i < GLUMBCONV_MMA_WEIGHTS / 4; i += GLUMBCONV_BLOCK) {
        const unsigned slot = i % GLUMBCONV_MMA_SLOTS, vector = i / GLUMBCONV_MMA_SLOTS % GMMA_VECTORS;
        const unsigned part = i / (GLUMBCONV_MMA_SLOTS * GMMA_VECTORS), n = slot - 1;
        const float *w = n < 8 ? raw + (part / 2 * GLUMBCONV_SLICE + gmma_channel(part % 2, n)) * 9 : NULL;
        reinterpret_cast<gmma_vector *>(kept)[i] = gmma_weights(w, vector, n);
    }
    __syncthreads(); /* no thread reads `raw` any more */
}

/* --- rows ---------------------------------------------------------------------------------------------------- */

__device__ static inline void gmma_clear(uint32_t *rows, int words)
{
    for (int i = (int)threadIdx.x * 4; i < words; i += GLUMBCONV_BLOCK * 4)
        *reinterpret_cast<gmma_vector *>(rows + i) = gmma_vector();
}

__device__ static inline uint32_t gmma_silu(uint32_t u)
{
    const float a = mma_low(u), b = mma_high(u);
    return mma_pair(a * sigmoid_for<bf16>(a), b * sigmoid_for<bf16>(b));
}

/* silu(u) of ROWS rows from h on, zeros outside of the image, to a ring, from pair 1 on. */
template <int ROWS>
__device__ static inline void gmma_fill(uint32_t *ring, int first, const struct glumbconv_args &m, int h)
{
    const struct gmma_place p(m);
    enum { PIXEL = 8, PIXELS = GLUMBCONV_BLOCK / PIXEL }; /* threads of a pixel, of both halves */
    const unsigned thread = gmma_thread(), which = thread / 4 % 2;
    const int plane = gmma_plane(m), cols = m.s.channels;
    uint32_t *to[ROWS / 2];
    for (int i = 0; i < ROWS / 2; i++)
        to[i] = ring + gmma_pair(first, 1 + i, plane) + which * 2 * plane + p.quarter + 4;
    for (int x = (int)(thread / PIXEL); x < m.s.width; x += PIXELS) {
        const bf16 *u = (const bf16 *)m.u + p.at(m, h, x, cols) + which * p.half;
        gmma_quad in[ROWS] = {};
        ALL_AT_ONCE
        for (int r = 0; r < ROWS; r++, u += m.s.width * cols)
            if (p.have && (ROWS == GLUMBCONV_MMA_STEP || h + r >= 0) && h + r < m.s.height)
                in[r] = *(const gmma_quad *)u;
        ALL_AT_ONCE
        for (int r = 0; r < ROWS; r++)
            for (int o = 0; o < 2; o++)
                to[r / 2][(r % 2 * 4 + o) * plane + x * 4] = gmma_silu(in[r].at[o]);
    }
}

/* What a warp sees of a ring: three pairs of rows, and where this lane's row of eight channels for mma_load() begins,
 * for two left taps of a row, or the right tap of two rows.  MIRRORED: of the taps turned around. */
struct gmma_view {
    shared_at left[3], right[3];
};

/* A tile: its first column, its group of rows in a step. */
struct gmma_tile {
    int x, group;
    __device__ gmma_tile(int i) : x(i / GMMA_GROUPS * GLUMBCONV_MMA_TILE), group(i % GMMA_GROUPS) {}
};

template <bool MIRRORED>
__device__ static inline struct gmma_view gmma_look(const uint32_t *ring, int first, const struct gmma_tile &tile,
                                                    int plane)
{
    const unsigned lane = gmma_thread() % WARP;
    const int second = (int)(lane / 16), column = tile.x + (int)(lane % 16);
    const int left = column + (MIRRORED ? 2 - second : second), right = column + (MIRRORED ? 0 : 2);
    const int row = (MIRRORED ? 1 - second : second) * 4 * plane;
    struct gmma_view v;
    ALL_AT_ONCE
    for (int i = 0; i < 3; i++) {
        const uint32_t *rows = ring + gmma_pair(first, tile.group * GMMA_ROWS / 2 + i, plane);
        v.left[i] = mma_place(rows + left * 4);
        v.right[i] = mma_place(rows + right * 4 + row);
    }
    return v;
}

/* The tiles of a warp; some warps have no last one. */
__device__ static inline int gmma_rounds(const struct glumbconv_args &m)
{
    return ((m.s.width + GLUMBCONV_MMA_TILE - 1) / GLUMBCONV_MMA_TILE * GMMA_GROUPS + GMMA_WARPS - 1) / GMMA_WARPS;
}

/* Whether column x of a tile is in the image: always, if tiles fill it. */
__device__ static inline bool gmma_inside(const struct glumbconv_args &m, int x)
{
    return m.s.width % GLUMBCONV_MMA_TILE == 0 || x < m.s.width;
}

/* Sums of a tile of one octet: numbers 2 i and 2 i + 1 are of pixel `group` + 8 i. */
typedef float gmma_sums[GMMA_ROWS][4];

/* y += two taps of each row, r of the six that are seen, for the rows of a tile of which it is a neighbour; y begins
 * as c. */
template <bool MIRRORED>
__device__ static inline void gmma_left(gmma_sums &y, const float (&c)[4], const uint32_t (&a)[4],
                                        const gmma_vector (&w)[3], int r)
{
    ALL_AT_ONCE
    for (int to = 0; to < GMMA_ROWS; to++)
        if (r - to >= 0 && r - to < 3) {
            const gmma_vector &b = w[MIRRORED ? 2 - (r - to) : r - to];
            if (r == to)
                mma_begin(y[to], c, a, b.at[0], b.at[1]);
            else
                mma_add(y[to], a, b.at[0], b.at[1]);
            mma_add(y[to], a, b.at[2], b.at[3]);
        }
}

/* y += the right tap of pair i of rows: of three in a row, two are a pair and one half of another. */
template <bool MIRRORED>
__device__ static inline void gmma_right(gmma_sums &y, const uint32_t (&a)[4], const gmma_vector (&w)[2], int i)
{
    ALL_AT_ONCE
    for (int to = 2 * i - 2; to < 2 * i + 2; to++)
        if (to >= 0 && to < GMMA_ROWS) {
            const bool late = (to % 2 != 0) != MIRRORED, second = (to / 2 < i) != MIRRORED;
            ALL_AT_ONCE
            for (int rest = 0; rest < 2; rest++) {
                const uint32_t(&b)[4] = w[rest].at;
                mma_add(y[to], a, late ? (second ? b[1] : b[3]) : second ? b[2] : b[0],
                        late ? (second ? b[2] : b[0]) : second ? b[3] : b[1]); /* b[3] is zero */
            }
        }
}

/* y = c + the sums over 3x3 pixels.  `octet`: bytes from the first octet of a row to this one. */
template <bool MIRRORED>
__device__ static inline void gmma_conv(gmma_sums &y, const float (&c)[4], const struct gmma_view &v, shared_at octet,
                                        int plane, const uint32_t *weights)
{
    uint32_t a[4];
    const gmma_vector left[3] = {pack_of<4>(weights), pack_of<4>(weights + GMMA_NEXT),
                                 pack_of<4>(weights + 2 * GMMA_NEXT)};
    ALL_AT_ONCE
    for (int r = 0; r < GMMA_ROWS + 2; r++) {
        mma_load<false>(a, v.left[r / 2] + octet + (shared_at)(r % 2 * 16 * plane));
        gmma_left<MIRRORED>(y, c, a, left, r);
    }
    const gmma_vector right[2] = {pack_of<4>(weights + 3 * GMMA_NEXT), pack_of<4>(weights + 4 * GMMA_NEXT)};
    ALL_AT_ONCE
    for (int i = 0; i < GMMA_ROWS / 2 + 1; i++) {
        mma_load<false>(a, v.right[i] + octet);
        gmma_right<MIRRORED>(y, a, right, i);
    }
}

/* Where this lane's weights of an octet begin. */
__device__ static inline const uint32_t *gmma_kept(const uint32_t *kept, const struct gmma_place &p, int which,
                                                   int octet)
{
    const int slot = p.group / 2 == p.quarter ? p.group + 1 : p.group < 6 ? 0 : 9;
    return kept + ((which * 2 + octet) * GMMA_VECTORS * GLUMBCONV_MMA_SLOTS + slot) * 4;
}

/* d of an octet of a tile, both halves. */
__device__ static inline void gmma_d(gmma_sums (&y)[2], const struct gmma_view &v, const uint32_t *kept, int plane,
                                     const struct gmma_place &p, int octet)
{
    ALL_AT_ONCE
    for (int which = 0; which < 2; which++) {
        const float *bias = (const float *)(kept + GLUMBCONV_MMA_WEIGHTS) + which * GLUMBCONV_SLICE;
        const pack<float, 2> b = pack_of<2>(bias + gmma_channel(octet, p.quarter * 2));
        const float c[4] = {b.at[0], b.at[1], b.at[0], b.at[1]};
        gmma_conv<false>(y[which], c, v, (shared_at)((which * 2 + octet) * 4 * plane), plane,
                         gmma_kept(kept, p, which, octet));
    }
}

/* --- forward ------------------------------------------------------------------------------------------------- */

__device__ static inline uint32_t gmma_gate(const float *a, const float *g)
{
    return mma_pair(a[0] * g[0] * sigmoid_for<bf16>(g[0]), a[1] * g[1] * sigmoid_for<bf16>(g[1]));
}

/* g of the rows of a step from h on */
__device__ static inline void gmma_step(const uint32_t *ring, int first, const uint32_t *kept,
                                        const struct glumbconv_args &m, int h)
{
    const struct gmma_place p(m);
    const int plane = gmma_plane(m);
    for (int n = 0; n < gmma_rounds(m); n++) {
        const struct gmma_tile tile(n * GMMA_WARPS + p.warp);
        if (tile.x >= m.s.width)
            break;
        const int row = h + tile.group * GMMA_ROWS, x = tile.x + p.group;
        const struct gmma_view v = gmma_look<false>(ring, first, tile, plane);
        gmma_quad g[GMMA_ROWS * 2]; /* row k / 2, pixel k % 2 */
        ALL_AT_ONCE
        for (int o = 0; o < 2; o++) {
            gmma_sums y[2];
            gmma_d(y, v, kept, plane, p, o);
            ALL_AT_ONCE
            for (int k = 0; k < GMMA_ROWS * 2; k++)
                g[k].at[o] = gmma_gate(y[0][k / 2] + k % 2 * 2, y[1][k / 2] + k % 2 * 2);
        }
        bf16 *out[2] = {(bf16 *)m.g + p.at(m, row, x, p.half), NULL};
        out[1] = out[0] + 8 * p.half;
        ALL_AT_ONCE
        for (int k = 0; k < GMMA_ROWS * 2; out[k++ % 2] += m.s.width * p.half)
            if (p.have && row + k / 2 < m.s.height && gmma_inside(m, x + k % 2 * 8))
                *(gmma_quad *)out[k % 2] = g[k];
    }
}

/* In step k rows 8k + 1 to 8k + 8 of s join the two before, and rows 8k to 8k + 7 of g are written. */
template <int W> __global__ void __launch_bounds__(GLUMBCONV_BLOCK, 4) glumbconv_mma_kernel(struct glumbconv_args given)
{
    const struct glumbconv_args m = glumbconv_fixed<W>(given);
    const struct gmma_place p(m);
    DYNAMIC_SHARED(uint32_t, kept);
    uint32_t *ring = kept + GLUMBCONV_MMA_KEPT;
    gmma_take(kept, (float *)ring, m, p);
    gmma_clear(ring, GLUMBCONV_MMA_ROWS * 4 * gmma_plane(m));
    __syncthreads();
    gmma_fill<2>(ring, GMMA_PAIRS - 1, m, -1);
    for (int h = 0, first = 0; h < m.s.height; h += GLUMBCONV_MMA_STEP) {
        gmma_fill<GLUMBCONV_MMA_STEP>(ring, first, m, h + 1);
        __syncthreads();
        gmma_step(ring, first, kept, m, h);
        __syncthreads(); /* all have read the rows that the next ones replace */
        first = first > 0 ? first - 1 : GMMA_PAIRS - 1;
    }
}

/* --- backward ------------------------------------------------------------------------------------------------ */

/* Replaces both halves of d by their gradients, for two numbers. */
__device__ static inline void gmma_slope(float *a, float *g, uint32_t dg)
{
    const float d[2] = {mma_low(dg), mma_high(dg)};
    for (int k = 0; k < 2; k++) {
        const float s = sigmoid_for<bf16>(g[k]), by = d[k] * s, of_a = g[k] * by;
        g[k] = a[k] * (by + of_a * (1.0f - s));
        a[k] = of_a;
    }
}

/* dg of a tile, row k / 2, pixel k % 2; zeros where there is none. */
__device__ static inline void gmma_given(gmma_quad (&d)[GMMA_ROWS * 2], const struct glumbconv_args &m,
                                         const struct gmma_place &p, int h, int x)
{
    const bf16 *dg[2] = {(const bf16 *)m.dg + p.at(m, h, x, p.half), NULL};
    dg[1] = dg[0] + 8 * p.half;
    ALL_AT_ONCE
    for (int k = 0; k < GMMA_ROWS * 2; dg[k++ % 2] += m.s.width * p.half) {
        d[k] = gmma_quad();
        if (p.have && h + k / 2 < m.s.height && gmma_inside(m, x + k % 2 * 8))
            d[k] = *(const gmma_quad *)dg[k % 2];
    }
}

/* The gradient of d of the rows of a step from h on, to its ring. */
__device__ static inline void gmma_slopes(uint32_t *dd, const uint32_t *s, int first, const uint32_t *kept,
                                          const struct glumbconv_args &m, int h)
{
    const struct gmma_place p(m);
    const int plane = gmma_plane(m);
    for (int n = 0; n < gmma_rounds(m); n++) {
        const struct gmma_tile tile(n * GMMA_WARPS + p.warp);
        if (tile.x >= m.s.width)
            break;
        const int x = tile.x + p.group;
        uint32_t *rows[2];
        for (int i = 0; i < 2; i++)
            rows[i] = dd + gmma_pair(first, 1 + tile.group * GMMA_ROWS / 2 + i, plane) + (x + 1) * 4 + p.quarter;
        const struct gmma_view v = gmma_look<false>(s, first, tile, plane);
        gmma_quad d[GMMA_ROWS * 2];
        gmma_given(d, m, p, h + tile.group * GMMA_ROWS, x);
        ALL_AT_ONCE
        for (int o = 0; o < 2; o++) {
            gmma_sums y[2];
            gmma_d(y, v, kept, plane, p, o);
            ALL_AT_ONCE
            for (int k = 0; k < GMMA_ROWS * 2; k++) {
                uint32_t *to = rows[k / 4] + (k / 2 % 2 * 4 + o) * plane + k % 2 * 32;
                float *a = y[0][k / 2] + k % 2 * 2, *g = y[1][k / 2] + k % 2 * 2;
                gmma_slope(a, g, d[k].at[o]);
                if (gmma_inside(m, x + k % 2 * 8))
                    to[0] = mma_pair(a[0], a[1]), to[2 * plane] = mma_pair(g[0], g[1]);
            }
        }
    }
}

/* Three neighbours of 16 pixels of a row of s, and the pixels of a row of the gradient of d, as products take them:
 * channels of an octet, pixels. */
struct gmma_pixels {
    uint32_t left[4], right[4]; /* left of a pixel and at it, as they are multiplied; right of it, and the gradient */
};

/* For a row of the gradient: products 0 to 2 are the two left taps of one row each, 3 the right taps of two rows, 4 the
 * right tap of the last row, and ones. */
__device__ static inline void gmma_add(float (&sums)[GMMA_PRODUCTS][4], const struct gmma_pixels *s, uint32_t b0,
                                       uint32_t b1)
{
    ALL_AT_ONCE
    for (int r = 0; r < 3; r++)
        mma_add(sums[r], s[r].left, b0, b1);
    const uint32_t two[4] = {s[0].right[0], s[1].right[0], s[0].right[1], s[1].right[1]};
    const uint32_t one[4] = {s[2].right[0], GMMA_ONES, s[2].right[1], GMMA_ONES};
    mma_add(sums[3], two, b0, b1);
    mma_add(sums[4], one, b0, b1);
}

/* Sum t, which is on the diagonal of one half of a product. */
__device__ static inline float gmma_sum(const float (&sums)[GMMA_PRODUCTS][4], int t, bool odd)
{
    const int product = t == 9 ? 4 : t % 3 < 2 ? t / 3 : t == 8 ? 4 : 3, half = t == 9 || t == 5 || t % 3 == 1;
    return odd ? sums[product][half * 2 + 1] : sums[product][half * 2];
}

/* The diagonals: in shared memory, because the next tiles need the registers. */
__device__ static inline void gmma_keep(float *kept, const float (&sums)[GMMA_PRODUCTS][4], const struct gmma_place &p)
{
    kept += p.warp / 2 * GLUMBCONV_SLICE + gmma_channel(p.warp % 2, p.group);
    if (p.group / 2 == p.quarter)
        ALL_AT_ONCE
        for (int t = 0; t < GLUMBCONV_SUMS; t++)
            kept[t * 2 * GLUMBCONV_SLICE] += gmma_sum(sums, t, p.group % 2);
}

/* Adds to the sums of a warp's octet for a step's rows of the gradient of d. */
__device__ static inline void gmma_weigh(float *kept, const uint32_t *s, const uint32_t *dd, int first,
                                         const struct glumbconv_args &m)
{
    const struct gmma_place p(m);
    const unsigned lane = gmma_thread() % WARP;
    const int second = (int)(lane / 16), plane = gmma_plane(m);
    float sums[GMMA_PRODUCTS][4] = {};
    s += p.warp * plane, dd += p.warp * plane;
    ONE_BY_ONE
    for (int x = 0; x < m.s.width; x += GLUMBCONV_MMA_TILE) {
        const int column = x + (int)(lane % 16);
        const shared_at left = mma_place(s + (x + (int)(lane % 8 + lane / 8 % 2) + second * 8) * 4);
        const shared_at right = mma_place(second ? dd + (column + 1) * 4 : s + (column + 2) * 4);
        struct gmma_pixels rows[GLUMBCONV_MMA_ROWS];
        ALL_AT_ONCE
        for (int r = 0; r < GLUMBCONV_MMA_ROWS; r++) {
            const shared_at pair = (shared_at)(gmma_pair(first, r / 2, plane) * 4);
            mma_load<true>(rows[r].left, left + pair + (shared_at)(r % 2 * 16 * plane));
            mma_load<true>(rows[r].right, right + pair + (shared_at)(r % 2 * 16 * plane));
            if (r >= 2)
                gmma_add(sums, &rows[r - 2], rows[r].right[2], rows[r].right[3]);
        }
    }
    gmma_keep(kept, sums, p);
}

/* ds times the slope of silu at u, for two numbers. */
__device__ static inline uint32_t gmma_turn(const float *ds, uint32_t u)
{
    const float x[2] = {mma_low(u), mma_high(u)};
    float y[2];
    for (int k = 0; k < 2; k++) {
        const float s = sigmoid_for<bf16>(x[k]);
        y[k] = ds[k] * (s * (1.0f + x[k] * (1.0f - s)));
    }
    return mma_pair(y[0], y[1]);
}

/* du of a tile of one half, whose first row is h, from the lane's first pixel on. */
__device__ static inline void gmma_give(const gmma_sums (&ds)[2], const struct glumbconv_args &m,
                                        const struct gmma_place &p, int which, int h, int x)
{
    const ptrdiff_t at = p.at(m, h, x, m.s.channels) + which * p.half, next = 8 * m.s.channels;
    const bf16 *from[2] = {(const bf16 *)m.u + at, (const bf16 *)m.u + at + next};
    bf16 *to[2] = {(bf16 *)m.du + at, (bf16 *)m.du + at + next};
    ALL_AT_ONCE
    for (int k = 0; k < GMMA_ROWS * 2; k++) {
        if (p.have && h + k / 2 >= 0 && h + k / 2 < m.s.height && gmma_inside(m, x + k % 2 * 8)) {
            gmma_quad u = *(const gmma_quad *)from[k % 2];
            for (int o = 0; o < 2; o++)
                u.at[o] = gmma_turn(ds[o][k / 2] + k % 2 * 2, u.at[o]);
            *(gmma_quad *)to[k % 2] = u;
        }
        from[k % 2] += m.s.width * m.s.channels, to[k % 2] += m.s.width * m.s.channels;
    }
}

/* du of the rows of a step from h on. */
__device__ static inline void gmma_back(const uint32_t *dd, int first, const uint32_t *kept,
                                        const struct glumbconv_args &m, int h)
{
    const struct gmma_place p(m);
    const int plane = gmma_plane(m);
    for (int n = 0; n < gmma_rounds(m); n++) {
        const struct gmma_tile tile(n * GMMA_WARPS + p.warp);
        if (tile.x >= m.s.width)
            break;
        const int row = h + tile.group * GMMA_ROWS;
        if (row >= m.s.height)
            continue;
        const struct gmma_view v = gmma_look<true>(dd, first, tile, plane);
        ONE_BY_ONE
        for (int which = 0; which < 2; which++) {
            const float zeros[4] = {};
            gmma_sums ds[2];
            ALL_AT_ONCE
            for (int o = 0; o < 2; o++)
                gmma_conv<true>(ds[o], zeros, v, (shared_at)((which * 2 + o) * 4 * plane), plane,
                                gmma_kept(kept, p, which, o));
            gmma_give(ds, m, p, which, row, tile.x + p.group);
        }
    }
}

/* [sum][half][channel of the slice]: of the block */
__device__ static inline void gmma_collect(const float *kept, const struct glumbconv_args &m,
                                           const struct gmma_place &p)
{
    for (int i = (int)threadIdx.x; i < GLUMBCONV_SUMS * 2 * GLUMBCONV_SLICE; i += GLUMBCONV_BLOCK) {
        const int c = p.slice + i % GLUMBCONV_SLICE, which = i / GLUMBCONV_SLICE % 2, t = i / (2 * GLUMBCONV_SLICE);
        if (c < p.half)
            m.part[((size_t)p.b * GLUMBCONV_SUMS + t) * m.s.channels + which * p.half + c] = kept[i];
    }
}

/* In step k rows 8k + 1 to 8k + 8 of s and 8k to 8k + 7 of the gradient of d are made, and 8k - 1 to 8k + 6 of du
 * written. */
template <int W> __global__ void __launch_bounds__(GLUMBCONV_BLOCK, 4) mix_back_mma_kernel(struct glumbconv_args given)
{
    const struct glumbconv_args m = glumbconv_fixed<W>(given);
    const struct gmma_place p(m);
    DYNAMIC_SHARED(uint32_t, kept);
    const int plane = gmma_plane(m), words = GLUMBCONV_MMA_ROWS * 4 * plane;
    uint32_t *s = kept + GLUMBCONV_MMA_KEPT, *dd = s + words;
    float *sums = (float *)(kept + GLUMBCONV_MMA_WEIGHTS + 2 * GLUMBCONV_SLICE);
    gmma_take(kept, (float *)s, m, p);
    gmma_clear((uint32_t *)sums, 2 * words + 2 * GLUMBCONV_SLICE * GLUMBCONV_SUMS); /* and both rings after them */
    __syncthreads();
    gmma_fill<2>(s, GMMA_PAIRS - 1, m, -1);
    for (int h = 0, first = 0; h <= m.s.height; h += GLUMBCONV_MMA_STEP) {
        if (h < m.s.height) {
            gmma_fill<GLUMBCONV_MMA_STEP>(s, first, m, h + 1);
            __syncthreads();
            gmma_slopes(dd, s, first, kept, m, h);
            __syncthreads();
            gmma_weigh(sums, s, dd, first, m);
        } else {
            for (int i = 1; i < 3; i++)
                gmma_clear(dd + gmma_pair(first, i, plane), 8 * plane);
            __syncthreads();
        }
        gmma_back(dd, first, kept, m, h - 1);
        __syncthreads(); /* all have read the rows that the next ones replace */
        first = first > 0 ? first - 1 : GMMA_PAIRS - 1;
    }
    gmma_collect(sums, m, p);
}

#endif
