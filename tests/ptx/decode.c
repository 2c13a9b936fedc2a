/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - an instruction of the text as a struct ptx_ins
 *
 * What an instruction computes is in alu.c, convert.c, memory.c, warp.c and mma.c; here are its form, the sizes of
 * its operands, and where it is refused.
 */
#include "tests/ptx/form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- arithmetic ----------------------------------------------------------------------------- */

static unsigned size_of(char c)
{
    return c == 'h' ? 2 : c == 'd' ? 8 : 4;
}

static void check_predicate(struct form *f, int i, char size)
{
    const struct ptx_entry *e = f->p->entry;
    const struct ptx_operand *o = &e->operands[e->operand_count - 1];
    if (!o->pool && !o->sink && o->predicate != (size == 'p'))
        ptx_refuse(f->p, "%s: operand %d is %s predicate", f->name, i + 1, o->predicate ? "a" : "no");
}

/* ISA, "Operand Size Exceeding Instruction-Type Size": of ld, st and cvt a register may be wider, not narrower. */
static void check_room(struct form *f, unsigned bytes)
{
    const struct ptx_entry *e = f->p->entry;
    const struct ptx_operand *o = &e->operands[e->operand_count - 1];
    if (!o->sink && (o->size < bytes || o->predicate))
        ptx_refuse(f->p, "%s: a register of %d bytes, at least %u are needed", f->name, o->size, bytes);
}

static void arithmetic(struct form *f, const struct ptx_alu_row *row)
{
    const int n = (int)strlen(row->sizes) - 1;
    if (f->args != n)
        form_unknown(f);
    for (int i = 0; i < n; i++) {
        const char size = row->sizes[i ? i + 1 : 0];
        struct element *x = &f->arg[i].at[0];
        if (x->not)
            form_unknown(f);
        if (size == 'p' && x->kind == LITERAL) /* ISA, "Predicate Constants" */
            x->bits = x->bits ? ~0ull : 0;
        form_add_one(f, i, size_of(size), i == 0);
        check_predicate(f, i, size);
    }
    f->ins->kind = PTX_ALU;
    f->ins->group = row->group;
    f->ins->cost = row->cost;
    f->ins->flops = row->flops;
    f->ins->run = row->run;
}

static void arithmetic_named(struct form *f, const char *name)
{
    const struct ptx_alu_row *row = ptx_alu_find(name);
    if (!row)
        form_unknown(f);
    arithmetic(f, row);
}

static struct ptx_type type_of(struct form *f, const char *t)
{
    struct ptx_type y = {t[0], (unsigned)strtoul(t + 1, NULL, 10) / 8, false};
    if (strcmp(t, "bf16") == 0)
        return (struct ptx_type){'f', 2, true};
    if (strcmp(t, "pred") == 0)
        return (struct ptx_type){'p', 4, false};
    if (!strchr("usfb", t[0]) || (y.bytes != 1 && y.bytes != 2 && y.bytes != 4 && y.bytes != 8))
        form_unknown(f);
    return y;
}

/* ISA, "mov": of registers, addresses and special registers, and the second form, of vectors. */
static void decode_mov(struct form *f)
{
    const struct ptx_type t = type_of(f, f->part[1]);
    char name[32];
    if (f->parts != 2 || f->args != 2)
        form_unknown(f);
    if (f->arg[0].kind == VECTOR || f->arg[1].kind == VECTOR) {
        f->ins->kind = f->arg[1].kind == VECTOR ? PTX_PACK : PTX_UNPACK;
        const struct arg *v = &f->arg[f->ins->kind == PTX_PACK];
        f->ins->bytes = (uint8_t)(t.bytes / (unsigned)v->many);
        form_add_all(f, 0, f->ins->kind == PTX_PACK ? t.bytes : f->ins->bytes, true);
        form_add_all(f, 1, f->ins->kind == PTX_PACK ? f->ins->bytes : t.bytes, false);
        return;
    }
    snprintf(name, sizeof(name), t.kind == 'p' ? "mov.pred" : "mov.b%u", 8 * t.bytes);
    arithmetic_named(f, name);
}

