/* SPDX-License-Identifier: Apache-2.0 */
/* isa_table.h - how the CPU kernels of one instruction set fill a table
 *
 * Each *_ref.c but ops_ref.c is compiled once per instruction set with another
 * KERN_SUFFIX, holds only static functions, and exports one fill function that
 * writes its rows: kern_fill_norm_avx2() and so on.
 */
#ifndef KERNELS_ISA_TABLE_H
#define KERNELS_ISA_TABLE_H

struct kern_ops;

#define KERN_JOIN2(name, suffix) kern_fill_##name##_##suffix
#define KERN_JOIN(name, suffix)  KERN_JOIN2(name, suffix)
#ifdef KERN_SUFFIX
#define KERN_FILL(name) KERN_JOIN(name, KERN_SUFFIX)
#else
#define KERN_FILL(name) KERN_JOIN(name, base)
#endif

#define KERN_DECLARE(suffix)                           \
    void KERN_JOIN(memory, suffix)(struct kern_ops *);    \
    void KERN_JOIN(matmul, suffix)(struct kern_ops *);    \
    void KERN_JOIN(bf16, suffix)(struct kern_ops *);      \
    void KERN_JOIN(patch, suffix)(struct kern_ops *);     \
    void KERN_JOIN(pointwise, suffix)(struct kern_ops *); \
    void KERN_JOIN(norm, suffix)(struct kern_ops *);      \
    void KERN_JOIN(rmsmod, suffix)(struct kern_ops *);    \
    void KERN_JOIN(rope, suffix)(struct kern_ops *);      \
    void KERN_JOIN(linattn, suffix)(struct kern_ops *);   \
    void KERN_JOIN(crossattn, suffix)(struct kern_ops *); \
    void KERN_JOIN(attend, suffix)(struct kern_ops *);    \
    void KERN_JOIN(causal, suffix)(struct kern_ops *);    \
    void KERN_JOIN(conv, suffix)(struct kern_ops *);      \
    void KERN_JOIN(conv2d, suffix)(struct kern_ops *);    \
    void KERN_JOIN(picture, suffix)(struct kern_ops *);   \
    void KERN_JOIN(loss, suffix)(struct kern_ops *);      \
    void KERN_JOIN(reduce, suffix)(struct kern_ops *);    \
    void KERN_JOIN(adamw, suffix)(struct kern_ops *);     \
    void KERN_JOIN(came, suffix)(struct kern_ops *);      \
    void KERN_JOIN(fixed, suffix)(struct kern_ops *);     \
    void KERN_JOIN(digest, suffix)(struct kern_ops *);    \
    void KERN_JOIN(fused, suffix)(struct kern_ops *);

KERN_DECLARE(base)
KERN_DECLARE(avx2)
KERN_DECLARE(avx512)

#endif
