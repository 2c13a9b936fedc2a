/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - the operands of an instruction: their text, then registers, immediates and addresses of variables
 *
 * ISA, "Instruction Operands".
 */
#include "tests/ptx/form.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the text ------------------------------------------------------------------------------- */

/* ISA, "Constants": integers, 0f and 0d with the bits of a number; the latter are not negated or converted here. */
static void literal(struct ptx_parser *p, struct element *x, bool minus)
{
    char *end;
    const char *t = p->token;
    x->kind = LITERAL;
    x->real = t[0] == '0' && t[1] && strchr("fFdD", t[1]);
    x->bits = x->real ? strtoull(t + 2, &end, 16) : strtoull(t, &end, 0);
    if (*end == 'U' && !x->real)
        end++;
    if (*end || (x->real && (minus || strlen(t) != (strchr("fF", t[1]) ? 10 : 18))))
        ptx_refuse(p, "'%s' where a number was expected", t);
    x->size = x->real ? (strchr("fF", t[1]) ? 4 : 8) : 0;
    if (minus)
        x->bits = (uint64_t)-(int64_t)x->bits;
    ptx_next(p);
}

static const struct ptx_range *range_of(struct ptx_parser *p, const char *name, int *index)
{
    const size_t n = strcspn(name, "0123456789");
    for (int i = p->range_count - 1; i >= 0; i--) {
        const struct ptx_range *r = &p->ranges[i];
        *index = 0;
        if (!r->count && strcmp(r->name, name) == 0)
            return r;
        *index = atoi(name + n);
        if (r->count && name[n] && strlen(r->name) == n && strncmp(r->name, name, n) == 0 && *index < r->count)
            return r;
    }
    return NULL;
}

/* A register need not begin with %. */
static bool is_register(struct ptx_parser *p)
{
    int index;
    return p->token[0] == '%' || ptx_is(p, "_") || range_of(p, p->token, &index);
}

void form_element(struct ptx_parser *p, struct element *x)
{
    const bool minus = ptx_is(p, "-");
    memset(x, 0, sizeof(*x));
    x->not= ptx_is(p, "!");
    if (minus || x->not)
        ptx_next(p);
    if (isdigit((unsigned char)p->token[0])) {
        literal(p, x, minus);
        return;
    }
    if (minus || !(isalpha((unsigned char)p->token[0]) || strchr("%_$", p->token[0])) || !p->token[0])
        ptx_refuse(p, "'%s' where an operand was expected", p->token);
    x->kind = is_register(p) ? REGISTER : SYMBOL;
    strcpy(x->name, p->token);
    ptx_next(p);
}

static void vector(struct ptx_parser *p, struct arg *a)
{
    a->kind = VECTOR;
    ptx_next(p);
    for (;;) {
        if (a->many == ELEMENTS)
            ptx_refuse(p, "more than %d elements in braces", ELEMENTS);
        form_element(p, &a->at[a->many++]);
        if (ptx_is(p, "}"))
            break;
        ptx_want(p, ",");
    }
    ptx_next(p);
}

/* [base], [base+N], [N]: ISA, "Addresses as Operands" */
static void address(struct ptx_parser *p, struct arg *a)
{
    a->kind = ADDRESS;
    a->many = 1;
    ptx_next(p);
    form_element(p, &a->at[0]);
    if (ptx_is(p, "+") || ptx_is(p, "-")) {
        struct element off;
        if (ptx_is(p, "+"))
            ptx_next(p);
        form_element(p, &off);
        if (off.kind != LITERAL)
            ptx_refuse(p, "an offset that is no number");
        a->offset = (int64_t)off.bits;
    }
    ptx_want(p, "]");
}

static void argument(struct ptx_parser *p, struct arg *a)
{
    memset(a, 0, sizeof(*a));
    if (ptx_is(p, "{")) {
        vector(p, a);
        return;
    }
    if (ptx_is(p, "[")) {
        address(p, a);
        return;
    }
    form_element(p, &a->at[0]);
    a->kind = a->at[0].kind;
    a->many = 1;
    if (!ptx_is(p, "|"))
        return;
    ptx_next(p);
    a->pair = true;
    form_element(p, &a->at[1]);
}

void form_arguments(struct form *f)
{
    while (!ptx_is(f->p, ";")) {
        if (f->args == ARGS || !f->p->token[0])
            ptx_refuse(f->p, "%s: no ';' after %d operands", f->name, f->args);
        argument(f->p, &f->arg[f->args++]);
        if (ptx_is(f->p, ","))
            ptx_next(f->p);
    }
}

void form_split(struct form *f)
{
    char *rest = f->split;
    strcpy(f->split, f->name);
    while ((f->part[f->parts] = strsep(&rest, ".")) != NULL)
        if (++f->parts == PARTS)
            ptx_refuse(f->p, "%s: too many parts", f->name);
}

void form_unknown(struct form *f)
{
    ptx_refuse(f->p, "%s with %d operands is a form that this interpreter does not know", f->name, f->args);
}

bool form_has(const struct form *f, const char *part)
{
    for (int i = 1; i < f->parts; i++)
        if (strcmp(f->part[i], part) == 0)
            return true;
    return false;
}

/* --- operands ------------------------------------------------------------------------------- */

