/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c - the text of a module: tokens, directives, variables, kernels and their registers
 *
 * PTX ISA, "Syntax" and "Directives". Statements of a kernel are decoded in decode.c.
 */
#include "tests/ptx/parser.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ptx_refuse(struct ptx_parser *p, const char *format, ...)
{
    va_list list;
    const int n = snprintf(p->why, PTX_WHY, "%s:%d: ", p->module->name, p->line);
    va_start(list, format);
    vsnprintf(p->why + n, PTX_WHY - (size_t)n, format, list);
    va_end(list);
    longjmp(p->out, 1);
}

void *ptx_grow(void *array, int count, size_t size)
{
    if (count % 64 == 0)
        array = realloc(array, ((size_t)count + 64) * size);
    if (!array)
        abort();
    memset((char *)array + (size_t)count * size, 0, size);
    return array;
}

static char *copy_of(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        abort();
    return copy;
}

/* --- tokens --------------------------------------------------------------------------------- */

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_$.%", c));
}

static void skip_line(struct ptx_parser *p)
{
    while (*p->at && *p->at != '\n')
        p->at++;
}

static void skip_comment(struct ptx_parser *p)
{
    for (p->at += 2; *p->at && strncmp(p->at, "*/", 2) != 0; p->at++)
        p->scan += *p->at == '\n';
    if (*p->at)
        p->at += 2;
}

static void skip_space(struct ptx_parser *p)
{
    for (;;) {
        if (strncmp(p->at, "//", 2) == 0)
            skip_line(p);
        else if (strncmp(p->at, "/*", 2) == 0)
            skip_comment(p);
        else if (*p->at && isspace((unsigned char)*p->at))
            p->scan += *p->at++ == '\n';
        else
            return;
    }
}

void ptx_next(struct ptx_parser *p)
{
    int n = 0;
    skip_space(p);
    p->line = p->scan;
    p->token[0] = '\0';
    do {
        if (n + 2 >= PTX_TOKEN)
            ptx_refuse(p, "a word of more than %d characters", PTX_TOKEN);
        if (n && strncmp(p->at, "::", 2) == 0) /* .shared::cta */
            p->token[n++] = *p->at++;
        if (*p->at)
            p->token[n++] = *p->at++;
    } while (in_word(p->token[0]) && (in_word(*p->at) || strncmp(p->at, "::", 2) == 0));
    p->token[n] = '\0';
}

bool ptx_is(const struct ptx_parser *p, const char *token)
{
    return strcmp(p->token, token) == 0;
}

void ptx_want(struct ptx_parser *p, const char *token)
{
    if (!ptx_is(p, token))
        ptx_refuse(p, "'%s' where '%s' was expected", p->token, token);
    ptx_next(p);
}

static unsigned long number(struct ptx_parser *p)
{
    char *end;
    const unsigned long n = strtoul(p->token, &end, 0);
    if (end == p->token || *end)
        ptx_refuse(p, "'%s' where a number was expected", p->token);
    ptx_next(p);
    return n;
}

static void word(struct ptx_parser *p, char *to, size_t room)
{
    if (!in_word(p->token[0]) || strlen(p->token) >= room)
        ptx_refuse(p, "'%s' where a name was expected", p->token);
    strcpy(to, p->token);
    ptx_next(p);
}

/* --- variables ------------------------------------------------------------------------------ */

/* ISA, "Fundamental Types" */
static size_t bytes_of_type(struct ptx_parser *p)
{
    const char *t = p->token;
    const long bits = t[0] == '.' && t[1] && strchr("busf", t[1]) ? strtol(t + 2, NULL, 10) : 0;
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        ptx_refuse(p, "'%s' where a type was expected", t);
    ptx_next(p);
    return (size_t)bits / 8;
}

static void initial(struct ptx_parser *p, struct ptx_variable *v, size_t each)
{
    ptx_want(p, "{");
    for (size_t i = 0; !ptx_is(p, "}"); i++) {
        const unsigned long x = number(p);
        if ((i + 1) * each > v->bytes)
            ptx_refuse(p, "more values than %s has room for", v->name);
        memcpy(v->data + i * each, &x, each);
        if (ptx_is(p, ","))
            ptx_next(p);
    }
    ptx_next(p);
}

