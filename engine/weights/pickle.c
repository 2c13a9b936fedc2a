/* SPDX-License-Identifier: Apache-2.0 */
/* pickle.c - see pickle.h
 *
 * A stack machine: each opcode is a row of a table.  The stack has indices of values, marks are heights of the stack.
 * Items are cells of linked lists, because a list or dict grows after it is made.
 *
 * Pure: no clock, no I/O.
 */
#include "engine/weights/pickle.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/utf8.h"

enum { CELLS_MAX = 2 * PICKLE_VALUES, PROTOCOL = 2 };

struct cell {
    uint32_t value, next; /* 0: the last */
};

/* Growing arrays; the first element of values and cells is unused, so that 0 means none. */
struct indices {
    uint32_t *at;
    uint32_t  len, room;
};

struct pickle {
    struct pickle_value *value;
    struct cell         *cell;
    uint32_t             values, value_room, cells, cell_room, root;
};

struct reader {
    struct pickle            *pickle;
    const unsigned char      *begin, *at, *end;
    struct indices            stack, marks, memo;
    const struct pickle_name *allowed;
    bool                      stopped;
    struct err               *err;
};

/* --- memory ------------------------------------------------------------------------------- */

static int grow(void *array, uint32_t *room, uint32_t len, size_t size, uint32_t limit, struct err *err)
{
    void **a = array;
    if (len < *room)
        return 0;
    if (len >= limit)
        return err_set(err, ERR_DATA, "the pickle has more than %u values, more than any file of weights needs", limit);
    const uint32_t more = len < 64 ? 128 : len < limit / 2 ? 2 * len : limit;
    void *moved = realloc(*a, more * size);
    if (!moved)
        return err_set(err, ERR_MEMORY, "no memory for %u values of a pickle", more);
    memset((char *)moved + *room * size, 0, (more - *room) * size);
    *a = moved;
    *room = more;
    return 0;
}

static int add_index(struct indices *s, uint32_t value, struct err *err)
{
    if (grow(&s->at, &s->room, s->len, sizeof(*s->at), PICKLE_VALUES, err) < 0)
        return -1;
    s->at[s->len++] = value;
    return 0;
}

/* A new value on top of the stack. */
static int push(struct reader *r, struct pickle_value v)
{
    struct pickle *p = r->pickle;
    if (grow(&p->value, &p->value_room, p->values, sizeof(v), PICKLE_VALUES, r->err) < 0)
        return -1;
    p->value[p->values] = v;
    return add_index(&r->stack, p->values++, r->err);
}

static int add_item(struct reader *r, uint32_t to, uint32_t item)
{
    struct pickle *p = r->pickle;
    struct pickle_value *v = &p->value[to];
    if (grow(&p->cell, &p->cell_room, p->cells, sizeof(*p->cell), CELLS_MAX, r->err) < 0)
        return -1;
    const uint32_t at = p->cells++;
    p->cell[at] = (struct cell){item, 0};
    if (v->len++ == 0)
        v->first = at;
    else
        p->cell[v->last].next = at;
    v->last = at;
    return 0;
}

/* --- what an opcode finds ----------------------------------------------------------------- */

static int bad(struct reader *r, const char *what)
{
    err_set(r->err, ERR_DATA, "the pickle's byte %zu: %s", (size_t)(r->at - r->begin), what);
    return -1;
}

static int take(struct reader *r, size_t n, const unsigned char **bytes)
{
    if (n > (size_t)(r->end - r->at))
        return bad(r, "it ends in the middle of a value: damaged or truncated");
    *bytes = r->at;
    r->at += n;
    return 0;
}

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | p[i];
    return n;
}

/* An unsigned argument of 1, 2 or 4 bytes. */
static int take_number(struct reader *r, int bytes, uint32_t *n)
{
    const unsigned char *p;
    if (take(r, (size_t)bytes, &p) < 0)
        return -1;
    *n = (uint32_t)number(p, bytes);
    return 0;
}

/* Values above the last mark do not belong to what is below it. */
static uint32_t floor_of(const struct reader *r)
{
    return r->marks.len ? r->marks.at[r->marks.len - 1] : 0;
}

static int pop(struct reader *r, uint32_t *value)
{
    if (r->stack.len <= floor_of(r))
        return bad(r, "an opcode needs a value, and the stack has none");
    *value = r->stack.at[--r->stack.len];
    return 0;
}