/* ISA, "Special Registers" */
static int special_of(const char *name)
{
    static const char *const sets[] = {"%tid.", "%ntid.", "%ctaid.", "%nctaid."};
    for (int i = 0; i < 4; i++) {
        const size_t n = strlen(sets[i]);
        if (strncmp(name, sets[i], n) == 0 && name[n] >= 'x' && name[n] <= 'z' && !name[n + 1])
            return 3 * i + name[n] - 'x';
    }
    return strcmp(name, "%laneid") == 0 ? PTX_LANEID : strcmp(name, "%warpid") == 0 ? PTX_WARPID : -1;
}

static struct ptx_operand register_named(struct ptx_parser *p, const char *name)
{
    int index = 0;
    struct ptx_entry *e = p->entry;
    const struct ptx_range *r = range_of(p, name, &index);
    const int special = special_of(name);
    if (r) {
        const uint32_t each = (r->size * PTX_LANES + PTX_ALIGN - 1) / PTX_ALIGN * PTX_ALIGN;
        return (struct ptx_operand){.at = r->at + each * (uint32_t)index, .size = r->size, .predicate = r->predicate};
    }
    if (special < 0)
        ptx_refuse(p, "no register %s", name);
    if (e->special[special] < 0) {
        e->special[special] = (int)e->file_bytes;
        e->file_bytes += 4 * PTX_LANES;
    }
    return (struct ptx_operand){.at = (uint32_t)e->special[special], .size = 4};
}

struct ptx_operand form_constant(struct ptx_parser *p, uint64_t bits, unsigned size, bool dynamic)
{
    struct ptx_entry *e = p->entry;
    const uint8_t stored = (uint8_t)(size | (dynamic ? 0x80 : 0));
    int i = 0;
    while (i < e->constant_count && (e->constants[i].bits != bits || e->constants[i].size != stored))
        i++;
    if (i == e->constant_count) {
        e->constants = ptx_grow(e->constants, i, sizeof(*e->constants));
        e->constants[e->constant_count++] = (struct ptx_constant){bits, e->pool_bytes, stored};
        e->pool_bytes += (size * PTX_LANES + PTX_ALIGN - 1) / PTX_ALIGN * PTX_ALIGN;
    }
    return (struct ptx_operand){.at = e->constants[i].at, .pool = 1, .size = (uint8_t)size};
}

static const struct ptx_variable *param_named(const struct ptx_entry *e, const char *name)
{
    for (int i = 0; i < e->param_count; i++)
        if (strcmp(e->params[i].name, name) == 0)
            return &e->params[i];
    return NULL;
}

/* The address of a variable in its own space, which is what mov gives: ISA, "mov". */
struct ptx_operand form_symbol(struct ptx_parser *p, const char *name, unsigned size, enum ptx_space *space)
{
    const struct ptx_variable *v = param_named(p->entry, name);
    for (int i = p->module->variable_count - 1; !v && i >= 0; i--) {
        struct ptx_variable *one = &p->module->variables[i];
        const bool mine = one->space != PTX_LOCAL || one->used == p->entry->name;
        if (!mine || strcmp(one->name, name) != 0)
            continue;
        if (one->space == PTX_SHARED)
            ptx_place_shared(p->entry, one);
        v = one;
    }
    if (!v)
        ptx_refuse(p, "no variable %s", name);
    *space = v->space;
    return form_constant(p, v->at, size, v->dynamic);
}

struct ptx_operand form_operand(struct form *f, const struct element *x, unsigned size)
{
    enum ptx_space space;
    if (x->kind == REGISTER && strcmp(x->name, "_") == 0)
        return (struct ptx_operand){.sink = 1, .size = (uint8_t)size};
    if (x->kind == REGISTER) {
        const struct ptx_operand o = register_named(f->p, x->name);
        if (size && o.size != size)
            ptx_refuse(f->p, "%s: %s has %d bytes, %u are needed", f->name, x->name, o.size, size);
        return o;
    }
    if (x->kind == SYMBOL)
        return form_symbol(f->p, x->name, size ? size : 8, &space);
    if (x->real && size != x->size)
        ptx_refuse(f->p, "%s: a constant of %u bytes, %u are needed", f->name, x->size, size);
    return form_constant(f->p, x->bits & (size >= 8 ? ~0ull : (1ull << 8 * size) - 1), size, false);
}

void form_add(struct form *f, struct ptx_operand o, bool written)
{
    struct ptx_entry *e = f->p->entry;
    if (written && o.pool)
        ptx_refuse(f->p, "%s: the result is no register", f->name);
    e->operands = ptx_grow(e->operands, (int)e->operand_count, sizeof(*e->operands));
    e->operands[e->operand_count++] = o;
    f->ins->nd += written;
    f->ins->ns += !written;
}

/* All elements of an argument. */
void form_add_all(struct form *f, int i, unsigned size, bool written)
{
    if (i >= f->args || f->arg[i].pair)
        form_unknown(f);
    for (int k = 0; k < f->arg[i].many; k++)
        form_add(f, form_operand(f, &f->arg[i].at[k], size), written);
}

void form_add_one(struct form *f, int i, unsigned size, bool written)
{
    if (i >= f->args || f->arg[i].many != 1 || f->arg[i].pair || f->arg[i].kind == VECTOR)
        form_unknown(f);
    form_add_all(f, i, size, written);
}
