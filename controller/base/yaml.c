/* SPDX-License-Identifier: Apache-2.0 */
/* yaml.c - see yaml.h
 *
 * Composing is recursive, one call per level of nesting, bounded by
 * YAML_DEPTH_MAX.  Nodes and text live in blocks that the document owns.
 */
#include "controller/base/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "engine/base/err.h"

enum { BLOCK = 16384 };

struct block {
    struct block *next;
    size_t        used, size;
    char          bytes[];
};

struct anchor {
    struct anchor    *next;
    const char       *name;
    struct yaml_node *node; /* NULL while being composed: an alias to it would be a cycle */
};

struct yaml_doc {
    struct block     *blocks;
    struct yaml_node *root;
    int               nodes;
};

/* The state of one parse. */
struct composer {
    struct yaml_doc *doc;
    yaml_parser_t    parser;
    yaml_event_t     event;       /* the current one */
    struct anchor   *anchors;
    const char      *text, *origin;
    struct yaml_mark where;       /* of the failure */
    struct err      *err;
};

static void *take(struct yaml_doc *doc, size_t size, struct err *err)
{
    size = (size + 15) & ~(size_t)15;
    struct block *b = doc->blocks;
    if (!b || b->size - b->used < size) {
        size_t room = size > BLOCK ? size : BLOCK;
        b = malloc(sizeof(*b) + room);
        if (!b) {
            err_set(err, ERR_MEMORY, "out of memory while reading YAML");
            return NULL;
        }
        b->next = doc->blocks;
        b->used = 0;
        b->size = room;
        doc->blocks = b;
    }
    void *p = b->bytes + b->used;
    b->used += size;
    return memset(p, 0, size);
}

static char *take_text(struct yaml_doc *doc, const char *s, struct err *err)
{
    size_t n = strlen(s) + 1;
    char *p = take(doc, n, err);
    return p ? memcpy(p, s, n) : NULL;
}

static int __attribute__((format(printf, 3, 4)))
fail(struct composer *c, struct yaml_mark at, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    c->where = at;
    return err_set(c->err, ERR_USAGE, "%s", text);
}

static struct yaml_mark mark(yaml_mark_t m)
{
    return (struct yaml_mark){ (int)m.line + 1, (int)m.column + 1 };
}

static struct yaml_node *new_node(struct composer *c, enum yaml_kind kind, struct yaml_mark at)
{
    if (c->doc->nodes >= YAML_NODES_MAX) {
        fail(c, at, "the file expands to more than 20000 values; is an alias repeated?");
        return NULL;
    }
    struct yaml_node *n = take(c->doc, sizeof(*n), c->err);
    if (!n)
        return NULL;
    c->doc->nodes++;
    n->kind = kind;
    n->at = c->origin ? (struct yaml_mark){ 0, 0 } : at;
    n->origin = c->origin;
    return n;
}

static void append(struct yaml_node *parent, struct yaml_node *child)
{
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
    if (!map || map->kind != YAML_MAP)
        return NULL;
    for (struct yaml_node *n = map->first; n; n = n->next)
        if (strcmp(n->key, key) == 0)
            return n;
    return NULL;
}

/* The line and column of a byte, for errors that libyaml reports by offset. */
static struct yaml_mark place_of(const char *text, size_t offset)
{
    struct yaml_mark m = { 1, 1 };
    for (size_t i = 0; i < offset && text[i]; i++) {
        if (text[i] == '\n') {
            m.line++;
            m.column = 1;
        } else if (((unsigned char)text[i] & 0xC0) != 0x80) {
            m.column++;
        }
    }
    return m;
}

static char char_at(const char *text, yaml_mark_t m)
{
    return m.index < strlen(text) ? text[m.index] : '\0';
}

