/* SPDX-License-Identifier: Apache-2.0 */
/* yaml.h - one YAML document as a tree in which every node knows where it stood
 *
 * libyaml gives events; this makes the tree that a spec checker needs: keys in
 * the order of the file, a line and column on every key and value, duplicate
 * keys refused, aliases and merge keys (`<<`) resolved into copies, so that the
 * tree is a real one and may be changed.  Bytes come from outside: size, depth
 * and number of nodes are capped before memory is taken, so that a small file
 * cannot unfold into a large tree.
 *
 * Scalars stay text; `plain` tells whether they stood without quotes.  Types
 * are the business of the reader, who knows what a key should be.
 */
#ifndef CONTROLLER_BASE_YAML_H
#define CONTROLLER_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum { YAML_TEXT_MAX = 1 << 20, YAML_DEPTH_MAX = 32, YAML_NODES_MAX = 20000 };

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

/* Counted from 1, in characters. line 0: it stands in no file. */
struct yaml_mark {
    int line, column;
};

struct yaml_node {
    enum yaml_kind    kind;
    struct yaml_mark  at;
    const char       *origin;   /* "--set a.b=c" where the node came from one, else NULL */
    const char       *text;     /* scalar */
    bool              plain;    /* scalar: without quotes and not a block */
    /* list and map, in the order of the file */
    struct yaml_node *first, *last, *next;
    int               count;
    /* as a map's entry */
    const char       *key;
    struct yaml_mark  key_at;
};

struct yaml_doc;

/* Parse the one document in `text`. On failure *out is NULL, *where is the place
 * (line 0 if there is none) and *err an ERR_USAGE sentence. An empty document
 * has a NULL root. Destroy frees all nodes and accepts NULL. */
int yaml_parse(struct yaml_doc **out, const char *text, struct yaml_mark *where, struct err *err);
void yaml_destroy(struct yaml_doc *doc);
struct yaml_node *yaml_root(struct yaml_doc *doc);

/* The entry of a map, or NULL. */
struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

/* Parse `text` as a value of its own into the same tree (--set): all its nodes get
 * `origin`, which is copied. Empty text is an empty scalar. */
int yaml_parse_value(struct yaml_doc *doc, struct yaml_node **out, const char *text,
                     const char *origin, struct err *err);

/* Put `value` into `map` under `key`, replacing what was there and keeping its place. */
int yaml_put(struct yaml_doc *doc, struct yaml_node *map, const char *key,
             struct yaml_node *value, struct err *err);

/* A new empty map in the same tree. */
struct yaml_node *yaml_new_map(struct yaml_doc *doc, const char *origin, struct err *err);

/* A plain scalar that means "nothing": empty, ~ or null. */
bool yaml_is_null(const struct yaml_node *node);

#endif
