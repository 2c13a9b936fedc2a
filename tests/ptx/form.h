/* SPDX-License-Identifier: Apache-2.0 */
/* form.h - an instruction as written, shared by operands.c and decode.c */
#ifndef PTX_FORM_H
#define PTX_FORM_H

#include "tests/ptx/parser.h"

enum { ARGS = 12, ELEMENTS = 8, PARTS = 16 };

enum arg_kind { REGISTER, LITERAL, SYMBOL, VECTOR, ADDRESS };

struct element {
    enum arg_kind kind;
    bool          not, real; /* !%p; a literal of 0f or 0d */
    unsigned      size;      /* of the latter: 4 or 8 bytes */
    char          name[PTX_TOKEN];
    uint64_t      bits;
};

struct arg {
    enum arg_kind  kind;
    int            many; /* of a vector; of %p|%q 2 */
    bool           pair; /* %r|%p */
    struct element at[ELEMENTS];
    int64_t        offset;
};

struct form {
    struct ptx_parser *p;
    struct ptx_ins    *ins;
    char               name[PTX_TOKEN], split[PTX_TOKEN];
    char              *part[PARTS];
    int                parts, args;
    struct arg         arg[ARGS];
};

/* operands.c: the parts of the name; the text up to ';'. */
void form_split(struct form *f);
void form_arguments(struct form *f);
void form_element(struct ptx_parser *p, struct element *x);

/* That form is not known: does not return. */
void form_unknown(struct form *f);
bool form_has(const struct form *f, const char *part);

/* As the interpreter has it. size: bytes that are needed, 0: any. */
struct ptx_operand form_constant(struct ptx_parser *p, uint64_t bits, unsigned size, bool dynamic);
struct ptx_operand form_symbol(struct ptx_parser *p, const char *name, unsigned size, enum ptx_space *space);
struct ptx_operand form_operand(struct form *f, const struct element *x, unsigned size);

/* One more of the instruction; all elements of argument i; its only one. */
void form_add(struct form *f, struct ptx_operand o, bool written);
void form_add_all(struct form *f, int i, unsigned size, bool written);
void form_add_one(struct form *f, int i, unsigned size, bool written);

#endif
