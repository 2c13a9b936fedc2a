/* SPDX-License-Identifier: Apache-2.0 */
/* picture.cu - the operations of image autoencoders on rows of a channels-last picture, except convolutions */
#include "kernels/device.cuh"

/* fn(V): packs of four numbers where they fit, else one by one. */
template <typename F> static void for_packs(bool fours, F fn)
{
    const std::integral_constant<int, 4> four;
    const std::integral_constant<int, 1> one;
    fours ? fn(four) : fn(one);
}

/* --- depthwise convolution ------------------------------------------------------------------ */

struct depth_rows {
    float           *y;
    struct kern_rows x;
    const float     *w, *bias;
    int              from, to;
};

enum { DEPTH_PIXELS = 4 };

/* V channels of the pixels of row h that the pixels from column w on need, zeros outside of the picture. */
template <int V, int SPAN>
__device__ static inline void depth_load(float (*x)[V], const struct depth_rows &a, int h, int w, int c)
{
    const float *row = a.x.x + (size_t)(h - a.x.first) * a.x.width * a.x.channels + c;
    ALL_AT_ONCE
    for (int s = 0; s < SPAN; s++) {
        for (int k = 0; k < V; k++)
            x[s][k] = 0;
        if (w + s >= 0 && w + s < a.x.width)
            load<V>(x[s], row + (size_t)(w + s) * a.x.channels);
    }
}

/* A thread has V channels of four pixels of a row: a pixel is read once for all of them that need it. */
template <int V, int KERNEL> __global__ void depthwise_rows_kernel(struct depth_rows a)
{
    enum { HALF = KERNEL / 2, SPAN = DEPTH_PIXELS + KERNEL - 1 };
    const unsigned packs = a.x.channels / V, groups = (a.x.width + DEPTH_PIXELS - 1) / DEPTH_PIXELS;
    for EACH(i, (size_t)(a.to - a.from) * groups * packs) {
        const size_t group = i / packs;
        const int c = (int)(i % packs) * V, h = a.from + (int)(group / groups), w = (int)(group % groups) * DEPTH_PIXELS;
        float sum[DEPTH_PIXELS][V] = {}, x[SPAN][V], by[V];
        for (int p = 0; a.bias && p < DEPTH_PIXELS; p++)
            load<V>(sum[p], a.bias + c);
        ONE_BY_ONE
        for (int dh = 0; dh < KERNEL; dh++) {
            if (h + dh - HALF < 0 || h + dh - HALF >= a.x.height)
                continue;
            depth_load<V, SPAN>(x, a, h + dh - HALF, w - HALF, c);
            ALL_AT_ONCE
            for (int dw = 0; dw < KERNEL; dw++) {
                load<V>(by, a.w + (size_t)(dh * KERNEL + dw) * a.x.channels + c);
                for (int p = 0; p < DEPTH_PIXELS; p++)
                    for (int k = 0; k < V; k++)
                        sum[p][k] += x[p + dw][k] * by[k];
            }
        }
        float *y = a.y + ((size_t)(h - a.from) * a.x.width + w) * a.x.channels + c;
        ALL_AT_ONCE
        for (int p = 0; p < DEPTH_PIXELS; p++)
            if (w + p < a.x.width)
                store<V>(y + (size_t)p * a.x.channels, sum[p]);
    }
}

static void cuda_depthwise_rows(float *y, struct kern_rows x, int kernel, const float *w, const float *bias, int from,
                                int to)
{
    const struct depth_rows a = {y, x, w, bias, from, to};
    const size_t n = (size_t)(to - from) * tiles((size_t)x.width, DEPTH_PIXELS) * (size_t)x.channels;
    for_packs(by_four({(size_t)x.channels}, y, x.x, w, bias), [&](auto v) {
        constexpr int V = decltype(v)::value;
        launch("depthwise_rows", kernel == 3 ? depthwise_rows_kernel<V, 3> : depthwise_rows_kernel<V, 5>,
               grid_for(n / V), dim3(BLOCK), 0, a);
    });
}

/* --- norms ---------------------------------------------------------------------------------- */

struct rms_rows {
    float       *y;
    const float *x, *add, *w, *b;
    size_t       rows;
    int          cols;
    float        eps;
    bool         relu;
};

