/* SPDX-License-Identifier: Apache-2.0 */
/* mma_sync.cc - see mma_sync.h
 *
 * Lanes bring what they have to a desk of their warp, meet, and take what they need from it.  A warp has two desks, by
 * turns: who is late with taking still finds his when others bring the next.
 */
#include <mma_sync.h>

#include <cuda_bf16.h>

#include <vector>

#include "cuda_cpu.h"

enum { WARP_LANES = CUDA_CPU_WARP, WARPS = CUDA_CPU_THREADS / CUDA_CPU_WARP };

struct desk {
    uint16_t row[WARP_LANES][8];
    uint32_t a[WARP_LANES][4], b[WARP_LANES][2];
};

struct copy {
    char       *to;
    const void *from;
    unsigned    bytes, group;
    bool        there;
};

struct copies {
    std::vector<struct copy> open;
    unsigned                 groups;
};

static struct desk   desks[WARPS][2];
static unsigned char calls[CUDA_CPU_THREADS];
static struct copies copies[CUDA_CPU_THREADS];

static struct desk *next_desk(void)
{
    const int t = cuda_cpu_thread();
    return &desks[t / WARP_LANES][calls[t]++ & 1];
}

static float number(uint32_t pair, int upper)
{
    return __bfloat162float({(uint16_t)(pair >> 16 * upper)});
}

static void bring_row(uint16_t to[8], const void *row)
{
    const char *p = (const char *)row - (uintptr_t)cuda_cpu_shared_memory();
    if ((uintptr_t)row % 16)
        cuda_cpu_die("a row of ldmatrix is not a multiple of 16");
    if ((uintptr_t)p >= CUDA_CPU_SHARED)
        cuda_cpu_die("a row of ldmatrix is not in dynamic shared memory");
    cuda_cpu_warp_touch(row, 16, false);
    memcpy(to, row, 16);
}

/* PTX ISA, "ldmatrix": the row of a lane is read by the warp. */
void cuda_cpu_load_matrix(uint32_t *to, int many, const void *row, bool transposed)
{
    struct desk *d = next_desk();
    const int lane = cuda_cpu_lane();
    if (lane < 8 * many)
        bring_row(d->row[lane], row);
    cuda_cpu_join();
    for (int k = 0; k < many; k++) {
        const int i = lane / 4, j = lane % 4 * 2;
        const uint16_t(*m)[8] = &d->row[8 * k];
        to[k] = transposed ? m[j][i] | (uint32_t)m[j + 1][i] << 16 : m[i][j] | (uint32_t)m[i][j + 1] << 16;
    }
}

/* Row r of the a that the warp brought, column r of its b. */
static void row_of_a(float to[16], const struct desk *d, int r)
{
    for (int k = 0; k < 16; k++)
        to[k] = number(d->a[r % 8 * 4 + k % 8 / 2][r / 8 + k / 8 * 2], k % 2);
}

static void column_of_b(float to[16], const struct desk *d, int n)
{
    for (int k = 0; k < 16; k++)
        to[k] = number(d->b[n * 4 + k % 8 / 2][k / 8], k % 2);
}

/* PTX ISA, "Matrix Fragments for mma.m16n8k16" */
void cuda_cpu_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    struct desk *d = next_desk();
    const int lane = cuda_cpu_lane();
    float x[2][16], y[2][16];
    memcpy(d->a[lane], a, sizeof(d->a[lane]));
    d->b[lane][0] = b0, d->b[lane][1] = b1;
    cuda_cpu_join();
    for (int i = 0; i < 2; i++) {
        row_of_a(x[i], d, lane / 4 + 8 * i);
        column_of_b(y[i], d, lane % 4 * 2 + i);
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++)
            c[i] += x[i / 2][k] * y[i % 2][k];
}

void cuda_cpu_copy(void *to, const void *from, unsigned bytes, bool there)
{
    struct copies *mine = &copies[cuda_cpu_thread()];
    if (there)
        cuda_cpu_thread_touch(from, bytes, false);
    cuda_cpu_thread_touch(to, bytes, true);
    memset(to, 0xff, bytes);
    mine->open.push_back({(char *)to, from, bytes, mine->groups, there});
}

void cuda_cpu_copy_commit(void)
{
    copies[cuda_cpu_thread()].groups++;
}

void cuda_cpu_copy_wait(unsigned left)
{
    struct copies *mine = &copies[cuda_cpu_thread()];
    size_t kept = 0;
    for (const struct copy &c : mine->open) {
        if (c.group + left >= mine->groups) {
            mine->open[kept++] = c;
            continue;
        }
        cuda_cpu_thread_touch(c.to, c.bytes, true);
        if (c.there)
            memcpy(c.to, c.from, c.bytes);
        else
            memset(c.to, 0, c.bytes);
    }
    mine->open.resize(kept);
}

void cuda_cpu_copy_none(void)
{
    for (struct copies &c : copies) {
        if (!c.open.empty())
            cuda_cpu_die("a kernel ended before its copies were waited for");
        c.groups = 0;
    }
}
