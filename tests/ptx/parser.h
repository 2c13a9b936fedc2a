/* SPDX-License-Identifier: Apache-2.0 */
/* parser.h - the state of the parser, between parse.c and decode.c */
#ifndef PTX_PARSER_H
#define PTX_PARSER_H

#include "tests/ptx/code.h"

#include <setjmp.h>

enum { PTX_TOKEN = 512, PTX_REGISTERS = 256 };

/* `.reg .b32 %r<41>;` is one range; of `.reg .b32 %tmp;` count is 0. */
struct ptx_range {
    char     name[64];
    int      count, depth;
    uint8_t  size;
    bool     predicate;
    uint32_t at;
};

struct ptx_label {
    char *name;
    int   at;
};

/* A branch whose label was not there yet. */
struct ptx_fixup {
    char *name;
    int   ins, line;
};

struct ptx_parser {
    struct ptx_module *module;
    struct ptx_entry  *entry;
    const char        *at;
    int                line, scan, depth; /* line: of the token */
    char               token[PTX_TOKEN]; /* "": the end */
    char              *why;
    jmp_buf            out;
    struct ptx_range   ranges[PTX_REGISTERS];
    int                range_count;
    struct ptx_label  *labels;
    int                label_count;
    struct ptx_fixup  *fixups;
    int                fixup_count;
    void              *form; /* of the statement in work (decode.c) */
};

/* Does not return. */
void ptx_refuse(struct ptx_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
void ptx_next(struct ptx_parser *p);
bool ptx_is(const struct ptx_parser *p, const char *token);
void ptx_want(struct ptx_parser *p, const char *token); /* and go past it */
/* One more element of an array that grows; zeroed. */
void *ptx_grow(void *array, int count, size_t size);

#endif