/* After the state space: [.align N] .type NAME [ '[' N ']' ] [ = {...} ] */
static void shape(struct ptx_parser *p, struct ptx_variable *v, size_t *each)
{
    char name[PTX_TOKEN];
    if (ptx_is(p, ".align")) {
        ptx_next(p);
        v->align = number(p);
    }
    *each = bytes_of_type(p);
    while (ptx_is(p, ".ptr") || ptx_is(p, ".global") || ptx_is(p, ".shared") || ptx_is(p, ".const"))
        ptx_next(p);
    if (ptx_is(p, ".align")) { /* of what a pointer points to */
        ptx_next(p);
        number(p);
    }
    v->align = v->align > *each ? v->align : *each;
    v->bytes = *each;
    word(p, name, sizeof(name));
    v->name = copy_of(name);
    if (!ptx_is(p, "["))
        return;
    ptx_next(p);
    v->dynamic = ptx_is(p, "]");
    v->bytes = v->dynamic ? 0 : *each * number(p);
    ptx_want(p, "]");
}

/* The gap behind each array belongs to nothing, so that what runs past its end is seen. */
enum { GAP = 128 };

void ptx_place_shared(struct ptx_entry *e, struct ptx_variable *v)
{
    if (v->used == e->name)
        return;
    v->used = e->name;
    if (v->dynamic)
        return; /* behind all others: place_dynamic() */
    e->fixed_bytes += v->bytes;
    v->at = (e->shared_bytes + v->align - 1) / v->align * v->align;
    const size_t end = v->at + v->bytes + GAP;
    e->valid = realloc(e->valid, end);
    if (!e->valid)
        abort();
    memset(e->valid + e->shared_bytes, 0, end - e->shared_bytes);
    memset(e->valid + v->at, 1, v->bytes);
    e->shared_bytes = end;
}

static struct ptx_variable *new_variable(struct ptx_parser *p, enum ptx_space space)
{
    struct ptx_module *m = p->module;
    m->variables = ptx_grow(m->variables, m->variable_count, sizeof(*m->variables));
    struct ptx_variable *v = &m->variables[m->variable_count++];
    v->space = space;
    return v;
}

static void variable(struct ptx_parser *p, enum ptx_space space)
{
    size_t each;
    struct ptx_variable *v = new_variable(p, space);
    ptx_next(p);
    shape(p, v, &each);
    if (space == PTX_GLOBAL || space == PTX_CONST) {
        v->data = aligned_alloc(64, (v->bytes + 127) / 64 * 64);
        if (!v->data)
            abort();
        memset(v->data, 0, v->bytes);
        v->at = (uint64_t)(uintptr_t)v->data;
    }
    if (ptx_is(p, "=")) {
        ptx_next(p);
        if (!v->data)
            ptx_refuse(p, "%s has a value, but is neither global nor constant", v->name);
        initial(p, v, each);
    }
    if (p->entry && space == PTX_LOCAL) {
        v->at = (p->entry->local_bytes + v->align - 1) / v->align * v->align;
        p->entry->local_bytes = v->at + v->bytes;
        v->used = p->entry->name;
    }
    ptx_want(p, ";");
}

static enum ptx_space space_of(const char *token)
{
    static const struct {
        const char    *name;
        enum ptx_space space;
    } rows[] = {{".global", PTX_GLOBAL}, {".const", PTX_CONST}, {".shared", PTX_SHARED}, {".local", PTX_LOCAL}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].name, token) == 0)
            return rows[i].space;
    return PTX_GENERIC;
}

/* --- kernels -------------------------------------------------------------------------------- */

static uint32_t slot(struct ptx_entry *e, uint32_t bytes)
{
    const uint32_t at = e->file_bytes;
    e->file_bytes += (bytes * PTX_LANES + PTX_ALIGN - 1) / PTX_ALIGN * PTX_ALIGN;
    return at;
}

/* Past ".reg", which may be one word with the type. */
static void enter_registers(struct ptx_parser *p)
{
    if (ptx_is(p, ".reg"))
        ptx_next(p);
    else
        memmove(p->token, p->token + 4, strlen(p->token + 4) + 1);
}

