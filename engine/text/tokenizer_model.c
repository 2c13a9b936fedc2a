/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_model.c - tokenizer.model of SentencePiece; see tokenizer.h
 *
 * A protobuf message ModelProto: field 1, repeated, is a piece {1: text, 2: score, 3: type}.  Fields 2 and 3, how it
 * was trained and how text is normalised, must say BPE with bytes and no change of the text.  Merges are every split
 * of a piece into two pieces, by falling score, then by falling length in characters of the left and of the right one.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/utf8.h"
#include "engine/text/tokenizer_internal.h"

enum piece_type { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };
enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* Bytes of a message that are left. */
struct proto {
    const unsigned char *at, *end;
};

struct proto_field {
    uint64_t     number; /* of the field */
    enum wire    wire;
    uint64_t     value;  /* a varint, or 32 bits */
    struct proto bytes;
};

static bool read_varint(struct proto *p, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; p->at < p->end && shift < 64; shift += 7) {
        const unsigned char b = *p->at++;
        *out |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80)
            return true;
    }
    return false;
}

static bool take(struct proto *p, uint64_t n, struct proto *out)
{
    if (n > (uint64_t)(p->end - p->at))
        return false;
    *out = (struct proto){p->at, p->at + n};
    p->at += n;
    return true;
}

/* False: the message is damaged. */
static bool read_field(struct proto *p, struct proto_field *f)
{
    uint64_t key, n;
    if (!read_varint(p, &key))
        return false;
    f->number = key >> 3;
    f->wire = (enum wire)(key & 7);
    f->bytes = (struct proto){p->at, p->at};
    f->value = 0;
    switch (f->wire) {
    case VARINT:
        return read_varint(p, &f->value);
    case BYTES:
        return read_varint(p, &n) && take(p, n, &f->bytes);
    case FIXED64:
        return take(p, 8, &f->bytes);
    case FIXED32:
        if (!take(p, 4, &f->bytes))
            return false;
        memcpy(&f->value, f->bytes.at, 4);
        return true;
    }
    return false;
}

/* --- pieces ------------------------------------------------------------------------------ */

struct piece {
    const char     *text;
    size_t          n;
    float           score;
    enum piece_type type;
};

struct pieces {
    struct piece *piece;
    int           n, room;
};

static int damaged(const struct proto *whole, const unsigned char *at, struct err *err)
{
    return err_set(err, ERR_DATA, "byte %td: the message is damaged; a tokenizer.model of SentencePiece, or a "
                                  "tokenizer.json, is expected", at - whole->at);
}

static bool read_piece(struct proto p, struct piece *out)
{
    struct proto_field f;
    *out = (struct piece){.type = NORMAL};
    while (p.at < p.end) {
        if (!read_field(&p, &f))
            return false;
        if (f.number == 1 && f.wire == BYTES) {
            out->text = (const char *)f.bytes.at;
            out->n = (size_t)(f.bytes.end - f.bytes.at);
        } else if (f.number == 2 && f.wire == FIXED32) {
            memcpy(&out->score, f.bytes.at, sizeof(out->score));
        } else if (f.number == 3 && f.wire == VARINT) {
            out->type = (enum piece_type)f.value;
        }
    }
    return out->n > 0 && out->score == out->score;
}

static int add_piece(struct pieces *list, const struct piece *p, struct err *err)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 4096;
        struct piece *more = realloc(list->piece, (size_t)list->room * sizeof(*more));
        if (!more)
            return err_set(err, ERR_MEMORY, "no memory for %d pieces", list->room);
        list->piece = more;
    }
    list->piece[list->n++] = *p;
    return 0;
}

/* An added token, if it is one. */
static int index_piece(struct tokenizer *t, int id, const struct piece *p, struct err *err)
{
    const char tab = '\t';
    if (vocabulary_add(t->pieces, id, p->text, p->n, err) < 0)
        return -1;
    if (p->n == 6 && memcmp(p->text, "<0x09>", 6) == 0)
        return vocabulary_alias(t->pieces, id, &tab, 1, err);
    return p->type == CONTROL || p->type == UNKNOWN || p->type == USER_DEFINED
               ? added_tokens_add(&t->added, id, p->text, p->n, err)
               : 0;
}

/* Field 2: model_type (3) is 2 for BPE, byte_fallback (35) is 1. */
static int check_trainer(struct proto p, struct err *err)
{
    struct proto_field f;
    uint64_t type = 1, bytes = 0;
    while (p.at < p.end && read_field(&p, &f)) {
        type = f.number == 3 ? f.value : type;
        bytes = f.number == 35 ? f.value : bytes;
    }
    return type == 2 && bytes == 1
               ? 0
               : err_set(err, ERR_DATA, "the model is not BPE with byte fallback, the only kind that is supported");
}

