/* SPDX-License-Identifier: Apache-2.0 */
/* ops_cuda.cu - libjobctl_cuda.so: all CUDA kernels, and the entry point of the plugin
 *
 * One translation unit; see device.cuh.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/device.cuh"
#include "kernels/gemm.cuh"

#include "kernels/device.cu"
#include "kernels/profile.cu"
#include "kernels/gemm.cu"
#include "kernels/graph.cu"
#include "kernels/stream.cu"
#include "kernels/peer.cu"

#include "kernels/adamw.cu"
#include "kernels/reduce.cu"
#include "kernels/fixed.cu"
#include "kernels/came.cu"
#include "kernels/flash.cu"
#include "kernels/attend.cu"
#include "kernels/linattn.cu"
#include "kernels/loss.cu"
#include "kernels/matmul.cu"
#include "kernels/norm.cu"
#include "kernels/patch.cu"
#include "kernels/pointwise.cu"
#include "kernels/residual.cu"
#include "kernels/rng.cu"
#include "kernels/rmsmod.cu"
#include "kernels/rope.cu"
#include "kernels/bf16.cu"
#include "kernels/causal.cu"
#include "kernels/conv2d.cu"
#include "kernels/picture.cu"
#include "kernels/glumbconv.cu"

static struct kern_ops table;
static struct kern_cuda opened;
static bool is_open;

static int refuse(struct kern_cuda *c, enum kern_cuda_result r, const char *text, cudaError_t e)
{
    if (e == cudaSuccess)
        snprintf(c->why, sizeof(c->why), "%s", text);
    else
        snprintf(c->why, sizeof(c->why), "%.120s: %.80s (CUDA error %d)", text,
                 cudaGetErrorString(e), (int)e);
    return r;
}

static void write_version(char text[32], int v)
{
    snprintf(text, 32, "%d.%d", v / 1000, v % 1000 / 10);
}

/* The oldest driver branch for Linux on which programs of a CUDA release run: CUDA Compatibility, "Minor Version
 * Compatibility", table 1 (docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html): 13.x needs
 * 580, 12.x 525, 11.x 450 (450.80.02, its note says). That holds for machine code, which the plugin has for the GPUs
 * that it was built for; a driver compiles PTX of its own CUDA version and older only. */
static int driver_for(int runtime)
{
    return runtime >= 13000 ? 580 : runtime >= 12000 ? 525 : 450;
}

/* cudaGetDeviceCount() fails for a missing driver, a driver that is too old, and a missing device,
 * with only two error codes: the driver's version tells the first two apart. */
static int find_device(struct kern_cuda *c)
{
    int driver = 0, runtime = 0, count = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaErrorInsufficientDriver && driver == 0)
        return refuse(c, KERN_CUDA_NO_DRIVER, "none is loaded on this machine", cudaSuccess);
    if (e == cudaErrorInsufficientDriver) {
        char has[32], needs[32];
        write_version(has, driver);
        write_version(needs, runtime);
        snprintf(c->why, sizeof(c->why), "it knows CUDA up to %s, and these kernels were built with %s, which needs "
                 "driver %d or newer; install that, or build with the toolkit of CUDA %s", has, needs,
                 driver_for(runtime), has);
        return KERN_CUDA_OLD_DRIVER;
    }
    if (e == cudaErrorNoDevice || (e == cudaSuccess && count == 0))
        return refuse(c, KERN_CUDA_NO_DEVICE, "the driver shows this process no GPU", cudaSuccess);
    if (e != cudaSuccess)
        return refuse(c, KERN_CUDA_UNUSABLE, "its driver does not start", e);
    if (c->device < 0 || c->device >= count)
        return refuse(c, KERN_CUDA_NO_DEVICE, "there is no GPU of that number", cudaSuccess);
    return KERN_CUDA_READY;
}

/* Whether the GPU can run the kernels: machine code of its major version, or PTX that the driver compiles. A driver of
 * an older CUDA version of the same major starts the runtime, but compiles no newer PTX ("Minor Version Compatibility",
 * limitations): that shows here, where the first kernel is loaded, instead of in the first step. */
