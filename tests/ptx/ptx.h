/* SPDX-License-Identifier: Apache-2.0 */
/* ptx.h - an interpreter of PTX, NVIDIA's virtual instruction set: kernels as nvcc compiled them, on the CPU
 *
 * A module is parsed and decoded once.  A launch runs its blocks one after another; the warps of a block take
 * turns at barriers, and the 32 lanes of a warp run in lock-step.  A form of an instruction that is not known is
 * an error with its line; so is an access out of bounds, a misaligned one, shared memory that is read before it
 * is written, two accesses to it that nothing orders, and a barrier that not all threads come to.
 *
 * Semantics are those of NVIDIA's "PTX ISA"; each group of instructions names the section.  What the ISA leaves
 * open is named where it is decided.
 */
#ifndef PTX_H
#define PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PTX_WHY = 1024, PTX_LANES = 32, PTX_WARPS = 32 };

struct ptx_module;
struct ptx_entry;

/* `name` stands for the file in messages. NULL: `why` has "NAME:LINE: ...". */
struct ptx_module *ptx_parse(const char *name, const char *text, char why[PTX_WHY]);
void ptx_free(struct ptx_module *m);
const struct ptx_entry *ptx_find(const struct ptx_module *m, const char *name);

const char *ptx_name(const struct ptx_entry *e);
/* Bytes of all parameters; where parameter i lies and how large it is (false: there is none). */
size_t ptx_params(const struct ptx_entry *e);
bool ptx_param(const struct ptx_entry *e, int i, size_t *at, size_t *bytes);
/* Bytes of the fixed shared arrays. */
size_t ptx_shared(const struct ptx_entry *e);

/* Global memory is memory of this process; `find` says which allocation [*from, *to) an address lies in. */
struct ptx_memory {
    bool (*find)(void *of, uint64_t at, uint64_t *from, uint64_t *to);
    void *of;
};

struct ptx_counts;

struct ptx_launch {
    const struct ptx_entry *entry;
    unsigned                grid[3], block[3];
    size_t                  shared; /* dynamic shared memory, bytes */
    const void             *params; /* ptx_params() bytes */
    struct ptx_memory       memory;
    struct ptx_counts      *counts; /* may be NULL; count.h */
    unsigned long           sample; /* run that many blocks at most, evenly spread; 0: all */
};

/* False: `why` has the file, line, instruction, block and thread. */
bool ptx_run(const struct ptx_launch *l, char why[PTX_WHY]);

#ifdef __cplusplus
}
#endif
#endif