/* The values since the last mark, which is removed; they stay on the stack from *first on. */
static int pop_mark(struct reader *r, uint32_t *first)
{
    if (r->marks.len == 0)
        return bad(r, "an opcode needs a mark, and there is none");
    *first = r->marks.at[--r->marks.len];
    return 0;
}

static int top(struct reader *r, enum pickle_kind kind, enum pickle_kind or, uint32_t *value)
{
    if (r->stack.len <= floor_of(r))
        return bad(r, "an opcode needs a value, and the stack has none");
    *value = r->stack.at[r->stack.len - 1];
    const enum pickle_kind is = r->pickle->value[*value].kind;
    return is == kind || is == or ? 0 : bad(r, "an opcode needs another kind of value than the stack has");
}

/* --- opcodes ------------------------------------------------------------------------------ */

static int read_protocol(struct reader *r)
{
    uint32_t version;
    if (take_number(r, 1, &version) < 0)
        return -1;
    if (version == PROTOCOL)
        return 0;
    return err_set(r->err, ERR_DATA, "the pickle has protocol %u; torch.save() writes protocol 2", version);
}

static int read_stop(struct reader *r)
{
    if (pop(r, &r->pickle->root) < 0)
        return -1;
    if (r->stack.len > 0 || r->marks.len > 0)
        return bad(r, "the end, with values left over");
    r->stopped = true;
    return 0;
}

static int read_none(struct reader *r)
{
    return push(r, (struct pickle_value){.kind = PICKLE_NONE});
}

static int read_true(struct reader *r)
{
    return push(r, (struct pickle_value){.kind = PICKLE_BOOL, .number = 1});
}

static int read_false(struct reader *r)
{
    return push(r, (struct pickle_value){.kind = PICKLE_BOOL});
}

static int push_int(struct reader *r, int64_t n)
{
    return push(r, (struct pickle_value){.kind = PICKLE_INT, .number = n});
}

static int read_int1(struct reader *r)
{
    uint32_t n;
    return take_number(r, 1, &n) < 0 ? -1 : push_int(r, n);
}

static int read_int2(struct reader *r)
{
    uint32_t n;
    return take_number(r, 2, &n) < 0 ? -1 : push_int(r, n);
}

static int read_int4(struct reader *r)
{
    uint32_t n;
    return take_number(r, 4, &n) < 0 ? -1 : push_int(r, (int32_t)n);
}

/* Up to 8 bytes fit; the sign is the last byte's. */
static int read_long1(struct reader *r)
{
    uint32_t n;
    const unsigned char *p;
    if (take_number(r, 1, &n) < 0 || take(r, n, &p) < 0)
        return -1;
    if (n > 8)
        return push(r, (struct pickle_value){.kind = PICKLE_LONG, .len = n, .bytes = p});
    uint64_t value = number(p, (int)n);
    if (n > 0 && n < 8 && p[n - 1] & 0x80)
        value |= UINT64_MAX << (8 * n);
    return push_int(r, (int64_t)value);
}

/* Big-endian. */
static int read_float(struct reader *r)
{
    const unsigned char *p;
    double real;
    if (take(r, 8, &p) < 0)
        return -1;
    const uint64_t bits = __builtin_bswap64(number(p, 8));
    memcpy(&real, &bits, sizeof(real));
    return push(r, (struct pickle_value){.kind = PICKLE_FLOAT, .real = real});
}

static int read_text(struct reader *r)
{
    uint32_t n;
    const unsigned char *p;
    if (take_number(r, 4, &n) < 0 || take(r, n, &p) < 0)
        return -1;
    if (!utf8_valid((const char *)p, n))
        return bad(r, "a text that is not UTF-8");
    return push(r, (struct pickle_value){.kind = PICKLE_TEXT, .len = n, .bytes = p});
}

static int read_mark(struct reader *r)
{
    return add_index(&r->marks, r->stack.len, r->err);
}

static int read_empty_tuple(struct reader *r)
{
    return push(r, (struct pickle_value){.kind = PICKLE_TUPLE});
}

static int read_empty_list(struct reader *r)
{
    return push(r, (struct pickle_value){.kind = PICKLE_LIST});
}

static int read_empty_dict(struct reader *r)
{
    return push(r, (struct pickle_value){.kind = PICKLE_DICT});
}

/* The values from stack[first] on become items of `to`. */
static int add_items(struct reader *r, uint32_t to, uint32_t first)
{
    for (uint32_t i = first; i < r->stack.len; i++)
        if (add_item(r, to, r->stack.at[i]) < 0)
            return -1;
    r->stack.len = first;
    return 0;
}

