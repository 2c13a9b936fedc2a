/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c - runs a launch: its blocks, their warps in turn, and the lanes of a warp in lock-step
 *
 * ISA, "Machine-Specific Semantics" and "bar, barrier". Where lanes part at a branch, those that take it run first,
 * to the immediate post-dominator of the branch (flow.c), then the others; from there on they go together. A kernel
 * that needs lanes to run in another order is an error at its barrier or shuffle.
 */
#include "tests/ptx/count.h"
#include "tests/ptx/run.h"

#include <stdarg.h>
#include <stdlib.h>

/* --- failures ------------------------------------------------------------------------------------ */

static void line_of(const struct ptx_module *m, int line, char *to, size_t room)
{
    const char *at = m->text;
    for (int i = 1; i < line && at; i++)
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    at = at ? at + strspn(at, " \t") : "";
    snprintf(to, room, "%.*s", (int)strcspn(at, "\n"), at);
}

void ptx_fail(struct ptx_run *r, int lane, const char *format, ...)
{
    char text[160];
    va_list list;
    const int line = r->ins ? r->ins->line : 0;
    line_of(r->entry->module, line, text, sizeof(text));
    int n = snprintf(r->why, PTX_WHY, "%s:%d: %s: ", r->entry->module->name, line, text);
    va_start(list, format);
    n += vsnprintf(r->why + n, PTX_WHY - (size_t)n, format, list);
    va_end(list);
    if (n < PTX_WHY)
        n += snprintf(r->why + n, PTX_WHY - (size_t)n, " (block %u %u %u", r->block[0], r->block[1], r->block[2]);
    if (n < PTX_WHY && r->now)
        n += lane < 0 ? snprintf(r->why + n, PTX_WHY - (size_t)n, ", warp %d", r->now->index)
                      : snprintf(r->why + n, PTX_WHY - (size_t)n, ", thread %d", r->now->index * PTX_LANES + lane);
    if (n < PTX_WHY)
        snprintf(r->why + n, PTX_WHY - (size_t)n, " of %s)", r->entry->name);
    longjmp(r->out, 1);
}

/* --- lanes --------------------------------------------------------------------------------------- */

static void set_active(struct ptx_run *r, uint32_t active)
{
    if (active == r->active)
        return;
    r->active = active;
    for (int l = 0; l < PTX_LANES; l++)
        r->lanes[l] = active >> l & 1 ? ~0u : 0u;
}

static uint32_t bits_of(const uint32_t *lanes)
{
    uint32_t bits = 0;
    for (int l = 0; l < PTX_LANES; l++)
        bits |= (lanes[l] & 1) << l;
    return bits;
}

static void merge(void *to, const void *from, unsigned size, uint32_t active)
{
    for (int l = 0; l < PTX_LANES; l++)
        if (active >> l & 1)
            memcpy((char *)to + (size_t)l * size, (const char *)from + (size_t)l * size, size);
}

static void merge_words(const struct ptx_run *r, uint32_t *to, const uint32_t *from)
{
    for (int l = 0; l < PTX_LANES; l++)
        to[l] = (to[l] & ~r->lanes[l]) | (from[l] & r->lanes[l]);
}

static void compute(struct ptx_run *r)
{
    const struct ptx_ins *i = r->ins;
    const void *s[PTX_OPERANDS];
    uint64_t all[PTX_LANES] __attribute__((aligned(64)));
    for (int k = 0; k < i->ns; k++)
        s[k] = ptx_lanes(r, 1 + k);
    if (ptx_operand_of(r, 0)->sink)
        return;
    if (r->active == ~0u) {
        i->run(ptx_lanes(r, 0), s);
        return;
    }
    i->run(all, s);
    if (ptx_operand_of(r, 0)->size == 4)
        merge_words(r, ptx_lanes(r, 0), (const uint32_t *)all);
    else
        merge(ptx_lanes(r, 0), all, ptx_operand_of(r, 0)->size, r->active);
}

/* --- control --------------------------------------------------------------------------------------- */

static void push(struct ptx_run *r, int pc, int join, uint32_t mask)
{
    struct ptx_warp *w = r->now;
    if (pc == join || !mask)
        return;
    if (w->depth == PTX_STACK)
        ptx_fail(r, -1, "branches nest more than %d deep", PTX_STACK);
    w->side[w->depth++] = (struct ptx_side){pc, join, mask};
}

static void branch(struct ptx_run *r)
{
    struct ptx_warp *w = r->now;
    struct ptx_side *top = &w->side[w->depth - 1];
    const uint32_t taken = r->active, rest = top->mask & ~taken;
    const int next = top->pc + 1, join = r->ins->join, target = r->ins->target;
    if (!rest || !taken) {
        top->pc = taken ? target : next;
        return;
    }
    top->pc = join;
    if (join == top->join)
        w->depth--; /* it would only wait for the others there */
    push(r, next, join, rest);
    push(r, target, join, taken);
}

