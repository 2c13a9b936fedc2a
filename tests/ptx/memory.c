/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - loads, stores and asynchronous copies, and the checks of each address
 *
 * ISA, "ld", "st": an address is a multiple of the access's size, of a vector of the vector's; "Generic
 * Addressing": shared and local memory are windows of the generic space (code.h).
 */
#include "tests/ptx/run.h"

#include <stdlib.h>

void ptx_addresses(const struct ptx_run *r, int source, int64_t offset, uint64_t *at)
{
    const struct ptx_operand *o = ptx_operand_of(r, r->ins->nd + source);
    const void *base = ptx_lanes(r, r->ins->nd + source);
    if (o->size == 8)
        for (int l = 0; l < PTX_LANES; l++)
            at[l] = ((const uint64_t *)base)[l] + (uint64_t)offset;
    else
        for (int l = 0; l < PTX_LANES; l++)
            at[l] = (uint32_t)(((const uint32_t *)base)[l] + (uint32_t)offset);
}

static void *place_global(struct ptx_run *r, int lane, uint64_t at, unsigned bytes, bool write)
{
    const struct ptx_module *m = r->entry->module;
    if (at >= r->from && at + bytes <= r->to)
        return (void *)(uintptr_t)at;
    if (r->launch->memory.find && r->launch->memory.find(r->launch->memory.of, at, &r->from, &r->to)) {
        if (at + bytes <= r->to)
            return (void *)(uintptr_t)at;
        ptx_fail(r, lane, "%s %u bytes at %#llx, %llu bytes before the end of its allocation of %llu",
                 write ? "writes" : "reads", bytes, (unsigned long long)at, (unsigned long long)(r->to - at),
                 (unsigned long long)(r->to - r->from));
    }
    r->from = r->to = 0;
    for (int i = 0; i < m->variable_count; i++)
        if (m->variables[i].data && at >= m->variables[i].at &&
            at + bytes <= m->variables[i].at + m->variables[i].bytes)
            return (void *)(uintptr_t)at;
    ptx_fail(r, lane, "%s %u bytes at %#llx, which is in no allocation", write ? "writes" : "reads", bytes,
             (unsigned long long)at);
}

static void *place_local(struct ptx_run *r, int lane, uint64_t at, unsigned bytes)
{
    if (at + bytes > r->local_bytes || at + bytes < at)
        ptx_fail(r, lane, "local memory at %llu: out of bounds, a thread has %zu bytes", (unsigned long long)at,
                 r->entry->local_bytes);
    return r->local + (size_t)(r->now->index * PTX_LANES + lane) * r->local_bytes + at;
}

static void *place_param(struct ptx_run *r, int lane, uint64_t at, unsigned bytes, bool write)
{
    if (write || at + bytes > r->entry->param_bytes || at + bytes < at)
        ptx_fail(r, lane, "parameters at %llu: they have %zu bytes, and are read only", (unsigned long long)at,
                 r->entry->param_bytes);
    return (unsigned char *)(uintptr_t)r->launch->params + at;
}

static enum ptx_space window(uint64_t *at)
{
    if (*at >= PTX_SHARED_WINDOW && *at < PTX_LOCAL_WINDOW) {
        *at -= PTX_SHARED_WINDOW;
        return PTX_SHARED;
    }
    if (*at >= PTX_LOCAL_WINDOW && *at < PTX_WINDOW_END) {
        *at -= PTX_LOCAL_WINDOW;
        return PTX_LOCAL;
    }
    return PTX_GLOBAL;
}

void *ptx_place(struct ptx_run *r, int lane, enum ptx_space *space, uint64_t at, unsigned bytes, bool write)
{
    if (*space == PTX_GENERIC)
        *space = window(&at);
    if (at % bytes)
        ptx_fail(r, lane, "misaligned: %u bytes at %#llx", bytes, (unsigned long long)at);
    switch (*space) {
    case PTX_SHARED:
        ptx_touch_shared(r, lane, at, bytes, write);
        return r->shared + at;
    case PTX_LOCAL: return place_local(r, lane, at, bytes);
    case PTX_PARAM: return place_param(r, lane, at, bytes, write);
    default: return place_global(r, lane, at, bytes, write);
    }
}

static uint64_t widened(uint64_t x, const struct ptx_type *t)
{
    const unsigned up = 64 - 8 * t->bytes;
    return t->kind == 's' ? (uint64_t)((int64_t)(x << up) >> up) : x;
}

/* The places of all active lanes. */
static void places(struct ptx_run *r, int source, void **p, bool write)
{
    const struct ptx_ins *i = r->ins;
    const unsigned bytes = (unsigned)i->bytes * i->many;
    uint64_t at[PTX_LANES];
    enum ptx_space space = i->space;
    ptx_addresses(r, source, i->offset, at);
    PTX_EACH_ACTIVE(r, l)
    {
        space = i->space;
        p[l] = ptx_place(r, l, &space, at[l], bytes, write);
    }
    if (r->launch->counts && r->active)
        ptx_count_access(r, space, at, bytes, write);
}