/* ISA, "cvta": a generic address of global memory is the address itself, as of parameters and constants. */
static void decode_cvta(struct form *f)
{
    const bool to = form_has(f, "to");
    const char *name = form_has(f, "shared") ? (to ? "cvta.to.shared" : "cvta.shared")
                       : form_has(f, "local") ? (to ? "cvta.to.local" : "cvta.local")
                       : form_has(f, "global") || form_has(f, "const") ? "mov.b64"
                                                             : NULL;
    if (!name || strcmp(f->part[f->parts - 1], "u64") != 0)
        form_unknown(f);
    arithmetic_named(f, name);
    f->ins->group = PTX_MOVE;
}

static bool same_float(const struct ptx_type *a, const struct ptx_type *b)
{
    return a->bytes == b->bytes && a->bf16 == b->bf16;
}

/* ISA, "cvt", "Integer Notes", "Floating Point Notes": to a whole number (.rni) from a float to an integer always, to
 * the same float if said; else rounded (.rn) where digits are lost, which is from an integer always; not elsewhere. */
static bool right_rounding(const struct ptx_ins *i, bool whole)
{
    const bool from = i->from.kind == 'f', to = i->to.kind == 'f', loses = !from || i->to.bytes < i->from.bytes;
    if (!to)
        return from ? whole : !i->round;
    if (from && same_float(&i->from, &i->to))
        return whole || !i->round;
    return loses ? i->round && !whole : !i->round;
}

/* .ftz is of fp32, .sat not of bf16. */
static bool right_modifiers(const struct ptx_ins *i)
{
    const bool narrow = (i->from.kind == 'f' && i->from.bytes == 4) || (i->to.kind == 'f' && i->to.bytes == 4);
    return (narrow || !i->ftz) && !(i->sat && i->to.bf16);
}

/* ISA, "cvt": [.rounding] [.ftz] [.sat] .to .from */
static void decode_cvt(struct form *f)
{
    struct ptx_ins *i = f->ins;
    bool whole = false;
    if (f->args != 2 || f->parts < 3)
        form_unknown(f);
    i->kind = PTX_CVT;
    i->group = PTX_CONVERT;
    i->to = type_of(f, f->part[f->parts - 2]);
    i->from = type_of(f, f->part[f->parts - 1]);
    for (int k = 1; k < f->parts - 2; k++) {
        const char *m = f->part[k];
        if (strcmp(m, "sat") == 0)
            i->sat = 1;
        else if (strcmp(m, "ftz") == 0)
            i->ftz = 1;
        else if (m[0] == 'r' && m[1] && strchr("nzmp", m[1]) && (!m[2] || (m[2] == 'i' && !m[3]))) {
            i->round = m[1];
            whole = m[2] == 'i';
        } else
            form_unknown(f);
    }
    if (i->to.kind == 'b' || i->from.kind == 'b' || (i->to.kind == 'f' && !i->to.bf16 && i->to.bytes < 4) ||
        (i->from.kind == 'f' && !i->from.bf16 && i->from.bytes < 4) || !right_rounding(i, whole) || !right_modifiers(i))
        form_unknown(f);
    i->cost = 1;
    if (i->to.kind != 'f' && i->from.kind != 'f')
        i->group = PTX_INT;
    form_add_one(f, 0, 0, true);
    check_room(f, i->to.bytes);
    form_add_one(f, 1, f->arg[1].at[0].kind == LITERAL ? i->from.bytes : 0, false);
    check_room(f, i->from.bytes);
}

/* --- memory --------------------------------------------------------------------------------- */

static enum ptx_space space_in(const struct form *f)
{
    return form_has(f, "global") ? PTX_GLOBAL
           : form_has(f, "shared") || form_has(f, "shared::cta") ? PTX_SHARED
           : form_has(f, "local")  ? PTX_LOCAL
           : form_has(f, "param")  ? PTX_PARAM
           : form_has(f, "const")  ? PTX_CONST
                              : PTX_GENERIC;
}

