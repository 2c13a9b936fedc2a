/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.c - see tokenizer.h */
#include "engine/text/tokenizer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/err.h"
#include "engine/base/utf8.h"
#include "engine/files/mapped_file.h"
#include "engine/text/tokenizer_internal.h"

static const char space[] = "\xE2\x96\x81"; /* U+2581 */
static const char unknown_character[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* --- opening ----------------------------------------------------------------------------- */

/* The id of one piece, or -1. */
static int find(const struct tokenizer *t, const char *piece)
{
    return vocabulary_find(t->pieces, piece, strlen(piece));
}

/* Byte 9 has the name of the character in tokenizer.json. */
static int find_bytes(struct tokenizer *t, struct err *err)
{
    for (int b = 0; b < 256; b++) {
        char name[8];
        const char tab = '\t';
        snprintf(name, sizeof(name), "<0x%02X>", (unsigned)b);
        if ((t->byte[b] = find(t, name)) < 0 && b == tab)
            t->byte[b] = vocabulary_find(t->pieces, &tab, 1);
        if (t->byte[b] < 0)
            return err_set(err, ERR_DATA, "the piece %s is missing; a tokenizer with byte fallback is expected", name);
    }
    return 0;
}

static int find_special(struct tokenizer *t, struct err *err)
{
    t->bos = find(t, "<bos>");
    t->pad = find(t, "<pad>");
    if (t->bos < 0 || t->pad < 0)
        return err_set(err, ERR_DATA, "the piece %s is missing; a tokenizer of Gemma is expected",
                       t->bos < 0 ? "<bos>" : "<pad>");
    return 0;
}

/* A tokenizer.model begins with the byte of its first piece's field, 0x0A, and a length. */
static bool is_json(const char *bytes, size_t size)
{
    size_t i = 0;
    while (i < size && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r' || bytes[i] == '\n'))
        i++;
    return i < size && bytes[i] == '{';
}

int tokenizer_parse(struct tokenizer **out, const char *bytes, size_t size, struct err *err)
{
    struct tokenizer *t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(err, ERR_MEMORY, "no memory for a tokenizer");
    if (vocabulary_create(&t->pieces, size, err) < 0 || bpe_create(&t->merges, err) < 0 ||
        (is_json(bytes, size) ? tokenizer_json : tokenizer_model)(t, bytes, size, err) < 0 || find_bytes(t, err) < 0 ||
        find_special(t, err) < 0) {
        tokenizer_close(t);
        return -1;
    }
    added_tokens_sort(&t->added);
    *out = t;
    return 0;
}

static int open_file(struct tokenizer **out, const char *path, struct err *err)
{
    struct mapped_file file;
    if (mapped_file_open(&file, path, err) < 0)
        return -1;
    const int rc = tokenizer_parse(out, (const char *)file.bytes, file.size, err);
    mapped_file_close(&file);
    return rc < 0 ? err_prefix(err, "%s: ", path) : 0;
}

int tokenizer_open(struct tokenizer **out, const char *path, struct err *err)
{
    static const char *const name[] = {"tokenizer.json", "tokenizer.model"};
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return open_file(out, path, err);
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        char inside[4096];
        if (snprintf(inside, sizeof(inside), "%s/%s", path, name[i]) < (int)sizeof(inside) && stat(inside, &st) == 0)
            return open_file(out, inside, err);
    }
    return err_set(err, ERR_NOT_FOUND, "%s: has neither tokenizer.json nor tokenizer.model", path);
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    vocabulary_destroy(t->pieces);
    bpe_destroy(t->merges);
    added_tokens_free(&t->added);
    free(t);
}

int tokenizer_size(const struct tokenizer *t)
{
    return vocabulary_size(t->pieces);
}

int tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int tokenizer_pad(const struct tokenizer *t)
{
    return t->pad;
}

/* --- encoding ---------------------------------------------------------------------------- */

static int reserve(struct token_ids *ids, size_t more, struct err *err)
{
    if (ids->n + more <= ids->room)
        return 0;
    const size_t room = 2 * (ids->n + more);
    int32_t *id = realloc(ids->id, room * sizeof(*id));
    if (!id)
        return err_set(err, ERR_MEMORY, "no memory for %zu tokens", room);
    ids->id = id;
    ids->room = room;
    return 0;
}

/* One character as symbols: itself, or its bytes. There is room. */
static void add_character(const struct tokenizer *t, struct token_ids *out, const char *c, size_t n)
{
    const int id = vocabulary_find(t->pieces, c, n);
    if (id >= 0)
        out->id[out->n++] = id;
    for (size_t i = 0; id < 0 && i < n; i++)
        out->id[out->n++] = t->byte[(unsigned char)c[i]];
}

/* Text without added tokens. A byte becomes three symbols at most. */
static int encode_plain(const struct tokenizer *t, struct token_ids *out, const char *text, size_t n, struct err *err)
{
    const size_t from = out->n;
    uint32_t c;
    if (n == 0)
        return 0; /* out->id may be NULL */
    if (reserve(out, 3 * n, err) < 0)
        return -1;
    for (size_t i = 0, k; i < n; i += k ? k : 1) {
        k = utf8_read(text + i, n - i, &c);
        if (k == 0)
            add_character(t, out, unknown_character, sizeof(unknown_character) - 1);
        else if (c == ' ')
            add_character(t, out, space, sizeof(space) - 1);
        else
            add_character(t, out, text + i, k);
    }
    const int64_t left = bpe_run(t->merges, out->id + from, out->n - from, err);
    out->n = from + (left < 0 ? 0 : (size_t)left);
    return left < 0 ? -1 : 0;
}

int tokenizer_encode(const struct tokenizer *t, struct token_ids *out, const char *text, size_t n, struct err *err)
{
    size_t from = 0, at = 0;
    while (at < n) {
        const struct added_token *a = added_tokens_find(&t->added, text + at, n - at);
        if (!a) {
            at++;
            continue;
        }
        if (encode_plain(t, out, text + from, at - from, err) < 0 || reserve(out, 1, err) < 0)
            return -1;
        out->id[out->n++] = a->id;
        from = at += a->n;
    }
    return encode_plain(t, out, text + from, n - from, err);
}

/* --- decoding ---------------------------------------------------------------------------- */

struct decoded {
    char  *text;
    size_t n, room;
    char   bytes[4096]; /* of pieces <0xNN> in a row */
    size_t waiting;
};

static int append(struct decoded *d, const char *text, size_t n, struct err *err)
{
    if (d->n + n >= d->room) {
        const size_t room = 2 * (d->n + n) + 64;
        char *more = realloc(d->text, room);
        if (!more)
            return err_set(err, ERR_MEMORY, "no memory for a text of %zu bytes", room);
        d->text = more;
        d->room = room;
    }
    memcpy(d->text + d->n, text, n);
    d->n += n;
    return 0;
}

static bool is_text(const char *bytes, size_t n)
{
    uint32_t c;
    for (size_t i = 0, k; i < n; i += k)
        if ((k = utf8_read(bytes + i, n - i, &c)) == 0)
            return false;
    return true;
}

/* As the tokenizers library does: bytes in a row are text, or each is U+FFFD. */
static int flush_bytes(struct decoded *d, struct err *err)
{
    const size_t n = d->waiting;
    d->waiting = 0;
    if (is_text(d->bytes, n))
        return append(d, d->bytes, n, err);
    for (size_t i = 0; i < n; i++)
        if (append(d, unknown_character, sizeof(unknown_character) - 1, err) < 0)
            return -1;
    return 0;
}

/* -1 if the piece is not a byte, <0x00> to <0xFF>. */
static int byte_of(const char *piece, size_t n)
{
    char text[8] = "", *end;
    if (n != 6 || memcmp(piece, "<0x", 3) != 0)
        return -1;
    memcpy(text, piece + 3, 3);
    const long byte = strtol(text, &end, 16);
    return end == text + 2 && *end == '>' ? (int)byte : -1;
}

static int append_piece(struct decoded *d, const char *piece, size_t n, struct err *err)
{
    for (size_t i = 0; i < n;) {
        const bool blank = n - i >= sizeof(space) - 1 && memcmp(piece + i, space, sizeof(space) - 1) == 0;
        if (append(d, blank ? " " : piece + i, 1, err) < 0)
            return -1;
        i += blank ? sizeof(space) - 1 : 1;
    }
    return 0;
}

static int decode_one(const struct tokenizer *t, struct decoded *d, int32_t id, struct err *err)
{
    size_t n;
    const char *piece = vocabulary_text(t->pieces, id, &n);
    if (!piece)
        return err_set(err, ERR_USAGE, "the tokenizer has no token %d", id);
    const int byte = byte_of(piece, n);
    if ((byte < 0 || d->waiting == sizeof(d->bytes)) && flush_bytes(d, err) < 0)
        return -1;
    if (byte < 0)
        return append_piece(d, piece, n, err);
    d->bytes[d->waiting++] = (char)byte;
    return 0;
}

char *tokenizer_decode(const struct tokenizer *t, const int32_t *id, size_t n, size_t *bytes, struct err *err)
{
    struct decoded d = {0};
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = decode_one(t, &d, id[i], err);
    if (rc < 0 || flush_bytes(&d, err) < 0 || append(&d, "", 1, err) < 0) {
        free(d.text);
        return NULL;
    }
    if (bytes)
        *bytes = d.n - 1;
    return d.text;
}
