/* SPDX-License-Identifier: Apache-2.0 */
/* peer.cu - test whether two GPUs copy to each other correctly; see cuda.h
 *
 * Each round sends new numbers between the two GPUs, in both
 * directions by turns: first a kernel of the receiver reads the sender's memory, as NCCL's kernels
 * do, then the copy engine copies it.  The host, which made the numbers, compares what arrived.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <vector>

#include "kernels/device.cuh"

enum { PEER_WORDS = 1 << 20, PEER_MS = 1000 };

struct peer_side {
    int       number;
    uint64_t *memory;
};

__global__ void peer_pull(uint64_t *to, const uint64_t *from, size_t n)
{
    const size_t all = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += all)
        to[i] = from[i];
}

static double peer_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool peer_ok(struct kern_peer *p, cudaError_t e, const char *what)
{
    if (e != cudaSuccess && !p->why[0])
        snprintf(p->why, sizeof(p->why), "%s: %s (CUDA error %d)", what, cudaGetErrorString(e),
                 (int)e);
    return e == cudaSuccess;
}

/* A device's memory, and the stream of the other device, which runs all copies to this memory. */
static bool peer_open(struct kern_peer *p, struct peer_side *s, int other)
{
    void *memory = NULL;
    if (!peer_ok(p, cudaSetDevice(s->number), "choosing a GPU") ||
        !peer_ok(p, cudaDeviceEnablePeerAccess(other, 0), "opening the way to the other GPU") ||
        !peer_ok(p, cudaMalloc(&memory, PEER_WORDS * sizeof(uint64_t)), "memory"))
        return false;
    s->memory = (uint64_t *)memory;
    return true;
}

/* Sends `sent` and fetches what arrived; by the copy engine, or by a kernel. */
static bool peer_send(struct kern_peer *p, const struct peer_side *from, const struct peer_side *to,
                      bool by_kernel, const uint64_t *sent, uint64_t *arrived)
{
    const size_t bytes = PEER_WORDS * sizeof(*sent);
    cudaStream_t stream = NULL;
    if (!peer_ok(p, cudaSetDevice(to->number), "choosing a GPU") ||
        !peer_ok(p, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream"))
        return false;
    bool ok = peer_ok(p, cudaMemcpyAsync(from->memory, sent, bytes, cudaMemcpyHostToDevice, stream),
                      "writing to a GPU") &&
              peer_ok(p, cudaMemsetAsync(to->memory, 0xa5, bytes, stream), "clearing memory") &&
              peer_ok(p, cudaStreamSynchronize(stream), "writing to a GPU");
    const double began = peer_now_s();
    if (ok && by_kernel) {
        device.stream = stream;
        launch("peer_pull", peer_pull, grid_for(PEER_WORDS), BLOCK, 0, to->memory, from->memory,
               PEER_WORDS);
        ok = device.state == KERN_OK;
        if (!ok)
            snprintf(p->why, sizeof(p->why), "%s", device.why);
    } else if (ok) {
        ok = peer_ok(p, cudaMemcpyPeerAsync(to->memory, to->number, from->memory, from->number,
                                            bytes, stream), "copying between GPUs");
    }
    ok = ok && peer_ok(p, cudaStreamSynchronize(stream), "copying between GPUs");
    const double took = peer_now_s() - began;
    if (ok && took > 0 && (double)bytes / took > p->bytes_per_s)
        p->bytes_per_s = (double)bytes / took;
    ok = ok && peer_ok(p, cudaMemcpyAsync(arrived, to->memory, bytes, cudaMemcpyDeviceToHost, stream),
                       "reading from a GPU") &&
         peer_ok(p, cudaStreamSynchronize(stream), "reading from a GPU");
    cudaStreamDestroy(stream);
    return ok;
}

static void peer_compare(struct kern_peer *p, const uint64_t *sent, const uint64_t *arrived)
{
    for (size_t i = 0; i < PEER_WORDS; i++)
        p->wrong += sent[i] != arrived[i];
    p->words += PEER_WORDS;
}

static int peer_try(struct kern_peer *p)
{
    struct peer_side a = {p->a, NULL}, b = {p->b, NULL};
    std::vector<uint64_t> sent(PEER_WORDS), arrived(PEER_WORDS);
    const double end = peer_now_s() + 1e-3 * PEER_MS;
    if (!peer_open(p, &a, p->b) || !peer_open(p, &b, p->a))
        return -1;
    /* Each direction by each method at least once. */
    for (uint64_t round = 0; round < 4 || peer_now_s() < end; round++) {
        for (size_t i = 0; i < PEER_WORDS; i++)
            sent[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (round + 1) * UINT64_C(0xd1b54a32d192ed03);
        const bool back = round & 1;
        if (!peer_send(p, back ? &b : &a, back ? &a : &b, round & 2, sent.data(), arrived.data()))
            return -1;
        peer_compare(p, sent.data(), arrived.data());
    }
    cudaFree(a.memory);
    cudaFree(b.memory);
    return 0;
}

extern "C" __attribute__((visibility("default"))) int kern_cuda_peer(struct kern_peer *p)
{
    int there = 0, back = 0;
    p->direct = 0;
    p->words = p->wrong = 0;
    p->bytes_per_s = 0;
    p->why[0] = '\0';
    if (!peer_ok(p, cudaDeviceCanAccessPeer(&there, p->a, p->b), "asking the driver") ||
        !peer_ok(p, cudaDeviceCanAccessPeer(&back, p->b, p->a), "asking the driver"))
        return -1;
    p->direct = there && back;
    return p->direct ? peer_try(p) : 0;
}
