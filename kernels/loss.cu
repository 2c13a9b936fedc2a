/* SPDX-License-Identifier: Apache-2.0 */
/* loss.cu - rectified flow: the noised input, the loss and its gradient */
#include "kernels/device.cuh"

enum { LOSS_CHUNK = 4096 };

__global__ void flow_noise_kernel(float *x_t, const float *x0, const float *noise,
                                  const float *alpha, const float *sigma, size_t all, size_t n)
{
    for EACH(i, all)
        x_t[i] = alpha[i / n] * x0[i] + sigma[i / n] * noise[i];
}

/* A block has one chunk of one sample. */
__global__ void flow_loss_kernel(double *part, float *dout, const float *out, const float *x0,
                                 const float *noise, float factor, size_t n)
{
    const size_t first = (size_t)blockIdx.x * LOSS_CHUNK, sample = (size_t)blockIdx.y * n;
    const size_t last = first + LOSS_CHUNK < n ? first + LOSS_CHUNK : n;
    double sum = 0;
    for (size_t i = first + threadIdx.x; i < last; i += BLOCK) {
        const float e = noise[sample + i] - x0[sample + i] - out[sample + i];
        dout[sample + i] = e * factor;
        sum += (double)e * (double)e;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        part[(size_t)blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

__global__ void flow_loss_finish(double *per_sample, const double *part, int batch, int chunks,
                                 size_t n)
{
    for EACH(b, (size_t)batch) {
        double sum = 0;
        for (int k = 0; k < chunks; k++)
            sum += part[b * chunks + k];
        per_sample[b] = sum / (double)n;
    }
}

static void cuda_flow_noise(float *x_t, const float *x0, const float *noise, const float *alpha,
                            const float *sigma, int batch, size_t n)
{
    const size_t all = (size_t)batch * n;
    launch("flow_noise", flow_noise_kernel, grid_for(all), dim3(BLOCK), 0, x_t, x0, noise, alpha,
           sigma, all, n);
}

static void cuda_flow_loss(double *per_sample, float *dout, const float *out, const float *x0,
                           const float *noise, double weight, int batch, size_t n)
{
    const unsigned chunks = tiles(n, LOSS_CHUNK);
    const float factor = (float)(-2.0 * weight / ((double)batch * (double)n));
    double *part = (double *)device_scratch(SCRATCH_PARTS, sizeof(double) * (size_t)batch * chunks);
    if (!part)
        return;
    launch("flow_loss", flow_loss_kernel, dim3(chunks, (unsigned)batch), dim3(BLOCK), 0, part, dout,
           out, x0, noise, factor, n);
    launch("flow_loss", flow_loss_finish, grid_for((size_t)batch), dim3(BLOCK), 0, per_sample, part,
           batch, (int)chunks, n);
}

static void fill_loss(struct kern_ops *ops)
{
    ops->flow_noise = cuda_flow_noise;
    ops->flow_loss = cuda_flow_loss;
}