/* Translates libyaml's error into words that need no knowledge of YAML's grammar. */
static int parser_failed(struct composer *c)
{
    yaml_parser_t *p = &c->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return err_set(c->err, ERR_MEMORY, "out of memory while reading YAML");
    if (p->error == YAML_READER_ERROR) {
        bool control = p->problem && strstr(p->problem, "control");
        return fail(c, place_of(c->text, p->problem_offset),
                    "%s", control ? "the file contains a control character here; remove it"
                                    : "the file is not valid UTF-8 here; save it as UTF-8");
    }
    yaml_mark_t m = p->problem_mark;
    const char *problem = p->problem ? p->problem : "it cannot be read";
    if (char_at(c->text, m) == '\t')
        return fail(c, mark(m), "tab character in the indentation; YAML requires spaces");
    if (strstr(problem, "mapping values are not allowed"))
        return fail(c, mark(m), "second \": \" on one line; put the value in quotes, or check the "
                    "indentation of the line above");
    if (strstr(problem, "unexpected end of stream"))
        return fail(c, mark(p->context_mark), "the quote opened here is never closed");
    if (strstr(problem, "did not find expected key"))
        return fail(c, mark(m), "the indentation of this line does not match the lines around it");
    if (strstr(problem, "',' or"))
        return fail(c, mark(p->context_mark),
                    "the bracket opened here is never closed, or a comma is missing");
    return fail(c, mark(m), "this is not valid YAML: %s", problem);
}

static int next_event(struct composer *c)
{
    yaml_event_delete(&c->event);
    if (!yaml_parser_parse(&c->parser, &c->event)) {
        memset(&c->event, 0, sizeof(c->event));
        return parser_failed(c);
    }
    return 0;
}

/* A deep copy, so that --set can change one without the other. */
static struct yaml_node *copy(struct composer *c, const struct yaml_node *from)
{
    struct yaml_node *n = new_node(c, from->kind, from->at);
    if (!n)
        return NULL;
    n->text = from->text;
    n->plain = from->plain;
    for (const struct yaml_node *i = from->first; i; i = i->next) {
        struct yaml_node *child = copy(c, i);
        if (!child)
            return NULL;
        child->key = i->key;
        child->key_at = i->key_at;
        append(n, child);
    }
    return n;
}

static struct anchor *note_anchor(struct composer *c, const yaml_char_t *name)
{
    struct anchor *a = take(c->doc, sizeof(*a), c->err);
    if (!a || !(a->name = take_text(c->doc, (const char *)name, c->err)))
        return NULL;
    a->next = c->anchors;
    c->anchors = a;
    return a;
}

static struct yaml_node *compose_alias(struct composer *c)
{
    const char *name = (const char *)c->event.data.alias.anchor;
    struct yaml_mark at = mark(c->event.start_mark);
    struct anchor *a = c->anchors;
    while (a && strcmp(a->name, name) != 0)
        a = a->next;
    if (!a) {
        fail(c, at, "alias *%s has no anchor before it", name);
        return NULL;
    }
    if (!a->node) {
        fail(c, at, "alias *%s is inside its own anchor", name);
        return NULL;
    }
    return copy(c, a->node);
}

static struct yaml_node *compose(struct composer *c, int depth);