static enum ptx_class class_of(enum ptx_space s)
{
    return s == PTX_SHARED ? PTX_MEM_SHARED
           : s == PTX_LOCAL ? PTX_MEM_LOCAL
           : s == PTX_PARAM || s == PTX_CONST ? PTX_MEM_PARAM
                                              : PTX_MEM_GLOBAL;
}

/* The base of an address as a source; the offset goes into the instruction. */
static void add_address(struct form *f, int i)
{
    enum ptx_space space;
    const struct arg *a = &f->arg[i];
    if (i >= f->args || a->kind != ADDRESS)
        form_unknown(f);
    f->ins->offset = a->offset;
    if (a->at[0].kind == SYMBOL)
        form_add(f, form_symbol(f->p, a->at[0].name, 8, &space), false);
    else
        form_add(f, form_operand(f, &a->at[0], a->at[0].kind == LITERAL ? 8 : 0), false);
}

/* What may stand between the space and the type: cache operators, .nc, .weak, .volatile, hints for caches. */
static bool known_modifier(const char *m)
{
    static const char *const words[] = {"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "weak", "volatile", "v2", "v4",
                                        "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B",
                                        "L2::256B", "global", "shared", "shared::cta", "local", "param", "const"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(m, words[i]) == 0)
            return true;
    return false;
}

/* ISA, "ld.global.nc": of global memory only; "st": constants and parameters of a kernel are not written. */
static bool right_space(const struct form *f, bool load)
{
    const enum ptx_space s = space_in(f);
    return load ? !form_has(f, "nc") || s == PTX_GLOBAL : !form_has(f, "nc") && s != PTX_CONST && s != PTX_PARAM;
}

/* ISA, "ld", "ld.global.nc", "st"; "Vectors": 16 bytes at most. Cache operators and hints change no result; .volatile
 * accesses are not reordered, as here none is. */
static void decode_access(struct form *f)
{
    struct ptx_ins *i = f->ins;
    const bool load = strcmp(f->part[0], "ld") == 0;
    const struct arg *value = &f->arg[load ? 0 : 1];
    for (int k = 1; k < f->parts - 1; k++)
        if (!known_modifier(f->part[k]))
            form_unknown(f);
    i->kind = load ? PTX_LOAD : PTX_STORE;
    i->from = type_of(f, f->part[f->parts - 1]);
    i->bytes = (uint8_t)i->from.bytes;
    i->many = form_has(f, "v4") ? 4 : form_has(f, "v2") ? 2 : 1;
    i->space = space_in(f);
    i->group = class_of(i->space);
    i->cost = i->space == PTX_PARAM || i->space == PTX_CONST ? 0 : 1;
    if (f->args != 2 || value->many != i->many || i->bytes * i->many > 16 || !right_space(f, load))
        form_unknown(f);
    if (!load)
        add_address(f, 0);
    for (int k = 0; k < value->many; k++) {
        const unsigned least = i->bytes < 2 ? 2 : i->bytes;
        form_add(f, form_operand(f, &value->at[k], value->at[k].kind == LITERAL ? least : 0), load);
        check_room(f, i->bytes);
    }
    if (load)
        add_address(f, 1);
}

/* ISA, "cp.async.wait_group / cp.async.wait_all" */
static void decode_cp_wait(struct form *f)
{
    struct ptx_ins *i = f->ins;
    i->kind = PTX_CP_WAIT;
    i->group = PTX_SYNC;
    i->which = form_has(f, "wait_all");
    if (f->args != !i->which || (!i->which && (f->arg[0].kind != LITERAL || f->arg[0].at[0].bits > UINT8_MAX)))
        form_unknown(f);
    i->many = i->which ? 0 : (uint8_t)f->arg[0].at[0].bits;
}