template <int V> __device__ static inline void rms_row_pack(const struct rms_rows &a, size_t row, int c, float scale)
{
    float x[V], w[V], b[V] = {0}, add[V] = {0};
    load<V>(x, a.x + row * a.cols + c);
    load<V>(w, a.w + c);
    if (a.b)
        load<V>(b, a.b + c);
    if (a.add)
        load<V>(add, a.add + row * a.cols + c);
    for (int k = 0; k < V; k++) {
        x[k] = x[k] * scale * w[k] + b[k] + add[k];
        x[k] = a.relu ? fmaxf(x[k], 0) : x[k];
    }
    store<V>(a.y + row * a.cols + c, x);
}

/* A warp has a row. */
template <int V> __global__ void rms_rows_kernel(struct rms_rows a)
{
    const size_t row = ((size_t)blockIdx.x * BLOCK + threadIdx.x) / WARP;
    const int lane = (int)threadIdx.x % WARP;
    float squares = 0;
    if (row >= a.rows)
        return;
    for (int c = lane * V; c < a.cols; c += WARP * V) {
        float x[V];
        load<V>(x, a.x + row * a.cols + c);
        for (int k = 0; k < V; k++)
            squares += x[k] * x[k];
    }
    const float scale = 1.0f / sqrtf(warp_sum(squares) / (float)a.cols + a.eps);
    for (int c = lane * V; c < a.cols; c += WARP * V)
        rms_row_pack<V>(a, row, c, scale);
}

static void cuda_rms_rows(float *y, const float *x, const float *add, const float *w, const float *b, size_t rows,
                          int cols, float eps, bool relu)
{
    const struct rms_rows a = {y, x, add, w, b, rows, cols, eps, relu};
    for_packs(by_four({(size_t)cols}, y, x, add, w, b), [&](auto v) {
        launch("rms_rows", rms_rows_kernel<decltype(v)::value>, dim3(tiles(rows * WARP, BLOCK)), dim3(BLOCK), 0, a);
    });
}

enum { GROUP_ROWS = 512 }; /* of a block */

/* part[chunk][group]: two sums over rows of a chunk. */
__global__ void group_parts_kernel(double *part, const float *x, size_t rows, int cols, int groups)
{
    const int each = cols / groups, group = (int)blockIdx.x;
    const size_t first = (size_t)blockIdx.y * GROUP_ROWS;
    const size_t last = first + GROUP_ROWS < rows ? first + GROUP_ROWS : rows;
    double sum = 0, squares = 0;
    for (size_t i = threadIdx.x; i < (last - first) * each; i += BLOCK) {
        const double v = x[(first + i / each) * cols + group * each + i % each];
        sum += v;
        squares += v * v;
    }
    sum = block_sum(sum);
    squares = block_sum(squares);
    if (threadIdx.x > 0)
        return;
    part[((size_t)blockIdx.y * groups + group) * 2] = sum;
    part[((size_t)blockIdx.y * groups + group) * 2 + 1] = squares;
}

/* total[i] += the parts, in their order. */
template <typename P> __global__ void join_parts_kernel(double *total, const P *part, size_t n, int parts)
{
    for EACH(i, n) {
        double sum = total[i];
        for (int p = 0; p < parts; p++)
            sum += (double)part[(size_t)p * n + i];
        total[i] = sum;
    }
}

static void cuda_group_sums(double *sum, const float *x, size_t rows, int cols, int groups)
{
    const unsigned chunks = tiles(rows, GROUP_ROWS);
    const size_t n = 2 * (size_t)groups;
    double *part = (double *)device_scratch(SCRATCH_PARTS, (size_t)chunks * n * sizeof(double));
    if (!part)
        return;
    launch("group_sums", group_parts_kernel, dim3((unsigned)groups, chunks), dim3(BLOCK), 0, part, x, rows, cols,
           groups);
    launch("group_sums", join_parts_kernel<double>, grid_for(n), dim3(BLOCK), 0, sum, part, n, (int)chunks);
}

template <int V>
__global__ void scale_rows_kernel(float *y, const float *x, const float *scale, const float *shift, size_t packs,
                                  int cols, bool silu)
{
    for EACH(i, packs) {
        const int c = (int)(i * V % cols);
        float v[V], by[V], plus[V];
        load<V>(v, x + i * V);
        load<V>(by, scale + c);
        load<V>(plus, shift + c);
        for (int k = 0; k < V; k++) {
            v[k] = v[k] * by[k] + plus[k];
            v[k] = silu ? v[k] * sigmoid(v[k]) : v[k];
        }
        store<V>(y + i * V, v);
    }
}

