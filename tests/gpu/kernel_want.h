/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_want.h - how kernel_cases.h describes a comparison: its arrays, its call, its sizes */
#ifndef TESTS_GPU_KERNEL_WANT_H
#define TESTS_GPU_KERNEL_WANT_H

#include <stddef.h>

#include "kernels/kernels.h"

enum { ARRAYS = 16, DIMS = 10, SIZES = 14 };
enum {
    NARROW = 1,  /* kernels.h: fp32 or bf16 */
    LOOSE = 2,   /* comes from a number that a kernel rounded in between */
    ABOVE = 4,   /* 0.5 to 1.5 */
    RELU = 8,    /* half of it zero, none below */
    MASK = 16,   /* 1 or 0, the first of 64 always 1 */
    DOUBLES = 32,
    TIMES = 64,  /* 0 to 999 */
    OWN = 128,   /* each table's own affair: not compared */
    FIRST = 256, /* where captions begin (kern_text): integers */
    BITS = 512,  /* the same to the last bit */
    HALVES = 1024,  /* bf16 on both sides, whatever is narrow */
    ROUNDED = 2048, /* fp32 that a kernel may round to what is narrow */
    LARGE = 4096,   /* -12 to 12 */
    SMALL = 8192,   /* -0.0001 to 0.0001 */
    FAR = 16384,    /* 29 to 31: a mean far above the deviation */
    STEEP = 32768,  /* exponentials of scores far from 0: the rounding of a score, times its size, is theirs */
    MOST = 65536    /* times the tokens that a caption has at most. FIRST: see fill_first(); MASK: see fill_mask() */
};

struct want {
    const char *what;
    size_t      n; /* floats; 0: the array is NULL */
    int         flags;
};

struct test {
    const char *name;
    void (*arrays)(struct want *w, const int *z);
    void (*run)(const struct kern_ops *k, float *const *a, const int *z);
    int sizes[SIZES][DIMS]; /* until a row of zeros */
    int large[DIMS];        /* Sana-1600M, 8 samples of 1024 tokens */
};

#endif