/* .reg .b32 %r<41>, or names: ISA, "Parameterized Variable Names" */
static void registers(struct ptx_parser *p)
{
    const bool predicate = (enter_registers(p), ptx_is(p, ".pred"));
    const size_t bytes = predicate ? (ptx_next(p), sizeof(uint32_t)) : bytes_of_type(p);
    for (;;) {
        if (p->range_count == PTX_REGISTERS)
            ptx_refuse(p, "more than %d declarations of registers", PTX_REGISTERS);
        struct ptx_range *r = &p->ranges[p->range_count];
        *r = (struct ptx_range){.depth = p->depth, .size = (uint8_t)(bytes < 2 ? 2 : bytes), .predicate = predicate};
        word(p, r->name, sizeof(r->name));
        if (ptx_is(p, "<")) {
            ptx_next(p);
            r->count = (int)number(p);
            ptx_want(p, ">");
        }
        r->at = p->entry->file_bytes;
        for (int i = 0; i < (r->count ? r->count : 1); i++)
            slot(p->entry, r->size);
        p->range_count++;
        if (!ptx_is(p, ","))
            break;
        ptx_next(p);
    }
    ptx_want(p, ";");
}

static void params(struct ptx_parser *p)
{
    struct ptx_entry *e = p->entry;
    ptx_want(p, "(");
    while (!ptx_is(p, ")")) {
        size_t each;
        e->params = ptx_grow(e->params, e->param_count, sizeof(*e->params));
        struct ptx_variable *v = &e->params[e->param_count++];
        v->space = PTX_PARAM;
        ptx_want(p, ".param");
        shape(p, v, &each);
        v->at = (e->param_bytes + v->align - 1) / v->align * v->align;
        e->param_bytes = v->at + v->bytes;
        if (ptx_is(p, ","))
            ptx_next(p);
    }
    ptx_next(p);
}

/* ISA, "Performance-Tuning Directives": only .maxntid and .reqntid bind us. */
static void tuning(struct ptx_parser *p)
{
    while (!ptx_is(p, "{")) {
        const bool threads = ptx_is(p, ".maxntid") || ptx_is(p, ".reqntid");
        unsigned long n = 1;
        if (p->token[0] != '.')
            ptx_refuse(p, "'%s' where '{' was expected", p->token);
        ptx_next(p);
        for (n = number(p); ptx_is(p, ",");) {
            ptx_next(p);
            n *= number(p);
        }
        if (threads)
            p->entry->max_threads = (unsigned)n;
    }
}

static void label(struct ptx_parser *p, const char *name)
{
    p->labels = ptx_grow(p->labels, p->label_count, sizeof(*p->labels));
    p->labels[p->label_count++] = (struct ptx_label){copy_of(name), p->entry->count};
}

static void leave_scope(struct ptx_parser *p)
{
    while (p->range_count && p->ranges[p->range_count - 1].depth == p->depth)
        p->range_count--;
    p->depth--;
}

static bool directive(struct ptx_parser *p)
{
    if (ptx_is(p, ".reg") || strncmp(p->token, ".reg.", 5) == 0)
        registers(p);
    else if (space_of(p->token) != PTX_GENERIC)
        variable(p, space_of(p->token));
    else if (ptx_is(p, ".pragma") || ptx_is(p, ".loc")) {
        skip_line(p);
        ptx_next(p);
    } else
        return false;
    return true;
}

static void statement(struct ptx_parser *p)
{
    const char *here = p->at;
    if (ptx_is(p, "{") || ptx_is(p, "}")) {
        if (ptx_is(p, "{"))
            p->depth++;
        else
            leave_scope(p);
        if (p->depth)
            ptx_next(p);
        return;
    }
    if (directive(p))
        return;
    while (isspace((unsigned char)*here))
        here++;
    if (in_word(p->token[0]) && *here == ':') {
        label(p, p->token);
        ptx_next(p);
        ptx_next(p);
        return;
    }
    ptx_decode(p);
}