static int find_code(struct kern_cuda *c, const cudaDeviceProp &gpu)
{
    struct cudaFuncAttributes about;
    const cudaError_t e = cudaFuncGetAttributes(&about, (const void *)plain_gemm_kernel<float, float>);
    if (e == cudaSuccess)
        return KERN_CUDA_READY;
    cudaGetLastError(); /* not sticky */
    int driver = 0, runtime = 0;
    char has[32], needs[32];
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    write_version(has, driver);
    write_version(needs, runtime);
    if (e == cudaErrorUnsupportedPtxVersion) {
        snprintf(c->why, sizeof(c->why), "it must compile these kernels for %.60s, and knows CUDA up to %.8s; install "
                 "a driver for CUDA %.8s or newer, or build with the toolkit of CUDA %.8s", gpu.name, has, needs, has);
        return KERN_CUDA_OLD_DRIVER;
    }
    if (e != cudaErrorNoKernelImageForDevice)
        return refuse(c, KERN_CUDA_UNUSABLE, gpu.name, e);
    snprintf(c->why, sizeof(c->why), "the kernels were built with CUDA %.8s for other GPUs than %.60s, whose compute "
             "capability is %d.%d; build with CUDA_TARGETS=%d%d", needs, gpu.name, gpu.major, gpu.minor, gpu.major,
             gpu.minor);
    return KERN_CUDA_UNUSABLE;
}

static int start_device(struct kern_cuda *c)
{
    cudaDeviceProp about;
    cudaError_t e = cudaGetDeviceProperties(&about, c->device);
    if (e != cudaSuccess)
        return refuse(c, KERN_CUDA_UNUSABLE, "the GPU does not answer", e);
    snprintf(c->name, sizeof(c->name), "%.127s", about.name);
    const bool old = about.major < 7 || (about.major == 7 && about.minor < 5);
    if (old || (about.major < 8 && c->precision == KERN_BF16)) {
        snprintf(c->why, sizeof(c->why), "%.100s has compute capability %d.%d, and %s", about.name,
                 about.major, about.minor,
                 old ? "these kernels need 7.5" : "bf16 needs 8.0");
        return old ? KERN_CUDA_UNUSABLE : KERN_CUDA_NO_BF16;
    }
    if ((e = cudaSetDevice(c->device)) != cudaSuccess ||
        (e = cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking)) != cudaSuccess)
        return refuse(c, KERN_CUDA_UNUSABLE, about.name, e);
    const int found = find_code(c, about);
    if (found != KERN_CUDA_READY)
        return found;
    if (!gemm_open(about.name, c->why, sizeof(c->why)))
        return KERN_CUDA_NO_LIBRARY;
    device.number = c->device;
    device.precision = c->precision;
    device.shared_most = about.sharedMemPerBlockOptin;
    device.reads_host = about.pageableMemoryAccessUsesHostPageTables != 0;
    return KERN_CUDA_READY;
}

static void fill_table(enum kern_precision precision)
{
    table.name = precision == KERN_BF16 ? "cuda-bf16" : "cuda-fp32";
    fill_device(&table);
    fill_matmul(&table);
    fill_patch(&table);
    fill_pointwise(&table);
    fill_norm(&table);
    fill_linattn(&table);
    fill_attend(&table);
    fill_rmsmod(&table);
    fill_rope(&table);
    fill_bf16(&table);
    fill_causal(&table);
    fill_conv2d(&table);
    fill_picture(&table);
    fill_mix(&table);
    fill_residual(&table);
    fill_rng(&table);
    fill_loss(&table);
    fill_reduce(&table);
    fill_fixed(&table);
    fill_adamw(&table);
    fill_came(&table);
}

extern "C" __attribute__((visibility("default"))) int kern_cuda_open(struct kern_cuda *c)
{
    c->ops = NULL;
    c->why[0] = c->name[0] = '\0';
    if (c->ops_size != KERN_CUDA_SIZE)
        return refuse(c, KERN_CUDA_OTHER_BUILD, "built for another version; build both together",
                      cudaSuccess);
    if (is_open && (opened.device != c->device || opened.precision != c->precision))
        return refuse(c, KERN_CUDA_UNUSABLE,
                      "this process has opened another device or precision before", cudaSuccess);
    if (!is_open) {
        int r = find_device(c);
        if (r == KERN_CUDA_READY)
            r = start_device(c);
        if (r != KERN_CUDA_READY)
            return r;
        fill_table(c->precision);
        opened = *c;
        is_open = true;
    }
    memcpy(c->name, opened.name, sizeof(c->name));
    c->streams = &stream_table;
    c->graphs = device_way("graph") ? &graph_table : NULL;
    c->profile = &profile_table;
    c->remember = gemm_remember;
    c->ops = &table;
    return KERN_CUDA_READY;
}
