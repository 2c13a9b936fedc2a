/* SPDX-License-Identifier: Apache-2.0 */
/* ops_ref.c - the tables of CPU functions, and which one this processor gets */
#include <cblas.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/table.h"

#define FILL(ops, suffix)               \
    do {                                \
        KERN_JOIN(memory, suffix)(ops);    \
        KERN_JOIN(matmul, suffix)(ops);    \
        KERN_JOIN(patch, suffix)(ops);     \
        KERN_JOIN(pointwise, suffix)(ops); \
        KERN_JOIN(norm, suffix)(ops);      \
        KERN_JOIN(rmsmod, suffix)(ops);    \
        KERN_JOIN(heads, suffix)(ops);     \
        KERN_JOIN(linattn, suffix)(ops);   \
        KERN_JOIN(crossattn, suffix)(ops); \
        KERN_JOIN(attend, suffix)(ops);    \
        KERN_JOIN(conv, suffix)(ops);      \
        KERN_JOIN(loss, suffix)(ops);      \
        KERN_JOIN(reduce, suffix)(ops);    \
        KERN_JOIN(adamw, suffix)(ops);     \
        KERN_JOIN(came, suffix)(ops);      \
        KERN_JOIN(fixed, suffix)(ops);     \
        KERN_JOIN(digest, suffix)(ops);    \
        KERN_JOIN(fused, suffix)(ops);     \
    } while (0)

static struct kern_ops tables[KERN_ISAS];
static int usable[KERN_ISAS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* BLAS works inside our own threads, so its own pool would only fight them. */
static void fill_tables(void)
{
    openblas_set_num_threads(1);
    tables[KERN_BASE].name = "cpu";
    FILL(&tables[KERN_BASE], base);
    usable[KERN_BASE] = 1;
#ifdef KERN_X86
    __builtin_cpu_init();
    tables[KERN_AVX2].name = "cpu-avx2";
    FILL(&tables[KERN_AVX2], avx2);
    usable[KERN_AVX2] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("bmi2");
    tables[KERN_AVX512].name = "cpu-avx512";
    FILL(&tables[KERN_AVX512], avx512);
    usable[KERN_AVX512] = usable[KERN_AVX2] && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
#endif
}

const struct kern_ops *kern_cpu_isa(enum kern_isa isa)
{
    pthread_once(&once, fill_tables);
    return isa < KERN_ISAS && usable[isa] ? &tables[isa] : NULL;
}

const struct kern_ops *kern_cpu(void)
{
    const struct kern_ops *ops = NULL;
    for (int isa = KERN_ISAS - 1; !ops; isa--)
        ops = kern_cpu_isa((enum kern_isa)isa);
    return ops;
}
