/* SPDX-License-Identifier: Apache-2.0 */
/* yaml.h - parses one YAML document into a tree whose nodes have line and column
 *
 * libyaml supplies events; this builds the tree that a spec checker needs: keys
 * in file order, line and column on every key and value, duplicate keys
 * rejected, aliases and merge keys (`<<`) expanded into copies, so that nodes
 * can be changed independently.  Input is untrusted: size, depth and number of
 * nodes are limited before memory is allocated, so that a small file cannot
 * expand into a large tree.
 *
 * Scalars remain text; `plain` is true if they were unquoted.  The caller
 * converts types, because it knows the keys.
 */
#ifndef CONTROLLER_BASE_YAML_H
#define CONTROLLER_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct err;

enum { YAML_TEXT_MAX = 1 << 20, YAML_DEPTH_MAX = 32, YAML_NODES_MAX = 20000 };

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

/* Counted from 1, in characters. line 0: not from a file. */
struct yaml_mark {
    int line, column;
};

struct yaml_node {
    enum yaml_kind    kind;
    struct yaml_mark  at;
    const char       *origin;   /* "--set a.b=c" if the node came from one, else NULL */
    const char       *text;     /* scalar */
    bool              plain;    /* scalar: unquoted and not a block */
    /* list and map, in the order of the file */
    struct yaml_node *first, *last, *next;
    int               count;
    /* for entries of a map */
    const char       *key;
    struct yaml_mark  key_at;
};

struct yaml_doc;

/* The text of an open file, which is closed; free() it. NULL: unreadable, or not YAML (ERR_USAGE). */
char *yaml_read(FILE *f, const char *name, struct err *err);

/* Parses the one document in `text`. On failure *out is NULL, *where is the place
 * (line 0 if there is none) and *err is ERR_USAGE. An empty document has a NULL
 * root. Destroy frees all nodes and accepts NULL. */
int yaml_parse(struct yaml_doc **out, const char *text, struct yaml_mark *where, struct err *err);
void yaml_destroy(struct yaml_doc *doc);
struct yaml_node *yaml_root(struct yaml_doc *doc);

/* The entry of a map, or NULL. */
struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

/* Parses `text` as a separate value into the same tree (--set): all its nodes get
 * a copy of `origin`. Empty text is an empty scalar. */
int yaml_parse_value(struct yaml_doc *doc, struct yaml_node **out, const char *text,
                     const char *origin, struct err *err);

/* Sets `key` of `map` to `value`; an existing entry is replaced in place. */
int yaml_put(struct yaml_doc *doc, struct yaml_node *map, const char *key, struct yaml_node *value, struct err *err);

/* A new scalar in the tree, with line 0; the text is copied. NULL: no memory. */
struct yaml_node *yaml_new_scalar(struct yaml_doc *doc, const char *text, bool plain, struct err *err);

/* A new empty map in the same tree. */
struct yaml_node *yaml_new_map(struct yaml_doc *doc, const char *origin, struct err *err);

/* A plain scalar that means "nothing": empty, ~ or null. */
bool yaml_is_null(const struct yaml_node *node);

#endif
