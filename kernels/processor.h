/* SPDX-License-Identifier: Apache-2.0 */
/* processor.h - instruction sets that this processor runs, and the choice of the CPU kernel table
 *
 * The kernels are built once per instruction set (enum kern_isa).  Each set is a row of extensions
 * that the compiler may use; the set runs here if the processor has every extension and the
 * operating system saves their registers (Intel SDM volume 1, 14.3 and 15.2).  All code outside the
 * kernel tables is compiled for the baseline of x86-64.
 *
 * $JOBCTL_CPU = base, avx2 or avx512 selects that table instead of the widest one that runs.
 */
#ifndef KERNELS_PROCESSOR_H
#define KERNELS_PROCESSOR_H

#include <stddef.h>

#include "kernels/kernels.h"

enum { PROCESSOR_WHY = 256 };

/* The model name that the processor reports, or the name of its architecture. */
const char *processor_model(void);

/* The first extension that `isa` needs and this processor lacks; NULL: `isa` runs here. */
const char *processor_lacks(enum kern_isa isa);

/* The table for `wish`; NULL or "" asks for the widest that runs here. Returns an enum kern_isa, or
 * -1 with a sentence in `why`: unknown name, or the set does not run here. */
int processor_choose(const char *wish, char why[PROCESSOR_WHY]);

#endif