/* The new tuple is pushed above its items, which are then taken from below it. */
static int make_tuple(struct reader *r, uint32_t first)
{
    if (push(r, (struct pickle_value){.kind = PICKLE_TUPLE}) < 0)
        return -1;
    const uint32_t tuple = r->stack.at[--r->stack.len];
    if (add_items(r, tuple, first) < 0)
        return -1;
    return add_index(&r->stack, tuple, r->err);
}

static int read_tuple(struct reader *r)
{
    uint32_t first;
    return pop_mark(r, &first) < 0 ? -1 : make_tuple(r, first);
}

static int make_tuple_of(struct reader *r, uint32_t n)
{
    if (r->stack.len < floor_of(r) + n)
        return bad(r, "a tuple of more values than the stack has");
    return make_tuple(r, r->stack.len - n);
}

static int read_tuple1(struct reader *r)
{
    return make_tuple_of(r, 1);
}

static int read_tuple2(struct reader *r)
{
    return make_tuple_of(r, 2);
}

static int read_tuple3(struct reader *r)
{
    return make_tuple_of(r, 3);
}

/* Moves stack[first..] into the container below them. */
static int fill(struct reader *r, uint32_t first, enum pickle_kind kind, enum pickle_kind or)
{
    uint32_t to;
    const uint32_t len = r->stack.len;
    r->stack.len = first;
    if (top(r, kind, or, &to) < 0)
        return -1;
    r->stack.len = len;
    if (kind == PICKLE_DICT && (len - first) % 2 != 0)
        return bad(r, "a key without a value");
    return add_items(r, to, first);
}

static int read_append(struct reader *r)
{
    if (r->stack.len < floor_of(r) + 2)
        return bad(r, "APPEND, and the stack has no list and value");
    return fill(r, r->stack.len - 1, PICKLE_LIST, PICKLE_LIST);
}

static int read_appends(struct reader *r)
{
    uint32_t first;
    return pop_mark(r, &first) < 0 ? -1 : fill(r, first, PICKLE_LIST, PICKLE_LIST);
}

static int read_set_item(struct reader *r)
{
    if (r->stack.len < floor_of(r) + 3)
        return bad(r, "SETITEM, and the stack has no dict, key and value");
    return fill(r, r->stack.len - 2, PICKLE_DICT, PICKLE_CALL);
}

static int read_set_items(struct reader *r)
{
    uint32_t first;
    return pop_mark(r, &first) < 0 ? -1 : fill(r, first, PICKLE_DICT, PICKLE_CALL);
}

/* The memo has a place for each value that is used again. */
static int put(struct reader *r, uint32_t place)
{
    if (r->stack.len <= floor_of(r))
        return bad(r, "PUT, and the stack is empty");
    while (r->memo.len <= place) {
        if (place >= PICKLE_VALUES)
            return bad(r, "PUT into a place beyond all values");
        if (add_index(&r->memo, 0, r->err) < 0)
            return -1;
    }
    r->memo.at[place] = r->stack.at[r->stack.len - 1];
    return 0;
}

static int get(struct reader *r, uint32_t place)
{
    if (place >= r->memo.len || r->memo.at[place] == 0)
        return bad(r, "GET of a value that was not PUT");
    return add_index(&r->stack, r->memo.at[place], r->err);
}

static int read_put1(struct reader *r)
{
    uint32_t place;
    return take_number(r, 1, &place) < 0 ? -1 : put(r, place);
}

static int read_put4(struct reader *r)
{
    uint32_t place;
    return take_number(r, 4, &place) < 0 ? -1 : put(r, place);
}

static int read_get1(struct reader *r)
{
    uint32_t place;
    return take_number(r, 1, &place) < 0 ? -1 : get(r, place);
}

static int read_get4(struct reader *r)
{
    uint32_t place;
    return take_number(r, 4, &place) < 0 ? -1 : get(r, place);
}

static int take_line(struct reader *r, const unsigned char **line, size_t *n)
{
    const unsigned char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (!end)
        return bad(r, "it ends in the middle of a name: damaged or truncated");
    *line = r->at;
    *n = (size_t)(end - r->at);
    r->at = end + 1;
    return 0;
}

static bool is_name(const char *name, const unsigned char *line, size_t n)
{
    return strlen(name) == n && memcmp(name, line, n) == 0;
}

