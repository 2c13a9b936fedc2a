/* SPDX-License-Identifier: Apache-2.0 */
/* ops_ref.c - the tables of CPU functions, and the choice for this processor */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/processor.h"
#include "kernels/rng.h"

#define FILL(ops, suffix)               \
    do {                                \
        KERN_JOIN(memory, suffix)(ops);    \
        KERN_JOIN(matmul, suffix)(ops);    \
        KERN_JOIN(bf16, suffix)(ops);      \
        KERN_JOIN(patch, suffix)(ops);     \
        KERN_JOIN(pointwise, suffix)(ops); \
        KERN_JOIN(norm, suffix)(ops);      \
        KERN_JOIN(rmsmod, suffix)(ops);    \
        KERN_JOIN(rope, suffix)(ops);      \
        KERN_JOIN(linattn, suffix)(ops);   \
        KERN_JOIN(crossattn, suffix)(ops); \
        KERN_JOIN(attend, suffix)(ops);    \
        KERN_JOIN(causal, suffix)(ops);    \
        KERN_JOIN(conv, suffix)(ops);      \
        KERN_JOIN(conv2d, suffix)(ops);    \
        KERN_JOIN(picture, suffix)(ops);   \
        KERN_JOIN(loss, suffix)(ops);      \
        KERN_JOIN(reduce, suffix)(ops);    \
        KERN_JOIN(adamw, suffix)(ops);     \
        KERN_JOIN(came, suffix)(ops);      \
        KERN_JOIN(fixed, suffix)(ops);     \
        KERN_JOIN(digest, suffix)(ops);    \
        KERN_JOIN(fused, suffix)(ops);     \
        (ops)->draw_normal = rng_normals;  \
    } while (0)

static struct kern_ops tables[KERN_ISAS];
static const struct kern_ops *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The main program refuses an impossible choice; a library must have some table. */
static void choose(void)
{
    char why[PROCESSOR_WHY];
    int isa = processor_choose(getenv("JOBCTL_CPU"), why);
    if (isa < 0)
        isa = processor_choose(NULL, why);
    chosen = &tables[isa];
}

/* A fill function, like its whole file, is compiled for its instruction set: call it only where
 * that set runs. */
static void fill_tables(void)
{
    tables[KERN_BASE].name = "cpu";
    FILL(&tables[KERN_BASE], base);
#ifdef KERN_X86
    tables[KERN_AVX2].name = "cpu-avx2";
    if (!processor_lacks(KERN_AVX2))
        FILL(&tables[KERN_AVX2], avx2);
    tables[KERN_AVX512].name = "cpu-avx512";
    if (!processor_lacks(KERN_AVX512))
        FILL(&tables[KERN_AVX512], avx512);
#endif
    choose();
}

const struct kern_ops *kern_cpu_isa(enum kern_isa isa)
{
    pthread_once(&once, fill_tables);
    return isa < KERN_ISAS && !processor_lacks(isa) ? &tables[isa] : NULL;
}

const struct kern_ops *kern_cpu(void)
{
    pthread_once(&once, fill_tables);
    return chosen;
}