/* Field 3: the map of characters (2) is empty, no dummy prefix (3), no removal of spaces (4). */
static int check_normalizer(struct proto p, struct err *err)
{
    struct proto_field f;
    uint64_t map = 0, prefix = 1, remove = 1;
    while (p.at < p.end && read_field(&p, &f)) {
        map = f.number == 2 ? (uint64_t)(f.bytes.end - f.bytes.at) : map;
        prefix = f.number == 3 ? f.value : prefix;
        remove = f.number == 4 ? f.value : remove;
    }
    return map == 0 && prefix == 0 && remove == 0
               ? 0
               : err_set(err, ERR_DATA, "the model changes text before it is split (normalizer_spec), which Gemma's "
                                        "does not: not supported");
}

static int read_model(struct tokenizer *t, struct pieces *list, struct proto whole, struct err *err)
{
    struct proto p = whole;
    struct proto_field f;
    struct piece piece;
    while (p.at < p.end) {
        const unsigned char *at = p.at;
        if (!read_field(&p, &f))
            return damaged(&whole, at, err);
        if (f.wire != BYTES)
            continue;
        if ((f.number == 2 && check_trainer(f.bytes, err) < 0) ||
            (f.number == 3 && check_normalizer(f.bytes, err) < 0))
            return -1;
        if (f.number != 1)
            continue;
        if (!read_piece(f.bytes, &piece))
            return damaged(&whole, at, err);
        if (index_piece(t, list->n, &piece, err) < 0 || add_piece(list, &piece, err) < 0)
            return -1;
    }
    return list->n ? 0 : damaged(&whole, whole.at, err);
}

/* --- merges ------------------------------------------------------------------------------ */

struct split {
    float   score;
    int32_t left, right, merged;
    int     left_n, right_n; /* characters */
};

struct splits {
    struct split *split;
    size_t        n, room;
};

static int add_split(struct splits *s, const struct split *one, struct err *err)
{
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 4096;
        struct split *more = realloc(s->split, s->room * sizeof(*more));
        if (!more)
            return err_set(err, ERR_MEMORY, "no memory for %zu merges", s->room);
        s->split = more;
    }
    s->split[s->n++] = *one;
    return 0;
}

static int characters(const char *text, size_t n)
{
    int count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

static int add_splits(const struct tokenizer *t, struct splits *s, int id, const struct piece *p, struct err *err)
{
    const int all = characters(p->text, p->n);
    int left_n = 0;
    for (size_t i = 1; i < p->n; i++) {
        if (((unsigned char)p->text[i] & 0xC0) == 0x80)
            continue;
        left_n++;
        const int left = vocabulary_find(t->pieces, p->text, i);
        const int right = left < 0 ? -1 : vocabulary_find(t->pieces, p->text + i, p->n - i);
        const struct split one = {p->score, left, right, id, left_n, all - left_n};
        if (right >= 0 && add_split(s, &one, err) < 0)
            return -1;
    }
    return 0;
}

/* Equal ones are of different pieces: in the order of these. */
static int compare_splits(const void *a, const void *b)
{
    const struct split *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left_n != y->left_n)
        return x->left_n > y->left_n ? -1 : 1;
    if (x->right_n != y->right_n)
        return x->right_n > y->right_n ? -1 : 1;
    return x->merged - y->merged;
}

static int make_merges(struct tokenizer *t, const struct pieces *list, struct err *err)
{
    struct splits s = {0};
    int rc = 0;
    for (int i = 0; i < list->n && rc == 0; i++)
        rc = list->piece[i].type == BYTE ? 0 : add_splits(t, &s, i, &list->piece[i], err);
    if (rc == 0 && s.n)
        qsort(s.split, s.n, sizeof(*s.split), compare_splits);
    for (size_t i = 0; i < s.n && rc == 0; i++)
        rc = bpe_add(t->merges, s.split[i].left, s.split[i].right, s.split[i].merged, err);
    free(s.split);
    return rc;
}

int tokenizer_model(struct tokenizer *t, const char *bytes, size_t size, struct err *err)
{
    const struct proto whole = {(const unsigned char *)bytes, (const unsigned char *)bytes + size};
    struct pieces list = {0};
    const int rc = read_model(t, &list, whole, err) < 0 ? -1 : make_merges(t, &list, err);
    free(list.piece);
    return rc;
}