static int read_global(struct reader *r)
{
    const unsigned char *module, *name;
    size_t m, n;
    if (take_line(r, &module, &m) < 0 || take_line(r, &name, &n) < 0)
        return -1;
    for (int i = 0; r->allowed[i].module; i++)
        if (is_name(r->allowed[i].module, module, m) && is_name(r->allowed[i].name, name, n))
            return push(r, (struct pickle_value){.kind = PICKLE_GLOBAL, .number = i});
    return err_set(r->err, ERR_DATA, "the pickle's byte %zu names %.*s.%.*s, neither a tensor nor part of one: "
                   "a file with such names may run programs when Python loads it",
                   (size_t)(module - r->begin), (int)(m < 80 ? m : 80), module, (int)(n < 80 ? n : 80), name);
}

static int read_reduce(struct reader *r)
{
    uint32_t args, callable;
    const struct pickle *p = r->pickle;
    if (pop(r, &args) < 0 || pop(r, &callable) < 0)
        return -1;
    if (p->value[args].kind != PICKLE_TUPLE || p->value[callable].kind != PICKLE_GLOBAL)
        return bad(r, "a call of something that is not a name, or without a tuple of arguments");
    return push(r, (struct pickle_value){.kind = PICKLE_CALL, .callable = callable, .args = args});
}

static int read_build(struct reader *r)
{
    uint32_t state, object;
    return pop(r, &state) < 0 ? -1 : top(r, PICKLE_CALL, PICKLE_CALL, &object);
}

static int read_stored(struct reader *r)
{
    uint32_t id;
    return pop(r, &id) < 0 ? -1 : push(r, (struct pickle_value){.kind = PICKLE_STORED, .args = id});
}

static int (*const opcode[256])(struct reader *) = {
    [0x80] = read_protocol,  ['.'] = read_stop,      ['N'] = read_none,     [0x88] = read_true,
    [0x89] = read_false,     ['K'] = read_int1,      ['M'] = read_int2,     ['J'] = read_int4,
    [0x8a] = read_long1,     ['G'] = read_float,     ['X'] = read_text,     ['('] = read_mark,
    [')'] = read_empty_tuple, [']'] = read_empty_list, ['}'] = read_empty_dict, ['t'] = read_tuple,
    [0x85] = read_tuple1,    [0x86] = read_tuple2,   [0x87] = read_tuple3,  ['a'] = read_append,
    ['e'] = read_appends,    ['s'] = read_set_item,  ['u'] = read_set_items, ['q'] = read_put1,
    ['r'] = read_put4,       ['h'] = read_get1,      ['j'] = read_get4,     ['c'] = read_global,
    ['R'] = read_reduce,     ['b'] = read_build,     ['Q'] = read_stored,
};

static int read_all(struct reader *r)
{
    if (r->end - r->at < 2 || r->at[0] != 0x80)
        return bad(r, "no pickle begins here");
    while (!r->stopped) {
        const unsigned char *code;
        if (take(r, 1, &code) < 0)
            return -1;
        if (!opcode[*code])
            return err_set(r->err, ERR_DATA, "the pickle's byte %zu: opcode 0x%02X, which torch.save() does not write",
                           (size_t)(code - r->begin), *code);
        if (opcode[*code](r) < 0)
            return -1;
    }
    return 0;
}

int pickle_parse(struct pickle **out, size_t *used, const unsigned char *bytes, size_t size,
                 const struct pickle_name *allowed, struct err *err)
{
    struct pickle *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_MEMORY, "no memory for a pickle");
    p->values = p->cells = 1;
    struct reader r = {.pickle = p, .begin = bytes, .at = bytes, .end = bytes + size, .allowed = allowed, .err = err};
    const int rc = read_all(&r);
    free(r.stack.at);
    free(r.marks.at);
    free(r.memo.at);
    *used = (size_t)(r.at - bytes);
    *out = rc == 0 ? p : NULL;
    if (rc < 0)
        pickle_free(p);
    return rc;
}

void pickle_free(struct pickle *p)
{
    if (!p)
        return;
    free(p->value);
    free(p->cell);
    free(p);
}

const struct pickle_value *pickle_root(const struct pickle *p)
{
    return &p->value[p->root];
}

uint32_t pickle_len(const struct pickle *p)
{
    return p->values;
}

const struct pickle_value *pickle_at(const struct pickle *p, uint32_t i)
{
    return &p->value[i];
}

const struct pickle_value *pickle_item(const struct pickle *p, uint32_t *next)
{
    if (*next == 0)
        return NULL;
    const struct cell *c = &p->cell[*next];
    *next = c->next;
    return &p->value[c->value];
}