static void leave(struct ptx_run *r)
{
    struct ptx_warp *w = r->now;
    if (w->copy_count)
        ptx_fail(r, -1, "the kernel ends before its cp.async were waited for");
    w->alive &= ~r->active;
    w->side[w->depth - 1].pc++;
    for (int i = 0; i < w->depth; i++)
        w->side[i].mask &= w->alive;
}

static void stop_at_barrier(struct ptx_run *r)
{
    if (r->active != r->now->born)
        ptx_fail(r, -1, "only lanes %#x of the warp's %#x come to this barrier", r->active, r->now->born);
    r->now->waits = (int)(r->ins - r->entry->code);
}

static void perform(struct ptx_run *r)
{
    switch (r->ins->kind) {
    case PTX_ALU: compute(r); break;
    case PTX_LOAD: ptx_load(r); break;
    case PTX_STORE: ptx_store(r); break;
    case PTX_CVT: ptx_convert(r); break;
    case PTX_PACK: ptx_pack(r); break;
    case PTX_UNPACK: ptx_unpack(r); break;
    case PTX_SHFL: ptx_shuffle(r); break;
    case PTX_VOTE: ptx_vote(r); break;
    case PTX_WARP_BARRIER: ptx_warp_barrier(r); break;
    case PTX_BARRIER: stop_at_barrier(r); break;
    case PTX_WMMA_LOAD: ptx_wmma_load(r); break;
    case PTX_WMMA_STORE: ptx_wmma_store(r); break;
    case PTX_WMMA_MMA: ptx_wmma_product(r); break;
    case PTX_MMA: ptx_product(r); break;
    case PTX_LDMATRIX: ptx_load_matrix(r); break;
    case PTX_CP_ASYNC: ptx_copy_later(r); break;
    case PTX_CP_COMMIT: ptx_copy_commit(r); break;
    case PTX_CP_WAIT: ptx_copy_wait(r); break;
    case PTX_TRAP: ptx_fail(r, __builtin_ctz(r->active), "the kernel gives up");
    default: break;
    }
}

/* The instruction at the top's pc, by those of its lanes whose guard is true. */
static void step(struct ptx_run *r)
{
    struct ptx_warp *w = r->now;
    struct ptx_side *top = &w->side[w->depth - 1];
    const struct ptx_ins *i = r->ins = &r->entry->code[top->pc];
    uint32_t active = top->mask;
    if (i->guard >= 0) {
        const uint32_t guard = bits_of((const uint32_t *)(void *)(w->file + i->guard));
        active &= i->guard_not ? ~guard : guard;
    }
    set_active(r, active);
    if (r->launch->counts)
        ptx_count(r);
    if (i->kind == PTX_BRANCH) {
        branch(r);
        return;
    }
    if (i->kind == PTX_RETURN && active) {
        leave(r);
        return;
    }
    if (active)
        perform(r);
    top->pc++;
}

/* Until it ends or waits at a barrier. */
static void run_warp(struct ptx_run *r, struct ptx_warp *w)
{
    r->now = w;
    while (w->depth && w->waits < 0) {
        struct ptx_side *top = &w->side[w->depth - 1];
        if (!top->mask || top->pc == top->join)
            w->depth--;
        else if (top->pc >= r->entry->count)
            ptx_fail(r, -1, "the kernel runs past its last instruction");
        else
            step(r);
    }
}

/* --- blocks ---------------------------------------------------------------------------------------- */

static void set_special(struct ptx_run *r, struct ptx_warp *w, int which, int lane, uint32_t x)
{
    const int at = r->entry->special[which];
    if (at >= 0)
        ptx_set(w->file + at, 4, lane, x);
}

static void number_lanes(struct ptx_run *r, struct ptx_warp *w)
{
    const unsigned *b = r->launch->block;
    for (int l = 0; l < PTX_LANES; l++) {
        const unsigned t = (unsigned)(w->index * PTX_LANES + l);
        const unsigned tid[3] = {t % b[0], t / b[0] % b[1], t / b[0] / b[1]};
        for (int k = 0; k < 3; k++) {
            set_special(r, w, PTX_TID + k, l, tid[k]);
            set_special(r, w, PTX_NTID + k, l, b[k]);
            set_special(r, w, PTX_CTAID + k, l, r->block[k]);
            set_special(r, w, PTX_NCTAID + k, l, r->launch->grid[k]);
        }
        set_special(r, w, PTX_LANEID, l, (uint32_t)l);
        set_special(r, w, PTX_WARPID, l, (uint32_t)w->index);
    }
}

