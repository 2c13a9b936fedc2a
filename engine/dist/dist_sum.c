/* SPDX-License-Identifier: Apache-2.0 */
/* dist_sum.c - combine two buffers into one, element by element
 *
 * Plain loops, sixteen elements at a time so that the compiler vectorizes them.
 */
#include "engine/dist/dist_internal.h"

enum { STEP = 16 };

#define COMBINE(name, type, expr)                                              \
    static void name(type *dst, const type *a, const type *b, size_t n)        \
    {                                                                          \
        size_t i = 0;                                                          \
        for (; i + STEP <= n; i += STEP) {                                     \
            type r[STEP];                                                      \
            for (int k = 0; k < STEP; k++) {                                   \
                type x = a[i + (size_t)k], y = b[i + (size_t)k];               \
                r[k] = (expr);                                                 \
            }                                                                  \
            __builtin_memcpy(dst + i, r, sizeof(r));                           \
        }                                                                      \
        for (; i < n; i++) {                                                   \
            type x = a[i], y = b[i];                                           \
            dst[i] = (expr);                                                   \
        }                                                                      \
    }

/* NaN counts as the largest, so that a maximum reports it. */
COMBINE(sum_f32, float, x + y)
COMBINE(sum_f64, double, x + y)
COMBINE(sum_i64, int64_t, (int64_t)((uint64_t)x + (uint64_t)y))
COMBINE(max_f32, float, x != x || x > y ? x : y)
COMBINE(max_f64, double, x != x || x > y ? x : y)
COMBINE(max_i64, int64_t, x > y ? x : y)

/* dst[n] = a op b; dst may be a or b. */
static void combine(void *dst, const void *a, const void *b, size_t n, enum dist_type type, enum dist_op op)
{
    switch (type) {
    case DIST_F32:
        (op == DIST_SUM ? sum_f32 : max_f32)(dst, a, b, n);
        return;
    case DIST_F64:
        (op == DIST_SUM ? sum_f64 : max_f64)(dst, a, b, n);
        return;
    case DIST_I64:
        (op == DIST_SUM ? sum_i64 : max_i64)(dst, a, b, n);
        return;
    case DIST_U8:
    case DIST_TYPES:
        return;
    }
}

/* In blocks that stay in the L1 cache. */
void dist_fold(char *dst, const char *const *x, int many, size_t n, enum dist_type type, enum dist_op op)
{
    enum { BLOCK = 8192 };
    char acc[BLOCK] __attribute__((aligned(64)));
    size_t size = dist_size(type), block = BLOCK / size;
    for (size_t at = 0; at < n; at += block) {
        size_t k = n - at < block ? n - at : block;
        const char *sum = x[0] + at * size;
        for (int i = 1; i < many; i++) {
            char *into = i == many - 1 ? dst + at * size : acc; /* all have been read by then */
            combine(into, sum, x[i] + at * size, k, type, op);
            sum = into;
        }
    }
}
