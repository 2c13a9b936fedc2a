/* SPDX-License-Identifier: Apache-2.0 */
/* processor.h - what this processor can run, and which of the CPU's kernel tables is taken for it
 *
 * The kernels exist once per instruction set (enum kern_isa).  Each set is a row of extensions that the
 * compiler was allowed to use for it; it runs here if the processor has every one of them and the
 * operating system saves their registers (Intel SDM volume 1, 14.3 and 15.2).  Nothing outside of a
 * table's own kernels is compiled for more than the baseline of x86-64.
 *
 * $JOBCTL_CPU = base, avx2 or avx512 takes that table instead of the widest one that runs.  OpenBLAS
 * makes a choice of its own in the same way ($OPENBLAS_CORETYPE).
 */
#ifndef KERNELS_PROCESSOR_H
#define KERNELS_PROCESSOR_H

#include <stddef.h>

#include "kernels/kernels.h"

enum { PROCESSOR_WHY = 256 };

/* The name that the processor gives itself, or that of its architecture. */
const char *processor_model(void);

/* "base", "avx2", "avx512" */
const char *processor_isa_name(enum kern_isa isa);

/* The first extension that `isa` needs and that is not here; NULL: it runs here. */
const char *processor_lacks(enum kern_isa isa);

/* The table for `wish`, which is NULL or "" for the widest that runs here: an enum kern_isa. -1 with a
 * sentence in `why`: there is none of that name, or it does not run here. */
int processor_choose(const char *wish, char why[PROCESSOR_WHY]);

#endif