static int compose_list(struct composer *c, struct yaml_node *list, int depth)
{
    for (;;) {
        if (next_event(c) < 0)
            return -1;
        if (c->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        struct yaml_node *item = compose(c, depth + 1);
        if (!item)
            return -1;
        append(list, item);
    }
}

/* Keys of `from` that `map` lacks. */
static int merge(struct composer *c, struct yaml_node *map, const struct yaml_node *from, struct yaml_mark at)
{
    if (from->kind == YAML_LIST) {
        for (const struct yaml_node *i = from->first; i; i = i->next)
            if (i->kind != YAML_MAP)
                return fail(c, at, "a merge key (<<) takes maps only");
            else if (merge(c, map, i, at) < 0)
                return -1;
        return 0;
    }
    if (from->kind != YAML_MAP)
        return fail(c, at, "a merge key (<<) takes a map, or a list of maps");
    for (const struct yaml_node *i = from->first; i; i = i->next) {
        if (yaml_get(map, i->key))
            continue;
        struct yaml_node *n = copy(c, i);
        if (!n)
            return -1;
        n->key = i->key;
        n->key_at = i->key_at;
        append(map, n);
    }
    return 0;
}

static int compose_key(struct composer *c, const char **key, struct yaml_mark *at)
{
    *at = mark(c->event.start_mark);
    if (c->event.type != YAML_SCALAR_EVENT)
        return fail(c, *at, "a key must be plain text, not a list, a map or an alias");
    if (c->event.data.scalar.length != strlen((char *)c->event.data.scalar.value))
        return fail(c, *at, "a key contains a NUL byte");
    *key = take_text(c->doc, (char *)c->event.data.scalar.value, c->err);
    return *key ? 0 : -1;
}

static int compose_map(struct composer *c, struct yaml_node *map, int depth)
{
    struct yaml_node *merged = NULL;
    struct yaml_mark merged_at = { 0, 0 };
    for (;;) {
        const char *key = NULL;
        struct yaml_mark at;
        if (next_event(c) < 0)
            return -1;
        if (c->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (compose_key(c, &key, &at) < 0 || next_event(c) < 0)
            return -1;
        struct yaml_node *value = compose(c, depth + 1);
        if (!value)
            return -1;
        bool is_merge = strcmp(key, "<<") == 0;
        const struct yaml_node *twin = is_merge ? merged : yaml_get(map, key);
        if (twin) {
            int line = is_merge ? merged_at.line : twin->key_at.line;
            return fail(c, at, "key \"%s\" is given twice; the first is on line %d", key, line);
        }
        if (is_merge) {
            merged = value;
            merged_at = at;
            continue;
        }
        value->key = key;
        value->key_at = c->origin ? (struct yaml_mark){ 0, 0 } : at;
        append(map, value);
    }
    return merged ? merge(c, map, merged, merged_at) : 0;
}

static int refuse_tag(struct composer *c, const yaml_char_t *tag, struct yaml_mark at)
{
    if (!tag || strcmp((const char *)tag, "!") == 0)
        return 0;
    return fail(c, at, "tag %s is not supported; remove it", (const char *)tag);
}

static struct yaml_node *compose_scalar(struct composer *c, struct yaml_mark at)
{
    const char *value = (const char *)c->event.data.scalar.value;
    if (refuse_tag(c, c->event.data.scalar.tag, at) < 0)
        return NULL;
    if (c->event.data.scalar.length != strlen(value)) {
        fail(c, at, "this text contains a NUL byte");
        return NULL;
    }
    struct yaml_node *n = new_node(c, YAML_SCALAR, at);
    if (!n || !(n->text = take_text(c->doc, value, c->err)))
        return NULL;
    n->plain = c->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return n;
}

/* Composes the node that starts at the current event. */
static struct yaml_node *compose(struct composer *c, int depth)
{
    struct yaml_mark at = mark(c->event.start_mark);
    if (depth > YAML_DEPTH_MAX) {
        fail(c, at, "the file is nested deeper than 32 levels");
        return NULL;
    }
    if (c->event.type == YAML_ALIAS_EVENT)
        return compose_alias(c);
    const yaml_char_t *anchor = c->event.type == YAML_SCALAR_EVENT ? c->event.data.scalar.anchor
        : c->event.type == YAML_SEQUENCE_START_EVENT ? c->event.data.sequence_start.anchor
        : c->event.data.mapping_start.anchor;
    struct anchor *noted = NULL;
    if (anchor && !(noted = note_anchor(c, anchor)))
        return NULL;
    struct yaml_node *n;
    if (c->event.type == YAML_SCALAR_EVENT) {
        n = compose_scalar(c, at);
    } else if (c->event.type == YAML_SEQUENCE_START_EVENT) {
        if (refuse_tag(c, c->event.data.sequence_start.tag, at) < 0)
            return NULL;
        n = new_node(c, YAML_LIST, at);
        if (n && compose_list(c, n, depth) < 0)
            return NULL;
    } else {
        if (refuse_tag(c, c->event.data.mapping_start.tag, at) < 0)
            return NULL;
        n = new_node(c, YAML_MAP, at);
        if (n && compose_map(c, n, depth) < 0)
            return NULL;
    }
    if (noted)
        noted->node = n;
    return n;
}

/* Parses c->text; *root stays NULL if it is empty. */
static int compose_stream(struct composer *c, struct yaml_node **root)
{
    if (next_event(c) < 0 || next_event(c) < 0) /* stream start, then document or end */
        return -1;
    if (c->event.type == YAML_STREAM_END_EVENT)
        return 0;
    if (next_event(c) < 0)
        return -1;
    struct yaml_node *n = compose(c, 1);
    if (!n || next_event(c) < 0 || next_event(c) < 0) /* document end, then stream end */
        return -1;
    if (c->event.type != YAML_STREAM_END_EVENT)
        return fail(c, mark(c->event.start_mark),
                    "a second document begins here; a file describes one job");
    *root = n;
    return 0;
}

char *yaml_read(FILE *f, const char *name, struct err *err)
{
    char *text = malloc(YAML_TEXT_MAX + 2);     /* pages that are not read into are never touched */
    size_t n = text ? fread(text, 1, YAML_TEXT_MAX + 1, f) : 0;
    int rc = 0;
    if (!text)
        rc = err_set(err, ERR_MEMORY, "out of memory while reading %s", name);
    else if (ferror(f))
        rc = err_set(err, ERR_USAGE, "cannot read %s: %m", name);
    else if (n > YAML_TEXT_MAX || memchr(text, 0, n))
        rc = err_set(err, ERR_USAGE, "%s is larger than 1 MiB or contains a NUL byte; is it YAML?", name);
    if (f != stdin)
        fclose(f);
    if (rc == 0) {
        text[n] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

static int compose_text(struct composer *c, struct yaml_node **root)
{
    size_t size = strlen(c->text);
    if (size > YAML_TEXT_MAX)
        return fail(c, (struct yaml_mark){ 0, 0 }, "the text is larger than 1 MiB");
    if (!yaml_parser_initialize(&c->parser))
        return err_set(c->err, ERR_MEMORY, "out of memory while reading YAML");
    yaml_parser_set_encoding(&c->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&c->parser, (const unsigned char *)c->text, size);
    int rc = compose_stream(c, root);
    yaml_event_delete(&c->event);
    yaml_parser_delete(&c->parser);
    return rc;
}

int yaml_parse(struct yaml_doc **out, const char *text, struct yaml_mark *where, struct err *err)
{
    *out = NULL;
    struct yaml_doc *doc = calloc(1, sizeof(*doc));
    if (!doc)
        return err_set(err, ERR_MEMORY, "out of memory while reading YAML");
    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0)
        text += 3;
    struct composer c = { .doc = doc, .text = text, .err = err };
    if (compose_text(&c, &doc->root) < 0) {
        *where = c.where;
        yaml_destroy(doc);
        return -1;
    }
    *out = doc;
    return 0;
}

int yaml_parse_value(struct yaml_doc *doc, struct yaml_node **out, const char *text,
                     const char *origin, struct err *err)
{
    struct composer c = { .doc = doc, .text = text, .err = err };
    *out = NULL;
    if (!(c.origin = take_text(doc, origin, err)) || compose_text(&c, out) < 0)
        return -1;
    if (!*out && (*out = new_node(&c, YAML_SCALAR, (struct yaml_mark){ 0, 0 }))) {
        (*out)->text = "";
        (*out)->plain = true;
    }
    return *out ? 0 : -1;
}

struct yaml_node *yaml_new_map(struct yaml_doc *doc, const char *origin, struct err *err)
{
    struct composer c = { .doc = doc, .err = err };
    if (origin && !(c.origin = take_text(doc, origin, err)))
        return NULL;
    return new_node(&c, YAML_MAP, (struct yaml_mark){ 1, 1 });
}

struct yaml_node *yaml_new_scalar(struct yaml_doc *doc, const char *text, bool plain, struct err *err)
{
    struct composer c = { .doc = doc, .err = err };
    struct yaml_node *n = new_node(&c, YAML_SCALAR, (struct yaml_mark){ 0, 0 });
    if (!n || !(n->text = take_text(doc, text, err)))
        return NULL;
    n->plain = plain;
    return n;
}

int yaml_put(struct yaml_doc *doc, struct yaml_node *map, const char *key, struct yaml_node *value, struct err *err)
{
    struct yaml_node *old = yaml_get(map, key);
    if (old) {
        struct yaml_node *next = old->next;
        const char *name = old->key;
        *old = *value;
        old->next = next;
        old->key = name;
        return 0;
    }
    if (!(value->key = take_text(doc, key, err)))
        return -1;
    append(map, value);
    return 0;
}

struct yaml_node *yaml_root(struct yaml_doc *doc)
{
    return doc->root;
}

void yaml_destroy(struct yaml_doc *doc)
{
    if (!doc)
        return;
    for (struct block *b = doc->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(doc);
}

bool yaml_is_null(const struct yaml_node *node)
{
    return node->kind == YAML_SCALAR && node->plain &&
           (!node->text[0] || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}
