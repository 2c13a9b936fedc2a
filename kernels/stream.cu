/* SPDX-License-Identifier: Apache-2.0 */
/* stream.cu - streams beside that of the kernels, and events in them; see cuda.h */
#include "kernels/device.cuh"

static void *stream_open(bool urgent)
{
    cudaStream_t s = NULL;
    int least = 0, greatest = 0; /* the greatest priority is the smallest number */
    if (!device_ok(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities of streams"))
        return NULL;
    const cudaError_t e = cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, urgent ? greatest : least);
    return device_ok(e, "a stream") ? (void *)s : NULL;
}

static void stream_close(void *stream)
{
    cudaStreamDestroy((cudaStream_t)stream); /* a failure on it was reported before */
}

static void *stream_mark(void *stream)
{
    cudaEvent_t mark = NULL;
    if (device.state != KERN_OK ||
        !device_ok(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming), "an event"))
        return NULL;
    device_ok(cudaEventRecord(mark, stream ? (cudaStream_t)stream : device.stream), "an event");
    return (void *)mark;
}

static int stream_reached(void *mark)
{
    const cudaError_t e = cudaEventQuery((cudaEvent_t)mark);
    if (e == cudaErrorNotReady)
        return 0;
    return device_ok(e, "collectives") ? 1 : -1;
}

static int stream_follow(void *stream, void *mark)
{
    const cudaStream_t s = stream ? (cudaStream_t)stream : device.stream;
    const cudaError_t e = cudaStreamWaitEvent(s, (cudaEvent_t)mark, 0);
    return device_ok(e, "collectives") ? 0 : -1;
}

static void stream_drop(void *mark)
{
    cudaEventDestroy((cudaEvent_t)mark);
}

static int stream_fetch(void *stream, void *to, const void *from, size_t bytes)
{
    for (size_t done = 0, n; done < bytes; done += n) {
        n = pin_piece((char *)to + done, bytes - done);
        const cudaError_t e = cudaMemcpyAsync((char *)to + done, (const char *)from + done, n, cudaMemcpyDeviceToHost,
                                              (cudaStream_t)stream);
        if (!device_ok(e, "a copy to host memory"))
            return -1;
    }
    return 0;
}

static void stream_unpin(void *at, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += pin_piece((char *)at + done, bytes - done))
        cudaHostUnregister((char *)at + done);
}

/* Another thread begins with GPU 0 as its device. A failure here does not mean that the device failed. */
static int stream_pin(void *at, size_t bytes)
{
    bool ok = cudaSetDevice(device.number) == cudaSuccess;
    size_t done = 0;
    while (ok && done < bytes) {
        const size_t n = pin_piece((char *)at + done, bytes - done);
        ok = cudaHostRegister((char *)at + done, n, cudaHostRegisterDefault) == cudaSuccess;
        done += ok ? n : 0;
    }
    if (ok)
        return 0;
    stream_unpin(at, done);
    cudaGetLastError();
    return -1;
}

static const struct kern_streams stream_table = {
    stream_open,   stream_close, stream_mark,  stream_reached, stream_follow,
    stream_drop,   stream_fetch, stream_pin,   stream_unpin,
};