static void start_warp(struct ptx_run *r, int index)
{
    struct ptx_warp *w = &r->warp[index];
    const unsigned first = (unsigned)index * PTX_LANES, left = r->threads - first;
    w->index = index;
    w->file = r->files + (size_t)index * r->entry->file_bytes;
    w->born = w->alive = left >= PTX_LANES ? ~0u : (1u << left) - 1;
    w->depth = 1;
    w->side[0] = (struct ptx_side){0, PTX_EXIT, w->born};
    w->waits = -1;
    w->syncs = w->groups = 0;
    w->copy_count = 0;
    number_lanes(r, w);
}

/* All wait at the same barrier, or all have ended. ISA, "bar, barrier": of .aligned forms all threads execute the same
 * instruction. Stricter here than the ISA: barrier.sync without .aligned, too, and threads that have ended ("exit":
 * they release those that wait) are missed. */
static bool release(struct ptx_run *r)
{
    const int first = r->warp[0].waits;
    for (unsigned i = 1; i < r->warps; i++) {
        if (r->warp[i].waits == first)
            continue;
        const bool ended = first < 0 || r->warp[i].waits < 0;
        r->now = &r->warp[r->warp[i].waits < 0 ? 0 : i];
        r->ins = &r->entry->code[r->now->waits < 0 ? 0 : r->now->waits];
        ptx_fail(r, -1, ended ? "warp %d has ended, and others wait at this barrier"
                              : "warp %d waits at another barrier than this one",
                 r->now == &r->warp[i] ? 0 : (int)i);
    }
    r->epoch++;
    for (unsigned i = 0; i < r->warps; i++)
        r->warp[i].waits = -1;
    return first >= 0;
}

static void run_block(struct ptx_run *r)
{
    r->epoch = 1;
    ptx_clear_shared(r);
    for (unsigned i = 0; i < r->warps; i++)
        start_warp(r, (int)i);
    do
        for (unsigned i = 0; i < r->warps; i++)
            run_warp(r, &r->warp[i]);
    while (release(r));
}

static void run_blocks(struct ptx_run *r)
{
    const struct ptx_launch *l = r->launch;
    const uint64_t all = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    const uint64_t n = l->sample && l->sample < all ? l->sample : all;
    if (l->counts) {
        l->counts->blocks += all;
        l->counts->blocks_run += n;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t b = n == all ? i : (uint64_t)(((double)i + 0.5) * (double)all / (double)n);
        r->block[0] = (unsigned)(b % l->grid[0]);
        r->block[1] = (unsigned)(b / l->grid[0] % l->grid[1]);
        r->block[2] = (unsigned)(b / l->grid[0] / l->grid[1]);
        run_block(r);
    }
}

/* --- launches -------------------------------------------------------------------------------------- */

static void *take(size_t bytes)
{
    void *p = aligned_alloc(PTX_ALIGN, (bytes + 2 * PTX_ALIGN - 1) / PTX_ALIGN * PTX_ALIGN);
    if (!p)
        abort();
    memset(p, 0xff, bytes);
    return p;
}

static void prepare(struct ptx_run *r)
{
    const struct ptx_entry *e = r->entry;
    const struct ptx_launch *l = r->launch;
    r->threads = l->block[0] * l->block[1] * l->block[2];
    r->warps = (r->threads + PTX_LANES - 1) / PTX_LANES;
    r->shared_bytes = e->dynamic_at + l->shared;
    r->local_bytes = (e->local_bytes + 15) / 16 * 16;
    r->files = take((size_t)e->file_bytes * r->warps);
    r->shared = take(r->shared_bytes);
    r->local = take(r->local_bytes * r->warps * PTX_LANES);
    r->shadow = take(sizeof(*r->shadow) * (r->shared_bytes / PTX_WHOLE + 2));
    set_active(r, ~0u);
}

static void finish(struct ptx_run *r)
{
    free(r->files);
    free(r->shared);
    free(r->local);
    free(r->shadow);
    for (int i = 0; i < PTX_WARPS; i++)
        free(r->warp[i].copies);
    free(r);
}

static bool fits(const struct ptx_launch *l, char why[PTX_WHY])
{
    const uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    const unsigned most = l->entry->max_threads ? l->entry->max_threads : PTX_WARPS * PTX_LANES;
    if (threads >= 1 && threads <= most && most <= PTX_WARPS * PTX_LANES)
        return true;
    snprintf(why, PTX_WHY, "%s: %llu threads in a block, at most %u are possible", l->entry->name,
             (unsigned long long)threads, most);
    return false;
}

bool ptx_run(const struct ptx_launch *l, char why[PTX_WHY])
{
    if (!fits(l, why))
        return false;
    struct ptx_run *r = aligned_alloc(64, (sizeof(*r) + 63) / 64 * 64);
    if (!r)
        abort();
    memset(r, 0, sizeof(*r));
    r->launch = l;
    r->entry = l->entry;
    r->why = why;
    prepare(r);
    const bool ok = setjmp(r->out) == 0;
    if (ok)
        run_blocks(r);
    finish(r);
    return ok;
}
