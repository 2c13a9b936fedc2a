/* SPDX-License-Identifier: Apache-2.0 */
/* digest_ref.c - XXH3 in the widest vectors of the instruction set; all widths agree */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"

static uint64_t digest(const void *bytes, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, n, seed);
}

void KERN_FILL(digest)(struct kern_ops *ops)
{
    ops->digest = digest;
}
