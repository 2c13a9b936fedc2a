/* SPDX-License-Identifier: Apache-2.0 */
/* device.cu - the GPU's memory and error state */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.cuh"

static void device_not_recorded(const char *what, const char *error, int code)
{
    if (!device.record_lost)
        snprintf(device.lost_why, sizeof(device.lost_why), "%.200s: %.80s %d", what, error, code);
    device.record_lost = true;
}

static enum kern_state device_state_after(cudaError_t e)
{
    switch (e) {
    case cudaErrorMemoryAllocation:
        return KERN_NO_MEMORY;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
        return KERN_BROKEN;
    default:
        return KERN_FAULT;
    }
}

static bool device_ok(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return device.state == KERN_OK;
    if (device.recording) { /* nothing has run: graph.cu drops the recording, no failure */
        device_not_recorded(what, cudaGetErrorString(e), (int)e);
        return false;
    }
    if (device.state == KERN_OK) {
        device.state = device_state_after(e);
        snprintf(device.why, sizeof(device.why), "%s: %s (CUDA error %d)", what,
                 cudaGetErrorString(e), (int)e);
    }
    return false;
}

static bool device_way(const char *way)
{
    const char *list = getenv("JOBCTL_CUDA_WAYS");
    const size_t n = strlen(way);
    for (const char *at = list; at && *at; at += strcspn(at, " ,")) {
        at += strspn(at, " ,");
        if (strncmp(at, way, n) == 0 && strchr(" ,", at[n])) /* at end of file too */
            return true;
    }
    return !list;
}

/* A test detects a caller that uses more than it requested, even if the buffer has grown for another one. */
static void *scratch_in_use(void *p, size_t bytes)
{
#ifdef CUDA_ON_CPU
    cuda_cpu_use(device.stream, p, bytes);
#else
    (void)bytes;
#endif
    return p;
}

static void *device_scratch(enum scratch which, size_t bytes)
{
    if (device.state != KERN_OK)
        return NULL;
    if (device.scratch_bytes[which] >= bytes)
        return scratch_in_use(device.scratch[which], bytes);
    if (device.recording) { /* no memory may be allocated now */
        device_not_recorded("scratch memory", "it would have to grow to bytes", (int)bytes);
        return NULL;
    }
    device.moves++;
    if (device.scratch[which])
        device_ok(cudaFree(device.scratch[which]), "scratch memory"); /* waits for its users */
    device.scratch[which] = NULL;
    device.scratch_bytes[which] = 0;
    void *p = NULL;
    if (!device_ok(cudaMalloc(&p, bytes), "scratch memory"))
        return NULL;
    device.scratch[which] = p;
    device.scratch_bytes[which] = bytes;
    return scratch_in_use(p, bytes);
}

static void *device_alloc(size_t bytes)
{
    void *p = NULL;
    if (device.state != KERN_OK)
        return NULL;
    const cudaError_t e = cudaMalloc(&p, bytes ? bytes : 64);
    if (e == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* NULL tells the caller; the error is not sticky */
        return NULL;
    }
    if (!device_ok(e, "memory") ||
        !device_ok(cudaMemsetAsync(p, 0, bytes ? bytes : 64, device.stream), "memory"))
        return NULL;
    return p;
}

static void device_release(void *p)
{
    if (p)
        device_ok(cudaFree(p), "memory");
}

/* A copy, or zeros where `from` is NULL, in order with the kernels. */
static void device_move(const char *op, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    if (device.state != KERN_OK)
        return;
    const int timed = profile_from({op, NULL, dim3(0, 0, 0), 0, 0, 0});
    device_ok(from ? cudaMemcpyAsync(to, from, bytes, kind, device.stream)
                   : cudaMemsetAsync(to, 0, bytes, device.stream), op);
    profile_to(timed);
}

/* Bytes from `at` to the end of its piece, but `left` at most. */
static size_t pin_piece(const void *at, size_t left)
{
    const size_t to = PIN_PIECE - (uintptr_t)at % PIN_PIECE;
    return to < left ? to : left;
}

static void device_upload(void *to, const void *from, size_t bytes)
{
    for (size_t done = 0, n; done < bytes && device.state == KERN_OK; done += n) {
        const char *next = (const char *)from + done;
        n = pin_piece(next, bytes - done);
        device_move("upload", (char *)to + done, next, n, cudaMemcpyHostToDevice);
    }
    if (device.state == KERN_OK && device.reads_host)
        device_ok(cudaStreamSynchronize(device.stream), "upload");
    /* From pageable memory the call returns after `from` was read, which the driver copies to memory of its own ("API
     * synchronization behavior": "might be synchronous"); where it need not, we wait. From page-locked memory it
     * returns before. */
}

static void device_download(void *to, const void *from, size_t bytes)
{
    device_move("download", to, from, bytes, cudaMemcpyDeviceToHost);
    if (device.state == KERN_OK && device_ok(cudaStreamSynchronize(device.stream), "kernels"))
        return;
    memset(to, 0xff, bytes); /* NaNs, so that no caller mistakes them for a result */
}

/* The programming guide says that cudaErrorNotReady of cudaEventQuery() is not kept as the last error; nothing here
 * depends on that. */
static enum kern_state device_state(char *why, size_t size)
{
    if (device.state == KERN_OK) {
        device_ok(cudaStreamSynchronize(device.stream), "kernels");
        const cudaError_t last = cudaGetLastError();
        device_ok(last == cudaErrorNotReady ? cudaSuccess : last, "kernels");
    }
    snprintf(why, size, "%s", device.state == KERN_OK ? "" : device.why);
    return device.state;
}

static bool device_free_memory(size_t *free_bytes, size_t *all)
{
    return device.state == KERN_OK &&
           device_ok(cudaMemGetInfo(free_bytes, all), "free memory");
}

static void device_zero(float *y, size_t n)
{
    device_move("zero", y, NULL, n * sizeof(*y), cudaMemcpyDeviceToDevice);
}

static void device_copy(float *y, const float *x, size_t n)
{
    device_move("copy", y, x, n * sizeof(*y), cudaMemcpyDeviceToDevice);
}

static void fill_device(struct kern_ops *ops)
{
    ops->host = false;
    ops->narrow = device.precision == KERN_FP32 ? sizeof(float) : sizeof(bf16);
    ops->keeps = false;
    ops->alloc = device_alloc;
    ops->release = device_release;
    ops->upload = device_upload;
    ops->download = device_download;
    ops->state = device_state;
    ops->free_memory = device_free_memory;
    ops->zero = device_zero;
    ops->copy = device_copy;
}
