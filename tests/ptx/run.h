/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - a launch in progress, between the files of the interpreter */
#ifndef PTX_RUN_H
#define PTX_RUN_H

#include "tests/ptx/code.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

enum { PTX_WHOLE = 2 }; /* bytes of shared memory that share one record */

/* Lanes that go the same way: from pc to join. */
struct ptx_side {
    int      pc, join;
    uint32_t mask;
};

/* A copy by cp.async that nobody has waited for. */
struct ptx_copy {
    uint64_t from;
    uint32_t to;
    uint8_t  bytes, there, lane; /* there: the rest is zeros */
    uint32_t group;
};

struct ptx_warp {
    unsigned char  *file;
    int             index, depth;
    uint32_t        born, alive;
    struct ptx_side side[PTX_STACK];
    int             waits; /* instruction of the barrier at which it waits, -1: none */
    uint32_t        syncs; /* bar.warp.sync so far */
    struct ptx_copy *copies;
    int             copy_count;
    uint32_t        groups; /* committed */
};

/* Who touched these PTX_WHOLE bytes of shared memory: thread, epoch of the block, bar.warp.sync of its warp. */
struct ptx_touch {
    uint32_t epoch, syncs;
    uint16_t thread;
};

struct ptx_shadow {
    struct ptx_touch write, read;
    uint8_t          state; /* enum ptx_state */
    uint8_t          readers; /* 0; 1: `read`; 2: several of its warp; 3: of several warps */
};

enum ptx_state { PTX_NOWHERE, PTX_UNWRITTEN, PTX_PENDING, PTX_WRITTEN };

struct ptx_run {
    const struct ptx_launch *launch;
    const struct ptx_entry  *entry;
    char                    *why;
    jmp_buf                  out;
    unsigned                 block[3], threads, warps;
    struct ptx_warp          warp[PTX_WARPS];
    unsigned char           *files, *shared, *local;
    struct ptx_shadow       *shadow;
    size_t                   shared_bytes, local_bytes;
    uint32_t                 epoch; /* barriers so far */
    uint64_t                 from, to; /* the allocation that was found last */
    /* of the instruction in work */
    struct ptx_warp         *now;
    const struct ptx_ins    *ins;
    uint32_t                 active; /* lanes */
    uint32_t                 lanes[PTX_LANES] __attribute__((aligned(64))); /* ~0: active */
};

/* Ends the launch. lane: -1 for the warp. */
void ptx_fail(struct ptx_run *r, int lane, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));

static inline const struct ptx_operand *ptx_operand_of(const struct ptx_run *r, int i)
{
    return &r->entry->operands[r->ins->first + (uint32_t)i];
}

/* Operand i: results first, then sources. An array of 32 numbers. */
static inline void *ptx_lanes(const struct ptx_run *r, int i)
{
    const struct ptx_operand *o = ptx_operand_of(r, i);
    return (o->pool ? r->entry->pool : r->now->file) + o->at;
}

static inline uint64_t ptx_get(const void *array, unsigned size, int lane)
{
    uint64_t x = 0;
    memcpy(&x, (const unsigned char *)array + (size_t)lane * size, size);
    return x;
}

static inline void ptx_set(void *array, unsigned size, int lane, uint64_t x)
{
    memcpy((unsigned char *)array + (size_t)lane * size, &x, size);
}

/* The number of a source in one lane. */
static inline uint64_t ptx_source(const struct ptx_run *r, int i, int lane)
{
    return ptx_get(ptx_lanes(r, r->ins->nd + i), ptx_operand_of(r, r->ins->nd + i)->size, lane);
}

static inline void ptx_result(struct ptx_run *r, int i, int lane, uint64_t x)
{
    if (!ptx_operand_of(r, i)->sink)
        ptx_set(ptx_lanes(r, i), ptx_operand_of(r, i)->size, lane, x);
}

static inline int ptx_next_lane(uint32_t active, int after)
{
    const uint64_t rest = (active | 1ull << PTX_LANES) >> (after + 1);
    return after + 1 + __builtin_ctzll(rest);
}

#define PTX_EACH_ACTIVE(r, l) \
    for (int l = ptx_next_lane((r)->active, -1); l < PTX_LANES; l = ptx_next_lane((r)->active, l))

/* convert.c */
void ptx_convert(struct ptx_run *r);

/* memory.c: the bytes of an address in a space, after all checks; its space, if it was generic, in *space. */
void *ptx_place(struct ptx_run *r, int lane, enum ptx_space *space, uint64_t at, unsigned bytes, bool write);
void ptx_load(struct ptx_run *r);
void ptx_store(struct ptx_run *r);
void ptx_copy_later(struct ptx_run *r);
void ptx_copy_commit(struct ptx_run *r);
void ptx_copy_wait(struct ptx_run *r);
/* The address in each active lane. */
void ptx_addresses(const struct ptx_run *r, int source, int64_t offset, uint64_t *at);

/* shared.c: records an access to shared memory, and fails where it may not be. */
void ptx_touch_shared(struct ptx_run *r, int lane, uint64_t at, unsigned bytes, bool write);
void ptx_promise_shared(struct ptx_run *r, int lane, uint64_t at, unsigned bytes); /* cp.async */
void ptx_clear_shared(struct ptx_run *r);

/* mma.c */
void ptx_wmma_load(struct ptx_run *r);
void ptx_wmma_store(struct ptx_run *r);
void ptx_wmma_product(struct ptx_run *r);
void ptx_product(struct ptx_run *r);
void ptx_load_matrix(struct ptx_run *r);

/* warp.c: shuffles, votes, and what all lanes must do together. */
void ptx_shuffle(struct ptx_run *r);
void ptx_vote(struct ptx_run *r);
void ptx_warp_barrier(struct ptx_run *r);
void ptx_pack(struct ptx_run *r);
void ptx_unpack(struct ptx_run *r);
void ptx_need_all(struct ptx_run *r);

/* count.c */
void ptx_count(struct ptx_run *r);
void ptx_count_access(struct ptx_run *r, enum ptx_space space, const uint64_t *at, unsigned bytes, bool write);

#endif