static void cuda_scale_rows(float *y, const float *x, const float *scale, const float *shift, size_t rows, int cols,
                            bool silu)
{
    for_packs(by_four({(size_t)cols}, y, x, scale, shift), [&](auto v) {
        const size_t packs = rows * (size_t)cols / v.value;
        launch("scale_rows", scale_rows_kernel<decltype(v)::value>, grid_for(packs), dim3(BLOCK), 0, y, x, scale, shift,
               packs, cols, silu);
    });
}

/* --- ReLU linear attention ------------------------------------------------------------------ */

enum { LIN_PIXELS = 512, LIN_STEP = 16, LIN_MOST = 32, LIN_LINES = BLOCK / WARP, LIN_EACH = LIN_MOST / LIN_LINES + 1 };

/* part[chunk][head][dim + 1][dim]: a block has a head and a chunk of rows, of which some at a time are in shared
 * memory. A lane has a channel of the keys, and a warp every eighth channel of the values, behind which a 1 stands. */
__global__ void lin_parts_kernel(float *part, const float *kv, int ld, size_t rows, int heads, int dim)
{
    __shared__ float k[LIN_STEP][LIN_MOST], v[LIN_STEP][LIN_LINES * LIN_EACH];
    const int head = (int)blockIdx.x, lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const size_t first = (size_t)blockIdx.y * LIN_PIXELS;
    const size_t last = first + LIN_PIXELS < rows ? first + LIN_PIXELS : rows;
    float sum[LIN_EACH] = {0};
    for (size_t row = first; row < last; row += LIN_STEP) {
        const int have = last - row < LIN_STEP ? (int)(last - row) : LIN_STEP;
        __syncthreads(); /* k and v may still be read */
        for (int r = warp; r < have; r += LIN_LINES) {
            const float *at = kv + (row + r) * ld + (size_t)head * 2 * dim;
            k[r][lane] = lane < dim ? fmaxf(at[lane], 0) : 0.0f;
            for (int c = lane; c < LIN_LINES * LIN_EACH; c += WARP)
                v[r][c] = c < dim ? at[dim + c] : c == dim ? 1.0f : 0.0f;
        }
        __syncthreads();
        for (int r = 0; r < have; r++) {
            const float key = k[r][lane];
            for (int e = 0; e < LIN_EACH; e++)
                sum[e] += key * v[r][warp + e * LIN_LINES];
        }
    }
    for (int e = 0; e < LIN_EACH; e++)
        if (lane < dim && warp + e * LIN_LINES <= dim)
            part[(((size_t)blockIdx.y * heads + head) * (dim + 1) + warp + e * LIN_LINES) * dim + lane] = sum[e];
}

static void cuda_lin_sums(double *total, const float *kv, int ld, size_t rows, int heads, int dim)
{
    const unsigned chunks = tiles(rows, LIN_PIXELS);
    const size_t n = (size_t)heads * (size_t)((dim + 1) * dim);
    float *part = (float *)device_scratch(SCRATCH_PARTS, (size_t)chunks * n * sizeof(float));
    if (!part)
        return;
    launch("lin_sums", lin_parts_kernel, dim3((unsigned)heads, chunks), dim3(BLOCK), 0, part, kv, ld, rows, heads, dim);
    launch("lin_sums", join_parts_kernel<float>, grid_for(n), dim3(BLOCK), 0, total, part, n, (int)chunks);
}

struct lin_apply {
    float       *out;
    const float *q, *sums;
    int          ldo, ldq, dim;
    size_t       rows;
    float        eps;
};