/* ISA, "cp.async": .ca or .cg, .shared.global, [to], [from], bytes [, bytes that are there]; "cp.async.commit_group".
 * The form with a predicate, ignore-src, is not known. */
static void decode_cp_async(struct form *f)
{
    struct ptx_ins *i = f->ins;
    i->group = PTX_MEM_GLOBAL;
    i->cost = 1;
    if (form_has(f, "commit_group")) {
        i->kind = PTX_CP_COMMIT;
        i->group = PTX_SYNC;
        return;
    }
    if (form_has(f, "wait_group") || form_has(f, "wait_all")) {
        decode_cp_wait(f);
        return;
    }
    if (f->args < 3 || f->args > 4 || f->arg[1].kind != ADDRESS || !form_has(f, "global"))
        form_unknown(f);
    i->kind = PTX_CP_ASYNC;
    add_address(f, 1);
    const int64_t from = i->offset;
    add_address(f, 0);
    form_add(f, form_constant(f->p, (uint64_t)from, 8, false), false);
    i->bytes = (uint8_t)f->arg[2].at[0].bits;
    if (f->arg[2].kind != LITERAL || (i->bytes != 16 && (form_has(f, "cg") || (i->bytes != 4 && i->bytes != 8))))
        form_unknown(f);
    if (f->args == 4) {
        form_add_one(f, 3, 4, false);
        check_predicate(f, 3, 'w');
    }
}

/* --- control and warps ---------------------------------------------------------------------- */

/* ISA, "bra": .uni says that all lanes agree, which is not relied on. */
static void decode_branch(struct form *f)
{
    struct ptx_parser *p = f->p;
    f->ins->kind = PTX_BRANCH;
    f->ins->group = PTX_CONTROL;
    f->ins->cost = 1;
    if (f->args != 1 || f->arg[0].kind != SYMBOL)
        form_unknown(f);
    p->fixups = ptx_grow(p->fixups, p->fixup_count, sizeof(*p->fixups));
    p->fixups[p->fixup_count++] = (struct ptx_fixup){strdup(f->arg[0].at[0].name), p->entry->count - 1, p->line};
}

/* ISA, "bar, barrier": all threads of the block at barrier 0; "bar.warp.sync": those of a mask. */
static void decode_barrier(struct form *f)
{
    struct ptx_ins *i = f->ins;
    i->group = PTX_SYNC;
    i->cost = 1;
    if (strcmp(f->name, "bar.warp.sync") == 0) {
        i->kind = PTX_WARP_BARRIER;
        form_add_one(f, 0, 4, false);
        return;
    }
    const bool sync = strcmp(f->name, "bar.sync") == 0 || strcmp(f->name, "barrier.sync") == 0 ||
                      strcmp(f->name, "barrier.sync.aligned") == 0 || strcmp(f->name, "bar.cta.sync") == 0;
    if (!sync || f->args != 1 || f->arg[0].kind != LITERAL || f->arg[0].at[0].bits > 15)
        form_unknown(f);
    i->kind = PTX_BARRIER;
    i->many = (uint8_t)f->arg[0].at[0].bits;
}

/* ISA, "shfl.sync": d[|p], a, b, c, membermask */
static void decode_shfl(struct form *f)
{
    struct ptx_ins *i = f->ins;
    if (f->parts != 4 || strcmp(f->part[1], "sync") != 0 || strcmp(f->part[3], "b32") != 0 || f->args != 5 ||
        !(form_has(f, "up") || form_has(f, "down") || form_has(f, "bfly") || form_has(f, "idx")))
        form_unknown(f);
    i->kind = PTX_SHFL;
    i->group = PTX_SHUFFLE;
    i->cost = 1;
    i->mode = f->part[2][0];
    form_add(f, form_operand(f, &f->arg[0].at[0], 4), true);
    check_predicate(f, 0, 'w');
    if (f->arg[0].pair) {
        form_add(f, form_operand(f, &f->arg[0].at[1], 4), true);
        check_predicate(f, 0, 'p');
    }
    for (int k = 1; k < 5; k++)
        form_add_one(f, k, 4, false);
}

