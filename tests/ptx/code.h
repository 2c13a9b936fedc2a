/* SPDX-License-Identifier: Apache-2.0 */
/* code.h - decoded PTX, between the files of the interpreter
 *
 * A register is an array of one number per lane, in the register file of its warp: 2, 4 or 8 bytes a number; a
 * predicate is 4 bytes, 0 or ~0.  An immediate is such an array in the pool of its kernel.
 */
#ifndef PTX_CODE_H
#define PTX_CODE_H

#include "tests/ptx/ptx.h"

enum { PTX_ALIGN = 64, PTX_STACK = 64, PTX_OPERANDS = 32, PTX_EXIT = 0x7fffffff };

/* What an instruction is, for the counts (count.c). */
enum ptx_class {
    PTX_MOVE, /* ptxas folds it into others */
    PTX_FP32, PTX_FP64, PTX_INT, PTX_CONVERT, PTX_SPECIAL, /* special: the unit of exp2, 1/x, sqrt */
    PTX_SHUFFLE, PTX_CONTROL, PTX_SYNC, PTX_TENSOR,
    PTX_MEM_GLOBAL, PTX_MEM_SHARED, PTX_MEM_LOCAL, PTX_MEM_PARAM,
    PTX_CLASSES
};

enum ptx_kind {
    PTX_ALU, PTX_LOAD, PTX_STORE, PTX_BRANCH, PTX_RETURN, PTX_BARRIER, PTX_WARP_BARRIER, PTX_SHFL, PTX_VOTE,
    PTX_PACK, PTX_UNPACK, PTX_CVT, PTX_WMMA_LOAD, PTX_WMMA_STORE, PTX_WMMA_MMA, PTX_MMA, PTX_LDMATRIX,
    PTX_CP_ASYNC, PTX_CP_COMMIT, PTX_CP_WAIT, PTX_TRAP, PTX_NOTHING
};

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_PARAM, PTX_CONST };

/* Generic addresses of shared and local memory: ISA, "Generic Addressing": windows; no host memory is there. */
#define PTX_SHARED_WINDOW ((uint64_t)0x10000)
#define PTX_LOCAL_WINDOW  ((uint64_t)0x100000)
#define PTX_WINDOW_END    ((uint64_t)0x200000)

/* d[lane] = f(s[0][lane], ...), for all 32 lanes; d may be one of s. */
typedef void ptx_alu(void *d, const void *const *s);

struct ptx_alu_row {
    const char    *name;
    ptx_alu       *run;
    const char    *sizes; /* "d:ss": p predicate, h 2 bytes, w 4, d 8 */
    unsigned char  group; /* enum ptx_class */
    unsigned char  flops; /* per lane */
    unsigned char  cost;  /* instructions of the machine, about */
};

/* The same functions, compiled for every x86-64 and for AVX2 with FMA; NULL ends a table. */
extern const struct ptx_alu_row ptx_alu_plain[], ptx_alu_avx2[];
const struct ptx_alu_row *ptx_alu_find(const char *name);

struct ptx_type {
    char     kind; /* 'u', 's', 'f', 'b' */
    unsigned bytes;
    bool     bf16;
};

struct ptx_operand {
    uint32_t at;   /* bytes into the register file or the pool */
    uint8_t  pool; /* 1: an immediate */
    uint8_t  size; /* bytes a lane */
    uint8_t  predicate, sink; /* sink: "_", nothing is written */
};

struct ptx_ins {
    enum ptx_kind  kind;
    enum ptx_class group;
    uint8_t        cost, flops;
    enum ptx_space space;
    int            line, guard, guard_not; /* guard: offset of a predicate in the register file, -1: none */
    int            nd, ns;                 /* operands: d first, then s */
    uint32_t       first;                  /* of them, in the entry's list */
    int            target, join;           /* of a branch: instructions; join: where its sides meet again */
    int64_t        offset;                 /* of an address */
    uint8_t        bytes, many;            /* of an element in memory; elements of a vector */
    struct ptx_type to, from;              /* of a conversion, and of what is in memory */
    char           mode, round, sat, ftz, layout_a, layout_b, which, trans; /* by kind */
    ptx_alu       *run;
};

/* A number that is the same in all lanes: an immediate, or the address of a variable. */
struct ptx_constant {
    uint64_t bits;
    uint32_t at;
    uint8_t  size;
};

enum ptx_special {
    PTX_TID, PTX_NTID = 3, PTX_CTAID = 6, PTX_NCTAID = 9, PTX_LANEID = 12, PTX_WARPID, PTX_SPECIALS
};

struct ptx_variable {
    char          *name;
    enum ptx_space space;
    size_t         bytes, align;
    uint64_t       at;     /* in its space; of a global one its address */
    unsigned char *data;   /* of a global or constant one */
    const char    *used; /* shared: laid out for the kernel of this name */
    bool           dynamic;
};

struct ptx_entry {
    struct ptx_module   *module;
    char                *name;
    struct ptx_ins      *code;
    int                  count;
    struct ptx_operand  *operands;
    uint32_t             operand_count;
    struct ptx_constant *constants;
    int                  constant_count;
    unsigned char       *pool;
    uint32_t             pool_bytes, file_bytes;
    int                  special[PTX_SPECIALS]; /* offset in the register file, -1: unused */
    struct ptx_variable *params;
    int                  param_count;
    size_t               param_bytes, shared_bytes, local_bytes, dynamic_at;
    size_t               fixed_bytes; /* of shared arrays, without the gaps between them */
    unsigned char       *valid; /* per byte below dynamic_at: 1 where a shared array is */
    unsigned             max_threads; /* .maxntid; 0: not said */
};

struct ptx_module {
    char                *name, *text;
    struct ptx_entry    *entries;
    int                  entry_count;
    struct ptx_variable *variables;
    int                  variable_count;
};

/* flow.c: where the sides of each branch meet again; instructions from `first` on cannot all be reached. */
void ptx_flow(struct ptx_entry *e);

/* parse.c: a shared array of the module that this kernel names gets its place in the memory of its blocks. */
void ptx_place_shared(struct ptx_entry *e, struct ptx_variable *v);

/* decode.c: one statement. */
struct ptx_parser;
void ptx_decode(struct ptx_parser *p);

#endif
