/* SPDX-License-Identifier: Apache-2.0 */
/* pickle.h - reads Python's pickle, protocol 2, as a tree of values; nothing in it is executed
 *
 * Only the opcodes that torch.save() writes are read. A call becomes a value of kind PICKLE_CALL: the tree's reader
 * interprets it, and only names in the caller's list are accepted. BUILD, which sets the state of an object, is read
 * and dropped.
 *
 * Texts point into the bytes.  Memory is bounded: PICKLE_VALUES values, less than 40 MB.  The tree may share branches
 * and may, in a hostile file, contain itself: code that walks it must limit steps and depth.
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_WEIGHTS_PICKLE_H
#define ENGINE_WEIGHTS_PICKLE_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum { PICKLE_VALUES = 500000 };

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_LONG,   /* an integer beyond 64 bits: its bytes, little-endian, two's complement */
    PICKLE_FLOAT,
    PICKLE_TEXT,   /* UTF-8 */
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,   /* items: key, value, key, value, ... */
    PICKLE_GLOBAL, /* `number`: its index in the caller's list */
    PICKLE_CALL,   /* items as PICKLE_DICT, set after the call */
    PICKLE_STORED  /* a persistent id */
};

struct pickle_value {
    enum pickle_kind kind;
    uint32_t         len;         /* bytes of a text or long; items */
    union {
        int64_t              number; /* bool, int, global */
        double               real;
        const unsigned char *bytes;  /* text, long */
        struct {
            uint32_t first, last;    /* items of a tuple, list or dict, and of a call */
        };
    };
    uint32_t callable, args;         /* for a call; `args`: also the id of PICKLE_STORED */
};

struct pickle_name {
    const char *module, *name;
};

struct pickle;

/* Reads one pickle at the start of the bytes; *used: its length. `allowed` ends with a module of NULL.
 * ERR_DATA: with the byte at which the pickle is invalid. */
int pickle_parse(struct pickle **out, size_t *used, const unsigned char *bytes, size_t size,
                 const struct pickle_name *allowed, struct err *err);
void pickle_free(struct pickle *p); /* accepts NULL */

const struct pickle_value *pickle_root(const struct pickle *p);
/* Each value once: 0 .. pickle_len() - 1. */
uint32_t pickle_len(const struct pickle *p);
const struct pickle_value *pickle_at(const struct pickle *p, uint32_t i);
/* Iterates over items: *next starts as v->first, NULL after the last. */
const struct pickle_value *pickle_item(const struct pickle *p, uint32_t *next);

#endif