/* ISA, "vote.sync": .all, .any, .uni into a predicate, .ballot into a mask */
static void decode_vote(struct form *f)
{
    const bool ballot = f->parts == 4 && strcmp(f->part[2], "ballot") == 0;
    if (f->parts != 4 || strcmp(f->part[1], "sync") != 0 || f->args != 3 || f->arg[1].at[0].not ||
        !(ballot || form_has(f, "all") || form_has(f, "any") || form_has(f, "uni")) ||
        strcmp(f->part[3], ballot ? "b32" : "pred") != 0)
        form_unknown(f);
    f->ins->kind = PTX_VOTE;
    f->ins->group = PTX_SHUFFLE;
    f->ins->cost = 1;
    f->ins->mode = strcmp(f->part[2], "any") == 0 ? 'y' : f->part[2][0];
    form_add_one(f, 0, 4, true);
    check_predicate(f, 0, ballot ? 'w' : 'p');
    form_add_one(f, 1, 4, false);
    check_predicate(f, 1, 'p');
    form_add_one(f, 2, 4, false);
}

/* --- matrices ------------------------------------------------------------------------------- */

static char layout(struct form *f, int part)
{
    if (part >= f->parts || (strcmp(f->part[part], "row") != 0 && strcmp(f->part[part], "col") != 0))
        form_unknown(f);
    return f->part[part][0];
}

/* wmma.load.a.sync.aligned.row.m16n16k16[.space].bf16 {4 x b32}, [p], stride; wmma.load.c and wmma.store.d
 * likewise, of 8 x f32: ISA, "wmma.load", "wmma.store" */
static void decode_wmma_access(struct form *f)
{
    struct ptx_ins *i = f->ins;
    const bool load = strcmp(f->part[1], "load") == 0;
    const int value = load ? 0 : 1;
    i->which = f->part[2][0];
    const bool wide = i->which == 'c' || i->which == 'd';
    if (!form_has(f, "m16n16k16") || strcmp(f->part[f->parts - 1], wide ? "f32" : "bf16") != 0 || f->args != 3 ||
        f->arg[value].many != (wide ? 8 : 4))
        form_unknown(f);
    i->kind = load ? PTX_WMMA_LOAD : PTX_WMMA_STORE;
    i->space = space_in(f);
    i->group = class_of(i->space);
    i->cost = 4;
    i->layout_a = layout(f, 5);
    i->bytes = wide ? 4 : 2;
    if (load)
        form_add_all(f, 0, 4, true);
    add_address(f, load ? 1 : 0);
    form_add_one(f, 2, 4, false);
    if (!load)
        form_add_all(f, 1, 4, false);
}

/* d, a, b, c: ISA, "wmma.mma", "mma" */
static void decode_product(struct form *f, enum ptx_kind kind, const int *many)
{
    f->ins->kind = kind;
    f->ins->group = PTX_TENSOR;
    f->ins->cost = kind == PTX_MMA ? 1 : 2;
    for (int k = 0; k < 4; k++) {
        if (f->args != 4 || f->arg[k].many != many[k])
            form_unknown(f);
        form_add_all(f, k, 4, k == 0);
    }
}

static void decode_wmma(struct form *f)
{
    if (f->parts > 5 && (strcmp(f->part[1], "load") == 0 || strcmp(f->part[1], "store") == 0)) {
        decode_wmma_access(f);
        return;
    }
    static const int many[] = {8, 4, 4, 8};
    if (strncmp(f->name, "wmma.mma.sync.aligned.", 22) != 0 || !strstr(f->name, ".m16n16k16.f32.bf16.bf16.f32"))
        form_unknown(f);
    decode_product(f, PTX_WMMA_MMA, many);
}