/* A block has a head and a chunk of rows, a warp a row at a time, a lane a channel of the result. */
__global__ void lin_apply_kernel(struct lin_apply a)
{
    __shared__ float vk[LIN_MOST + 1][LIN_MOST + 1], query[LIN_LINES][LIN_MOST];
    const int head = (int)blockIdx.x, lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, dim = a.dim;
    const size_t end = (size_t)(blockIdx.y + 1) * LIN_PIXELS;
    for (int i = (int)threadIdx.x; i < (dim + 1) * dim; i += BLOCK)
        vk[i / dim][i % dim] = a.sums[(size_t)head * (dim + 1) * dim + i];
    __syncthreads();
    for (size_t row = (size_t)blockIdx.y * LIN_PIXELS + warp; row < end && row < a.rows; row += LIN_LINES) {
        const size_t at = (size_t)head * dim + lane;
        float top = 0, bottom = 0;
        query[warp][lane] = lane < dim ? fmaxf(a.q[row * a.ldq + at], 0) : 0.0f;
        __syncwarp(); /* all of the query is written */
        for (int j = 0; lane < dim && j < dim; j++) {
            top += vk[lane][j] * query[warp][j];
            bottom += vk[dim][j] * query[warp][j];
        }
        if (lane < dim)
            a.out[row * a.ldo + at] = top / (bottom + a.eps);
        __syncwarp(); /* all of it is read */
    }
}

static void cuda_lin_apply(float *out, int ldo, const float *q, int ldq, const float *sums, size_t rows, int heads,
                           int dim, float eps)
{
    const struct lin_apply a = {out, q, sums, ldo, ldq, dim, rows, eps};
    launch("lin_apply", lin_apply_kernel, dim3((unsigned)heads, tiles(rows, LIN_PIXELS)), dim3(BLOCK), 0, a);
}

/* --- shortcuts: a thread has a channel of a result's pixel ------------------------------------- */

struct shuffle_rows {
    float       *y;
    const float *x;
    size_t       n; /* numbers of y */
    int          width, in, out;
};

__global__ void down_add_kernel(struct shuffle_rows a)
{
    const int each = 4 * a.in / a.out, half = a.width / 2;
    for EACH(i, a.n) {
        const size_t pixel = i / a.out, row = pixel / half * 2, col = pixel % half * 2;
        const int c = (int)(i % a.out);
        float sum = 0;
        for (int s = c * each; s < (c + 1) * each; s++)
            sum += a.x[((row + s / 2 % 2) * a.width + col + s % 2) * a.in + s / 4];
        a.y[i] += sum / (float)each;
    }
}

static void cuda_down_add(float *y, const float *x, int rows, int width, int in, int out)
{
    const size_t n = (size_t)(rows / 2) * (size_t)(width / 2) * (size_t)out;
    const struct shuffle_rows a = {y, x, n, width, in, out};
    launch("down_add", down_add_kernel, grid_for(n), dim3(BLOCK), 0, a);
}

/* A thread adds up to four neighbouring numbers of x to four pixels of the result. EACH_X: the number of results per
 * number of x; 0: known at run time. */
template <int EACH_X> __global__ void up_add_kernel(struct shuffle_rows a, int rows)
{
    const unsigned out = (unsigned)a.out, across = (unsigned)a.width * out;
    for (int row = (int)blockIdx.y; row < rows; row += (int)gridDim.y)
        for (unsigned i = blockIdx.x * BLOCK + threadIdx.x; i < across; i += gridDim.x * BLOCK) {
            const unsigned col = i / out, c = i % out;
            const float *x = a.x + ((size_t)row * a.width + col) * a.in;
            float *y = a.y + (4 * (size_t)row * a.width + 2 * col) * out + c;
            float from[4];
            if constexpr (EACH_X > 0)
                load<4 / EACH_X>(from, x + c * (4 / EACH_X));
            for (unsigned d = 0; d < 4; d++)
                y[(d / 2 * 2 * a.width + d % 2) * (size_t)out] +=
                    EACH_X > 0 ? from[EACH_X > 0 ? d / EACH_X : 0] : x[(4 * c + d) / (4 * out / a.in)];
        }
}

static void cuda_up_add(float *y, const float *x, int rows, int width, int in, int out)
{
    void (*const kernels[])(struct shuffle_rows, int) = {up_add_kernel<0>, up_add_kernel<1>, up_add_kernel<2>, NULL,
                                                         up_add_kernel<4>};
    const struct shuffle_rows a = {y, x, 0, width, in, out};
    const int each = 4 * out / in, known = each <= 4 && each != 3 && in * each == 4 * out && by_four({}, x) ? each : 0;
    const unsigned across = tiles((size_t)width * (size_t)out, BLOCK);
    launch("up_add", kernels[known], dim3(across, rows < 65535 ? (unsigned)rows : 65535u), dim3(BLOCK), 0, a, rows);
}