/* Element k of each lane's vector into its register. */
static void fetch(struct ptx_run *r, int k, void *const *p)
{
    const struct ptx_ins *i = r->ins;
    const unsigned size = ptx_operand_of(r, k)->size;
    void *to = ptx_lanes(r, k);
    if (i->bytes == 4 && size == 4)
        PTX_EACH_ACTIVE(r, l) ((uint32_t *)to)[l] = ((const uint32_t *)p[l])[k];
    else if (i->bytes == 8 && size == 8)
        PTX_EACH_ACTIVE(r, l) ((uint64_t *)to)[l] = ((const uint64_t *)p[l])[k];
    else if (i->bytes == 2 && size == 2)
        PTX_EACH_ACTIVE(r, l) ((uint16_t *)to)[l] = ((const uint16_t *)p[l])[k];
    else
        PTX_EACH_ACTIVE(r, l) ptx_set(to, size, l, widened(ptx_get(p[l], i->bytes, k), &i->from));
}

void ptx_load(struct ptx_run *r)
{
    void *p[PTX_LANES];
    places(r, 0, p, false);
    for (int k = 0; k < r->ins->many; k++)
        if (!ptx_operand_of(r, k)->sink)
            fetch(r, k, p);
}

void ptx_store(struct ptx_run *r)
{
    const struct ptx_ins *i = r->ins;
    void *p[PTX_LANES];
    places(r, 0, p, true);
    for (int k = 0; k < i->many; k++)
        PTX_EACH_ACTIVE(r, l) ptx_set(p[l], i->bytes, k, ptx_source(r, 1 + k, l));
}

/* --- ISA, "cp.async": a copy is there once its thread has waited for its group ------------------- */

static void add_copy(struct ptx_run *r, const struct ptx_copy *c)
{
    struct ptx_warp *w = r->now;
    if (w->copy_count % 256 == 0)
        w->copies = realloc(w->copies, sizeof(*w->copies) * ((size_t)w->copy_count + 256));
    if (!w->copies)
        abort();
    w->copies[w->copy_count++] = *c;
}

/* Global memory of those lanes that read any of it. */
static void count_copy(struct ptx_run *r, const uint64_t *from, const uint64_t *to, uint32_t reads)
{
    const uint32_t active = r->active;
    if (!r->launch->counts || !active)
        return;
    r->active = reads;
    ptx_count_access(r, PTX_GLOBAL, from, r->ins->bytes, false);
    r->active = active;
    ptx_count_access(r, PTX_SHARED, to, r->ins->bytes, true);
}

/* As late as it may be: the bytes are read and written when somebody waits for them. */
void ptx_copy_later(struct ptx_run *r)
{
    const struct ptx_ins *i = r->ins;
    uint64_t to[PTX_LANES], from[PTX_LANES];
    uint32_t reads = 0;
    ptx_addresses(r, 0, (int64_t)ptx_source(r, 2, 0), from);
    ptx_addresses(r, 1, i->offset, to);
    PTX_EACH_ACTIVE(r, l)
    {
        const uint64_t there = i->ns > 3 ? ptx_source(r, 3, l) : i->bytes;
        enum ptx_space space = PTX_GLOBAL;
        if (there > i->bytes)
            ptx_fail(r, l, "cp.async of %u bytes, of which %llu are there", i->bytes, (unsigned long long)there);
        if (to[l] % i->bytes || from[l] % i->bytes)
            ptx_fail(r, l, "misaligned: %u bytes from %#llx to %llu", i->bytes, (unsigned long long)from[l],
                     (unsigned long long)to[l]);
        if (there) { /* no more than those are read */
            ptx_place(r, l, &space, from[l], 1, false);
            ptx_place(r, l, &space, from[l] + there - 1, 1, false);
            reads |= 1u << l;
        }
        ptx_promise_shared(r, l, to[l], i->bytes);
        add_copy(r, &(struct ptx_copy){from[l], (uint32_t)to[l], i->bytes, (uint8_t)there, (uint8_t)l,
                                       r->now->groups});
    }
    count_copy(r, from, to, reads);
}

void ptx_copy_commit(struct ptx_run *r)
{
    ptx_need_all(r);
    r->now->groups++;
}

static void finish_copy(struct ptx_run *r, const struct ptx_copy *c)
{
    struct ptx_shadow *s = &r->shadow[c->to / PTX_WHOLE];
    memset(r->shared + c->to, 0, c->bytes);
    memcpy(r->shared + c->to, (const void *)(uintptr_t)c->from, c->there);
    for (unsigned k = 0; k < c->bytes / PTX_WHOLE; k++) {
        s[k].state = PTX_WRITTEN;
        s[k].write.epoch = r->epoch;
        s[k].write.syncs = r->now->syncs;
    }
}

/* wait_group N: all but the N groups committed last; wait_all: those that are not committed, too. */
void ptx_copy_wait(struct ptx_run *r)
{
    struct ptx_warp *w = r->now;
    int left = 0;
    ptx_need_all(r);
    for (int k = 0; k < w->copy_count; k++) {
        const struct ptx_copy c = w->copies[k];
        if (r->ins->which || c.group + r->ins->many < w->groups)
            finish_copy(r, &c);
        else
            w->copies[left++] = c;
    }
    w->copy_count = left;
}