static void decode_mma(struct form *f)
{
    static const int many[] = {4, 4, 2, 4};
    if (strcmp(f->name, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") != 0)
        form_unknown(f);
    decode_product(f, PTX_MMA, many);
}

/* ISA, "ldmatrix": ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16 {...}, [p] */
static void decode_ldmatrix(struct form *f)
{
    struct ptx_ins *i = f->ins;
    i->many = form_has(f, "x4") ? 4 : form_has(f, "x2") ? 2 : 1;
    i->trans = form_has(f, "trans");
    if (!form_has(f, "m8n8") || !form_has(f, "b16") || f->args != 2 || f->arg[0].many != i->many)
        form_unknown(f);
    i->kind = PTX_LDMATRIX;
    i->space = space_in(f);
    i->group = PTX_MEM_SHARED;
    i->cost = 1;
    form_add_all(f, 0, 4, true);
    add_address(f, 1);
}

/* --- all of them ---------------------------------------------------------------------------- */

/* ISA, "ret": from a kernel it ends the thread, as "exit" does. */
static void decode_return(struct form *f)
{
    f->ins->kind = PTX_RETURN;
    f->ins->group = PTX_CONTROL;
    f->ins->cost = 1;
}

/* ISA, "trap": the launch fails. */
static void decode_trap(struct form *f)
{
    f->ins->kind = PTX_TRAP;
    f->ins->group = PTX_CONTROL;
}

/* Orders memory among threads that a barrier orders anyway: ISA, "membar / fence". */
static void decode_nothing(struct form *f)
{
    f->ins->kind = PTX_NOTHING;
    f->ins->group = PTX_SYNC;
}

static const struct {
    const char *name;
    void (*decode)(struct form *f);
} decoders[] = {{"mov", decode_mov}, {"cvta", decode_cvta}, {"cvt", decode_cvt}, {"ld", decode_access},
                {"st", decode_access}, {"cp", decode_cp_async}, {"bra", decode_branch}, {"ret", decode_return},
                {"exit", decode_return}, {"bar", decode_barrier}, {"barrier", decode_barrier}, {"shfl", decode_shfl},
                {"vote", decode_vote}, {"wmma", decode_wmma}, {"mma", decode_mma}, {"ldmatrix", decode_ldmatrix},
                {"membar", decode_nothing}, {"fence", decode_nothing}, {"trap", decode_trap}};

static void decode(struct form *f)
{
    const struct ptx_alu_row *row = strcmp(f->part[0], "mov") == 0 ? NULL : ptx_alu_find(f->name);
    for (size_t i = 0; !row && i < sizeof(decoders) / sizeof(decoders[0]); i++)
        if (strcmp(decoders[i].name, f->part[0]) == 0) {
            decoders[i].decode(f);
            return;
        }
    if (!row)
        form_unknown(f);
    arithmetic(f, row);
}

/* ISA, "Predicated Execution" */
static void guard(struct form *f)
{
    struct ptx_parser *p = f->p;
    struct element x;
    f->ins->guard = -1;
    if (!ptx_is(p, "@"))
        return;
    ptx_next(p);
    form_element(p, &x);
    const struct ptx_operand o = form_operand(f, &x, 4);
    if (o.pool || !o.predicate)
        ptx_refuse(p, "a guard that is no predicate");
    f->ins->guard = (int)o.at;
    f->ins->guard_not = x.not;
}

void ptx_decode(struct ptx_parser *p)
{
    struct ptx_entry *e = p->entry;
    struct form *f = p->form ? p->form : (p->form = calloc(1, sizeof(*f)));
    if (!f)
        abort();
    e->code = ptx_grow(e->code, e->count, sizeof(*e->code));
    f->p = p;
    f->ins = &e->code[e->count++];
    f->parts = f->args = 0;
    f->ins->line = p->line;
    f->ins->first = e->operand_count;
    guard(f);
    strcpy(f->name, p->token);
    ptx_next(p);
    form_split(f);
    form_arguments(f);
    decode(f);
    ptx_next(p);
}