static void resolve(struct ptx_parser *p)
{
    for (int i = 0; i < p->fixup_count; i++) {
        const struct ptx_fixup *f = &p->fixups[i];
        int k = 0;
        while (k < p->label_count && strcmp(p->labels[k].name, f->name) != 0)
            k++;
        p->line = f->line;
        if (k == p->label_count)
            ptx_refuse(p, "no label %s in %s", f->name, p->entry->name);
        p->entry->code[f->ins].target = p->labels[k].at;
    }
}

static void forget(struct ptx_parser *p)
{
    for (int i = 0; i < p->label_count; i++)
        free(p->labels[i].name);
    for (int i = 0; i < p->fixup_count; i++)
        free(p->fixups[i].name);
    free(p->labels);
    free(p->fixups);
    p->labels = NULL;
    p->fixups = NULL;
    p->label_count = p->fixup_count = 0;
}

/* Dynamic shared memory lies behind the fixed arrays, on the largest alignment that one may ask for. */
static void place_dynamic(struct ptx_parser *p)
{
    struct ptx_entry *e = p->entry;
    e->dynamic_at = (e->shared_bytes + 127) / 128 * 128;
    for (int i = 0; i < e->constant_count; i++)
        if (e->constants[i].size & 0x80) {
            e->constants[i].size &= 0x7f;
            e->constants[i].bits += e->dynamic_at;
        }
}

static void fill_pool(struct ptx_entry *e)
{
    e->pool = aligned_alloc(PTX_ALIGN, e->pool_bytes + PTX_ALIGN);
    if (!e->pool)
        abort();
    for (int i = 0; i < e->constant_count; i++)
        for (int l = 0; l < PTX_LANES; l++)
            memcpy(e->pool + e->constants[i].at + l * e->constants[i].size, &e->constants[i].bits,
                   e->constants[i].size);
}

static void entry(struct ptx_parser *p)
{
    char name[PTX_TOKEN];
    struct ptx_module *m = p->module;
    m->entries = ptx_grow(m->entries, m->entry_count, sizeof(*m->entries));
    struct ptx_entry *e = p->entry = &m->entries[m->entry_count++];
    e->module = m;
    memset(e->special, -1, sizeof(e->special));
    ptx_next(p);
    word(p, name, sizeof(name));
    e->name = copy_of(name);
    if (ptx_is(p, "("))
        params(p);
    tuning(p);
    p->depth = 0;
    do {
        if (!p->token[0])
            ptx_refuse(p, "the text ends within %s", e->name);
        statement(p);
    } while (p->depth);
    ptx_next(p);
    resolve(p);
    place_dynamic(p);
    fill_pool(e);
    ptx_flow(e);
    forget(p);
    p->entry = NULL;
}

static void skip_words(struct ptx_parser *p)
{
    ptx_next(p);
    for (;;) {
        ptx_next(p);
        if (!ptx_is(p, ","))
            return;
        ptx_next(p);
    }
}

static void top(struct ptx_parser *p)
{
    if (ptx_is(p, ".version") || ptx_is(p, ".target") || ptx_is(p, ".address_size"))
        skip_words(p);
    else if (ptx_is(p, ".visible") || ptx_is(p, ".extern") || ptx_is(p, ".weak"))
        ptx_next(p);
    else if (space_of(p->token) != PTX_GENERIC)
        variable(p, space_of(p->token));
    else if (ptx_is(p, ".entry"))
        entry(p);
    else
        ptx_refuse(p, "'%s' is not known here", p->token);
}

struct ptx_module *ptx_parse(const char *name, const char *text, char why[PTX_WHY])
{
    struct ptx_module *volatile m = calloc(1, sizeof(*m));
    struct ptx_parser *p = calloc(1, sizeof(*p));
    if (!m || !p)
        abort();
    m->name = copy_of(name);
    m->text = copy_of(text);
    *p = (struct ptx_parser){.module = m, .at = m->text, .line = 1, .scan = 1, .why = why};
    if (setjmp(p->out) == 0) {
        for (ptx_next(p); p->token[0];)
            top(p);
    } else {
        ptx_free(m);
        m = NULL;
    }
    forget(p);
    free(p->form);
    free(p);
    return m;
}
