/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - arrays carved out of one block: the first pass measures, the second assigns */
#ifndef ENGINE_MODEL_ARENA_H
#define ENGINE_MODEL_ARENA_H

#include <stdbool.h>
#include <stddef.h>

enum { ARENA_ALIGN = 16 }; /* floats */

struct arena {
    float *base;   /* NULL while measuring */
    size_t used;   /* floats */
    size_t narrow; /* bytes per number of a narrow array (kernels.h) */
    bool   keeps;  /* see kernels.h */
};

static inline float *arena_cut(struct arena *k, size_t rows, size_t cols)
{
    float *p = k->base ? k->base + k->used : NULL;
    k->used += (rows * cols + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return p;
}

/* A narrow array. */
static inline void *arena_narrow(struct arena *k, size_t rows, size_t cols)
{
    return arena_cut(k, (rows * cols * k->narrow + sizeof(float) - 1) / sizeof(float), 1);
}

/* The narrow copy of an array. */
static inline void *arena_twin(struct arena *k, float *of, size_t rows, size_t cols)
{
    return k->narrow == sizeof(float) ? of : arena_narrow(k, rows, cols);
}

#endif
