/* SPDX-License-Identifier: Apache-2.0 */
/* shared.c - detects races on shared memory
 *
 * Two accesses to the same bytes, one of them a write, need a barrier between them: of the block (bar.sync), or,
 * between lanes of a warp, bar.warp.sync.  ISA, "Memory Consistency Model": that lanes run in lock-step here orders
 * nothing on a GPU.  Of two lanes that write in the same instruction one wins, which is not reported.
 */
#include "tests/ptx/run.h"

static int thread_of(const struct ptx_run *r, int lane)
{
    return r->now->index * PTX_LANES + lane;
}

/* Whether something orders that access before one of now by this thread. */
static bool before(const struct ptx_run *r, const struct ptx_touch *t, int thread)
{
    return t->epoch != r->epoch || t->thread == thread ||
           (t->thread / PTX_LANES == thread / PTX_LANES && t->syncs != r->now->syncs);
}

static void race(struct ptx_run *r, int lane, uint64_t at, const struct ptx_touch *t, const char *how)
{
    ptx_fail(r, lane, "shared memory at %llu: %s thread %d, and no barrier between", (unsigned long long)at, how,
             t->thread);
}

static void read_one(struct ptx_run *r, int lane, uint64_t at, struct ptx_shadow *s)
{
    const int me = thread_of(r, lane);
    if (s->state == PTX_UNWRITTEN)
        ptx_fail(r, lane, "reads shared memory at %llu that no thread of the block has written",
                 (unsigned long long)at);
    if (s->state == PTX_PENDING)
        ptx_fail(r, lane, "reads shared memory at %llu whose cp.async nobody has waited for", (unsigned long long)at);
    if (!before(r, &s->write, me))
        race(r, lane, at, &s->write, "reads what was written by");
    const bool fresh = s->readers == 0 || s->read.epoch != r->epoch;
    const bool same_warp = s->read.thread / PTX_LANES == me / PTX_LANES;
    if (fresh || (same_warp && s->readers < 3 && s->read.syncs != r->now->syncs))
        s->readers = 1;
    else if (s->read.thread == me && s->readers == 1)
        return;
    else
        s->readers = same_warp && s->readers < 3 ? 2 : 3;
    s->read = (struct ptx_touch){r->epoch, r->now->syncs, (uint16_t)me};
}

/* Several readers of one warp: in the instruction in work, or since its last bar.warp.sync. */
static bool read_before(const struct ptx_run *r, const struct ptx_shadow *s, int me)
{
    if (s->readers == 0 || s->read.epoch != r->epoch)
        return true;
    return s->readers == 1 ? before(r, &s->read, me)
           : s->readers == 2
               ? s->read.thread / PTX_LANES == me / PTX_LANES && s->read.syncs != r->now->syncs
               : false;
}

/* ISA, "cp.async": only waiting for it orders it before another write. */
static void write_one(struct ptx_run *r, int lane, uint64_t at, struct ptx_shadow *s, bool promise)
{
    const int me = thread_of(r, lane);
    if (s->state == PTX_PENDING)
        ptx_fail(r, lane, "writes shared memory at %llu whose cp.async nobody has waited for", (unsigned long long)at);
    if (s->state == PTX_WRITTEN && !before(r, &s->write, me) && s->write.thread / PTX_LANES != me / PTX_LANES)
        race(r, lane, at, &s->write, "writes what was written by");
    if (!read_before(r, s, me))
        race(r, lane, at, &s->read, "writes what was read by");
    s->write = (struct ptx_touch){r->epoch, r->now->syncs, (uint16_t)me};
    s->state = promise ? PTX_PENDING : PTX_WRITTEN;
}

static struct ptx_shadow *record_of(struct ptx_run *r, int lane, uint64_t at, unsigned bytes)
{
    if (at + bytes > r->shared_bytes || at + bytes < at)
        ptx_fail(r, lane, "shared memory at %llu: out of bounds, the block has %zu bytes", (unsigned long long)at,
                 r->shared_bytes);
    struct ptx_shadow *s = &r->shadow[at / PTX_WHOLE];
    for (uint64_t i = at / PTX_WHOLE; i <= (at + bytes - 1) / PTX_WHOLE; i++)
        if (r->shadow[i].state == PTX_NOWHERE)
            ptx_fail(r, lane, "shared memory at %llu: out of bounds of every array", (unsigned long long)at);
    return s;
}

void ptx_touch_shared(struct ptx_run *r, int lane, uint64_t at, unsigned bytes, bool write)
{
    struct ptx_shadow *s = record_of(r, lane, at, bytes), *const end = &r->shadow[(at + bytes - 1) / PTX_WHOLE];
    for (; s <= end; s++)
        if (write)
            write_one(r, lane, at, s, false);
        else
            read_one(r, lane, at, s);
}

void ptx_promise_shared(struct ptx_run *r, int lane, uint64_t at, unsigned bytes)
{
    struct ptx_shadow *s = record_of(r, lane, at, bytes), *const end = &r->shadow[(at + bytes - 1) / PTX_WHOLE];
    for (; s <= end; s++)
        write_one(r, lane, at, s, true);
}

/* Before a block: fixed arrays where they are, then the dynamic one to the end. */
void ptx_clear_shared(struct ptx_run *r)
{
    const struct ptx_entry *e = r->entry;
    memset(r->shared, 0xff, r->shared_bytes); /* NaNs */
    for (size_t i = 0; i * PTX_WHOLE < r->shared_bytes; i++) {
        const size_t at = i * PTX_WHOLE;
        const bool there = at >= e->dynamic_at || (at < e->shared_bytes && e->valid[at]);
        r->shadow[i] = (struct ptx_shadow){.state = there ? PTX_UNWRITTEN : PTX_NOWHERE};
    }
}
