/* SPDX-License-Identifier: Apache-2.0 */
/* count.c - see count.h
 *
 * Sectors: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory": an access of a warp is as many
 * transactions of 32 bytes as its lanes touch.  Banks: Programming Guide, "Shared Memory" of compute capability 5.x
 * to 9.0: 32 banks of 4 bytes; an access takes as many passes (wavefronts) as the most different words that lie in
 * one bank; accesses of 8 bytes are made by half warps, of 16 by quarters.
 */
#include "tests/ptx/count.h"
#include "tests/ptx/run.h"

enum { SECTOR = 32, BANKS = 32, BANK = 4 };

static uint64_t tensor_flops(enum ptx_kind k)
{
    return k == PTX_WMMA_MMA ? 2 * 16 * 16 * 16 : k == PTX_MMA ? 2 * 16 * 8 * 16 : 0;
}

/* Before each instruction; it is issued even if its guard lets no lane through. */
void ptx_count(struct ptx_run *r)
{
    struct ptx_counts *c = r->launch->counts;
    const struct ptx_ins *i = r->ins;
    const unsigned lanes = (unsigned)__builtin_popcount(r->active);
    c->instructions++;
    c->slots[i->group] += i->cost;
    c->threads[i->group] += (uint64_t)i->cost * lanes;
    c->flops += (uint64_t)i->flops * lanes;
    c->tensor_flops += tensor_flops(i->kind);
}

/* The different ones of up to 32 numbers, in place. */
static int distinct(uint64_t *x, int n)
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        int k = found - 1; /* the last one first: neighbours are often equal */
        while (k >= 0 && x[k] != x[i])
            k--;
        if (k < 0)
            x[found++] = x[i];
    }
    return found;
}

static int gather(const struct ptx_run *r, const uint64_t *at, unsigned unit, int from, int to, uint64_t *x)
{
    int n = 0;
    for (int l = from; l < to; l++)
        if (r->active >> l & 1)
            x[n++] = at[l] / unit;
    return distinct(x, n);
}

static void count_global(struct ptx_run *r, const uint64_t *at, unsigned bytes, bool write)
{
    uint64_t x[PTX_LANES];
    struct ptx_counts *c = r->launch->counts;
    c->bytes[write] += (uint64_t)bytes * (unsigned)__builtin_popcount(r->active);
    c->sectors[write] += (uint64_t)gather(r, at, SECTOR, 0, PTX_LANES, x);
    c->ideal[write] += ((uint64_t)gather(r, at, bytes, 0, PTX_LANES, x) * bytes + SECTOR - 1) / SECTOR;
}

/* The words of lanes from..to-1: the most in one bank. */
static unsigned passes(const struct ptx_run *r, const uint64_t *at, unsigned bytes, int from, int to)
{
    uint64_t x[PTX_LANES];
    unsigned in_bank[BANKS] = {0}, most = 0;
    const int n = gather(r, at, bytes < BANK ? BANK : bytes, from, to, x);
    for (int i = 0; i < n; i++)
        for (unsigned w = 0; w < (bytes + BANK - 1) / BANK; w++) {
            const unsigned bank = (unsigned)((x[i] * (bytes < BANK ? 1 : bytes / BANK) + w) % BANKS);
            most = ++in_bank[bank] > most ? in_bank[bank] : most;
        }
    return most;
}

static void count_shared(struct ptx_run *r, const uint64_t *at, unsigned bytes)
{
    struct ptx_counts *c = r->launch->counts;
    const int step = bytes <= BANK ? PTX_LANES : PTX_LANES * BANK / (int)bytes;
    for (int l = 0; l < PTX_LANES; l += step) {
        const unsigned n = passes(r, at, bytes, l, l + step);
        c->wavefronts += n;
        c->wavefronts_ideal += n > 0;
    }
}

void ptx_count_access(struct ptx_run *r, enum ptx_space space, const uint64_t *at, unsigned bytes, bool write)
{
    if (space == PTX_GLOBAL)
        count_global(r, at, bytes, write);
    else if (space == PTX_SHARED)
        count_shared(r, at, bytes);
}

double ptx_scaled(const struct ptx_counts *c, uint64_t n)
{
    return c->blocks_run ? (double)n * ((double)c->blocks / (double)c->blocks_run) : 0;
}

/* --- bounds ---------------------------------------------------------------------------------------- */

/* Threads per clock and multiprocessor: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions",
 * compute capability 8.0 and 9.0.  Clocks, memory, tensor cores: NVIDIA A100 (80 GB SXM), H100 (SXM) and H200 (SXM) data
 * sheets; the clock of H100 and H200 is their highest ("NVIDIA H100 Tensor Core GPU Architecture"). */
#define RATES_90                                                                                       \
    {[PTX_FP32] = 128, [PTX_FP64] = 64, [PTX_INT] = 64, [PTX_CONVERT] = 64, [PTX_SPECIAL] = 16, \
     [PTX_SHUFFLE] = 32, [PTX_MEM_GLOBAL] = 32, [PTX_MEM_SHARED] = 32}
static const struct machine {
    double processors, hertz, bytes, tensor; /* bytes and dense bf16 FLOPs per second */
    double rate[PTX_CLASSES];                /* 0: no limit but that of issue */
} machines[] = {
    [PTX_A100] = {108, 1.41e9, 2.039e12, 312e12,
                  {[PTX_FP32] = 64, [PTX_FP64] = 32, [PTX_INT] = 64, [PTX_CONVERT] = 16, [PTX_SPECIAL] = 16,
                   [PTX_SHUFFLE] = 32, [PTX_MEM_GLOBAL] = 32, [PTX_MEM_SHARED] = 32}},
    [PTX_H100] = {132, 1.98e9, 3.35e12, 989e12, RATES_90},
    [PTX_H200] = {132, 1.98e9, 4.8e12, 989e12, RATES_90},
};
static const char *const class_names[PTX_CLASSES] = {
    [PTX_FP32] = "fp32", [PTX_FP64] = "fp64", [PTX_INT] = "integers", [PTX_CONVERT] = "conversions",
    [PTX_SPECIAL] = "exp, 1/x", [PTX_SHUFFLE] = "shuffles", [PTX_MEM_GLOBAL] = "loads, stores",
    [PTX_MEM_SHARED] = "loads, stores"};

static void later(struct ptx_bound *b, double seconds, const char *by)
{
    if (seconds * 1e3 > b->ms)
        *b = (struct ptx_bound){seconds * 1e3, by};
}

struct ptx_bound ptx_bound_of(const struct ptx_counts *c, enum ptx_machine m)
{
    enum { SCHEDULERS = 4 };
    const struct machine *g = &machines[m];
    const double clocks = g->processors * g->hertz;
    struct ptx_bound b = {0, "nothing"};
    uint64_t slots = 0;
    for (int k = 0; k < PTX_CLASSES; k++) {
        slots += c->slots[k];
        /* a warp takes as long as 32 lanes, however many are active */
        if (g->rate[k] > 0)
            later(&b, ptx_scaled(c, c->slots[k]) * PTX_LANES / g->rate[k] / clocks, class_names[k]);
    }
    later(&b, ptx_scaled(c, slots) / SCHEDULERS / clocks, "issue");
    later(&b, ptx_scaled(c, c->wavefronts) / clocks, "shared memory");
    later(&b, ptx_scaled(c, c->tensor_flops) / g->tensor, "tensor cores");
    later(&b, ptx_scaled(c, (c->sectors[0] + c->sectors[1]) * SECTOR) / g->bytes, "memory");
    return b;
}
