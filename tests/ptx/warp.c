/* SPDX-License-Identifier: Apache-2.0 */
/* warp.c - operations across the lanes of a warp: shuffles, votes, barriers; and vectors of registers */
#include "tests/ptx/run.h"

/* All lanes of the warp are here, and none has ended. More than the ISA asks of cp.async's groups, which each thread
 * has for itself. */
void ptx_need_all(struct ptx_run *r)
{
    if (r->active != r->now->born)
        ptx_fail(r, -1, "only lanes %#x of the warp's %#x come here, and all must", r->active, r->now->born);
}

/* Every lane of the mask that is among `those` comes to the same instruction with the same mask: ISA, "shfl.sync",
 * "vote.sync": all that have not ended; "bar.warp.sync": all. Lock-step cannot wait for those that are elsewhere, so
 * that is an error. */
static void check_mask(struct ptx_run *r, int source, uint32_t those)
{
    const uint32_t *masks = ptx_lanes(r, r->ins->nd + source), first = masks[__builtin_ctz(r->active)];
    PTX_EACH_ACTIVE(r, l)
    {
        if (!(masks[l] >> l & 1))
            ptx_fail(r, l, "the mask %#x does not have the lane that executes it", masks[l]);
        if (masks[l] != first || (first & those) != (r->active & first))
            ptx_fail(r, l, "the mask %#x has lanes that are elsewhere: here are %#x", masks[l], r->active);
    }
}

/* Lane `from` of `lane` in mode b(fly), d(own), i(dx), u(p); whether it is in range: ISA, "shfl.sync". */
static int from_lane(char mode, int lane, uint32_t b, uint32_t c, bool *in)
{
    const int bval = (int)(b & 31), cval = (int)(c & 31), mask = (int)(c >> 8 & 31);
    const int most = (lane & mask) | (cval & ~mask & 31), least = lane & mask;
    const int j = mode == 'u' ? lane - bval
                  : mode == 'd' ? lane + bval
                  : mode == 'b' ? lane ^ bval
                                : least | (bval & ~mask & 31);
    *in = mode == 'u' ? j >= most : j <= most;
    return *in ? j : lane;
}

/* From a lane that is not here the result is not defined: an error. */
void ptx_shuffle(struct ptx_run *r)
{
    uint32_t y[PTX_LANES], in[PTX_LANES];
    const uint32_t *x = ptx_lanes(r, r->ins->nd), *b = ptx_lanes(r, r->ins->nd + 1), *c = ptx_lanes(r, r->ins->nd + 2);
    check_mask(r, 3, r->now->alive);
    PTX_EACH_ACTIVE(r, l)
    {
        bool here;
        const int j = from_lane(r->ins->mode, l, b[l], c[l], &here);
        if (!(r->active >> j & 1))
            ptx_fail(r, l, "takes a number from lane %d, which is not here", j);
        y[l] = x[j];
        in[l] = here ? ~0u : 0u;
    }
    PTX_EACH_ACTIVE(r, l)
    {
        ptx_result(r, 0, l, y[l]);
        if (r->ins->nd > 1)
            ptx_result(r, 1, l, in[l]);
    }
}

/* ISA, "vote.sync" */
void ptx_vote(struct ptx_run *r)
{
    uint32_t ballot = 0;
    check_mask(r, 1, r->now->alive);
    PTX_EACH_ACTIVE(r, l) ballot |= (ptx_source(r, 0, l) ? 1u : 0u) << l;
    const bool all = ballot == r->active, any = ballot != 0;
    const uint32_t y = r->ins->mode == 'b' ? ballot
                       : (r->ins->mode == 'a' ? all : r->ins->mode == 'y' ? any : all || !any) ? ~0u : 0u;
    PTX_EACH_ACTIVE(r, l) ptx_result(r, 0, l, y);
}

/* ISA, "bar.warp.sync" orders the memory of the lanes of its mask; here only that of a whole warp: what a smaller mask
 * orders may be reported as not ordered. */
void ptx_warp_barrier(struct ptx_run *r)
{
    check_mask(r, 0, r->now->born);
    if (r->active == r->now->born)
        r->now->syncs++;
}

/* ISA, "mov": the first element is in the low bits. */
void ptx_pack(struct ptx_run *r)
{
    PTX_EACH_ACTIVE(r, l)
    {
        uint64_t y = 0;
        for (int k = 0; k < r->ins->ns; k++)
            y |= ptx_source(r, k, l) << 8 * r->ins->bytes * k;
        ptx_result(r, 0, l, y);
    }
}

void ptx_unpack(struct ptx_run *r)
{
    PTX_EACH_ACTIVE(r, l)
    {
        const uint64_t x = ptx_source(r, 0, l);
        for (int k = 0; k < r->ins->nd; k++)
            ptx_result(r, k, l, x >> 8 * r->ins->bytes * k);
    }
}