__global__ void spread_add_kernel(struct shuffle_rows a)
{
    const int each = a.out > a.in ? a.out / a.in : a.in / a.out;
    for EACH(i, a.n) {
        const float *x = a.x + i / a.out * a.in;
        const int c = (int)(i % a.out);
        float sum = a.out < a.in ? 0.0f : x[c / each];
        for (int k = 0; a.out < a.in && k < each; k++)
            sum += x[c * each + k];
        a.y[i] += a.out < a.in ? sum / (float)each : sum;
    }
}

static void cuda_spread_add(float *y, const float *x, size_t rows, int in, int out)
{
    const struct shuffle_rows a = {y, x, rows * (size_t)out, 0, in, out};
    launch("spread_add", spread_add_kernel, grid_for(a.n), dim3(BLOCK), 0, a);
}

/* --- pointwise, and other layouts ---------------------------------------------------------------- */

template <int V> __global__ void glu_rows_kernel(float *y, const float *x, size_t packs, int half)
{
    for EACH(i, packs) {
        const size_t row = i * V / half, at = row * 2 * half + i * V % half;
        float v[V], g[V];
        load<V>(v, x + at);
        load<V>(g, x + at + half);
        for (int k = 0; k < V; k++)
            v[k] *= g[k] * sigmoid(g[k]);
        store<V>(y + i * V, v);
    }
}

static void cuda_glu(float *y, const float *x, int rows, int half)
{
    for_packs(by_four({(size_t)half}, y, x), [&](auto v) {
        const size_t packs = (size_t)rows * (size_t)half / v.value;
        launch("glu", glu_rows_kernel<decltype(v)::value>, grid_for(packs), dim3(BLOCK), 0, y, x, packs, half);
    });
}

static void cuda_add_rows(float *y, const float *a, const float *b, size_t n)
{
    launch("add_rows", add_kernel<float>, grid_for(n), dim3(BLOCK), 0, y, a, b, n);
}

__global__ void to_floats_kernel(float *y, const double *x, size_t n)
{
    for EACH(i, n)
        y[i] = (float)x[i];
}

static void cuda_to_floats(float *y, const double *x, size_t n)
{
    launch("to_floats", to_floats_kernel, grid_for(n), dim3(BLOCK), 0, y, x, n);
}

__global__ void planes_to_rows_kernel(float *y, const float *planes, struct kern_image s, int from, size_t n)
{
    for EACH(i, n) {
        const size_t c = i % s.channels, pixel = i / s.channels + (size_t)from * s.width;
        y[i] = planes[c * s.height * s.width + pixel];
    }
}

static void cuda_planes_to_rows(float *y, const float *planes, struct kern_image s, int from, int to)
{
    const size_t n = (size_t)(to - from) * (size_t)s.width * (size_t)s.channels;
    launch("planes_to_rows", planes_to_rows_kernel, grid_for(n), dim3(BLOCK), 0, y, planes, s, from, n);
}

__global__ void rows_to_planes_kernel(float *planes, const float *x, struct kern_image s, int from, size_t n)
{
    for EACH(i, n) {
        const size_t c = i % s.channels, pixel = i / s.channels + (size_t)from * s.width;
        planes[c * s.height * s.width + pixel] = x[i];
    }
}

static void cuda_rows_to_planes(float *planes, const float *x, struct kern_image s, int from, int to)
{
    const size_t n = (size_t)(to - from) * (size_t)s.width * (size_t)s.channels;
    launch("rows_to_planes", rows_to_planes_kernel, grid_for(n), dim3(BLOCK), 0, planes, x, s, from, n);
}

static void fill_picture(struct kern_ops *ops)
{
    ops->depthwise_rows = cuda_depthwise_rows;
    ops->rms_rows = cuda_rms_rows;
    ops->group_sums = cuda_group_sums;
    ops->scale_rows = cuda_scale_rows;
    ops->lin_sums = cuda_lin_sums;
    ops->lin_apply = cuda_lin_apply;
    ops->down_add = cuda_down_add;
    ops->up_add = cuda_up_add;
    ops->spread_add = cuda_spread_add;
    ops->glu = cuda_glu;
    ops->add_rows = cuda_add_rows;
    ops->to_floats = cuda_to_floats;
    ops->planes_to_rows = cuda_planes_to_rows;
    ops->rows_to_planes = cuda_rows_to_planes;
}
