/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - see npy.h */
#include "engine/files/npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/zip_records.h"

enum { HEADER_MAX = 1 << 16, RECORD_MAX = 1 << 30 };

/* Position in the header's text. */
struct scan {
    const char *at;
    bool        wrong;
};

static void skip_blanks(struct scan *s)
{
    s->at += strspn(s->at, " \t\r\n");
}

/* Is `c` next? Then it is passed. */
static bool take(struct scan *s, char c)
{
    skip_blanks(s);
    if (*s->at != c)
        return false;
    s->at++;
    return true;
}

static void need(struct scan *s, char c)
{
    if (!take(s, c))
        s->wrong = true;
}

/* A text in quotes without escapes. */
static void read_word(struct scan *s, char word[32])
{
    skip_blanks(s);
    const char quote = *s->at, *end = quote == '\'' || quote == '"' ? strchr(s->at + 1, quote) : NULL;
    word[0] = '\0';
    if (!end || end - s->at > 31) {
        s->wrong = true;
        return;
    }
    memcpy(word, s->at + 1, (size_t)(end - s->at - 1));
    word[end - s->at - 1] = '\0';
    s->at = end + 1;
}

static bool read_bool(struct scan *s)
{
    skip_blanks(s);
    const bool yes = strncmp(s->at, "True", 4) == 0;
    if (!yes && strncmp(s->at, "False", 5) != 0)
        s->wrong = true;
    else
        s->at += yes ? 4 : 5;
    return yes;
}

/* "(3, 4)", "(3,)", "()" */
static void read_shape(struct scan *s, struct st_tensor *t)
{
    need(s, '(');
    while (!s->wrong && !take(s, ')')) {
        char *end;
        skip_blanks(s);
        errno = 0;
        const long long n = *s->at >= '0' && *s->at <= '9' ? strtoll(s->at, &end, 10) : -1;
        if (n < 0 || errno || t->ndim == ST_DIMS) {
            s->wrong = true;
            return;
        }
        t->dim[t->ndim++] = n;
        s->at = end;
        if (!take(s, ',')) {
            need(s, ')');
            return;
        }
    }
}

static int dtype_of(const char *descr)
{
    static const struct {
        const char   *descr;
        enum st_dtype dtype;
    } known[] = {{"<f4", ST_F32}, {"<f8", ST_F64}, {"<f2", ST_F16}, {"<i8", ST_I64}, {"<i4", ST_I32},
                 {"<i2", ST_I16}, {"|i1", ST_I8},  {"|u1", ST_U8},  {"|b1", ST_BOOL}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].descr, descr) == 0)
            return (int)known[i].dtype;
    return -1;
}

/* The dict: three keys in any order. */
static bool read_dict(const char *text, struct npy *out, char descr[32])
{
    struct scan s = {.at = text};
    char key[32];
    int seen = 0;
    need(&s, '{');
    while (!s.wrong && !take(&s, '}')) {
        read_word(&s, key);
        need(&s, ':');
        if (strcmp(key, "descr") == 0)
            read_word(&s, descr), seen |= 1;
        else if (strcmp(key, "fortran_order") == 0)
            out->fortran = read_bool(&s), seen |= 2;
        else if (strcmp(key, "shape") == 0 && !(seen & 4))
            read_shape(&s, &out->tensor), seen |= 4;
        else
            return false;
        if (!take(&s, ',')) {
            need(&s, '}');
            break;
        }
    }
    return !s.wrong && seen == 7;
}

/* Number of numbers, or false: too many for the bytes. */
static bool count_numbers(struct st_tensor *t, size_t bytes)
{
    const size_t most = bytes / st_dtype_size(t->dtype);
    t->count = 1;
    for (int i = 0; i < t->ndim; i++) {
        if (t->dim[i] != 0 && t->count > most / (size_t)t->dim[i])
            return false;
        t->count *= (size_t)t->dim[i];
    }
    t->bytes = t->count * st_dtype_size(t->dtype);
    return t->bytes <= bytes;
}

/* The header's text with a NUL, and where the numbers begin; 0: malformed. */
static size_t read_header(char *text, const unsigned char *p, size_t size)
{
    if (size < 10 || memcmp(p, "\x93NUMPY", 6) != 0 || p[6] < 1 || p[6] > 3)
        return 0;
    const size_t at = p[6] == 1 ? 10 : 12;
    if (size < at)
        return 0;
    const size_t n = p[6] == 1 ? (size_t)p[8] | (size_t)p[9] << 8
                               : (size_t)p[8] | (size_t)p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (n >= HEADER_MAX || n > size - at)
        return 0;
    memcpy(text, p + at, n);
    text[n] = '\0';
    return at + n;
}

int npy_parse(struct npy *out, const void *bytes, size_t size, const char *name, struct err *err)
{
    char *text = malloc(HEADER_MAX), descr[32] = "";
    *out = (struct npy){0};
    if (!text)
        return err_set(err, ERR_MEMORY, "out of memory to read %s", name);
    const size_t at = read_header(text, bytes, size);
    const bool good = at > 0 && read_dict(text, out, descr);
    free(text);
    if (!good)
        return err_set(err, ERR_DATA, "%s is not an array of NumPy: its header is malformed", name);
    if (dtype_of(descr) < 0)
        return err_set(err, ERR_DATA, "%s is an array of type '%s', which is not supported; save it as float32 or "
                       "float16", name, descr);
    out->tensor.dtype = (enum st_dtype)dtype_of(descr);
    out->tensor.data = (const char *)bytes + at;
    out->tensor.at = at;
    if (!count_numbers(&out->tensor, size - at))
        return err_set(err, ERR_DATA, "%s is cut off: its shape needs more than its %zu bytes", name, size);
    return 0;
}

/* From the first index fastest to the last index fastest. */
static void reorder(float *dst, const float *from, const struct st_tensor *t)
{
    for (size_t i = 0; i < t->count; i++) {
        size_t rest = i, at = 0, step = 1;
        for (int d = 0; d < t->ndim; d++) { /* i in the file's order: index d is rest % dim[d] */
            const size_t n = (size_t)t->dim[d];
            step = 1;
            for (int k = d + 1; k < t->ndim; k++)
                step *= (size_t)t->dim[k];
            at += rest % n * step;
            rest /= n;
        }
        dst[at] = from[i];
    }
}

int npy_to_float(float *dst, const struct npy *a, size_t count, struct err *err)
{
    if (!a->fortran || a->tensor.ndim < 2)
        return st_to_float(dst, &a->tensor, count, err);
    float *file = malloc(sizeof(*file) * (count ? count : 1));
    const int rc = file ? st_to_float(file, &a->tensor, count, err)
                        : err_set(err, ERR_MEMORY, "out of memory for an array of NumPy");
    if (rc == 0)
        reorder(dst, file, &a->tensor);
    free(file);
    return rc;
}

int npy_from_archive(struct npy *out, void **owned, const void *bytes, size_t size, const char *key, const char *name,
                     struct err *err)
{
    struct zip_records z;
    char file[64];
    const int n = snprintf(file, sizeof(file), "%s.npy", key);
    *owned = NULL;
    if (zip_records_read_any(&z, bytes, size, err) < 0)
        return err_prefix(err, "%s: ", name);
    const struct zip_record *r = zip_records_find(&z, file, (size_t)n);
    int rc = r != NULL;
    if (r && r->full > RECORD_MAX)
        rc = err_set(err, ERR_DATA, "%s: %s has more than 1 GiB", name, file);
    else if (r && !(*owned = malloc(r->full + 1)))
        rc = err_set(err, ERR_MEMORY, "out of memory to read %s", name);
    else if (r && zip_records_copy(*owned, r, err) < 0)
        rc = err_prefix(err, "%s: ", name);
    else if (r && npy_parse(out, *owned, r->full, file, err) < 0)
        rc = err_prefix(err, "%s: ", name);
    zip_records_free(&z);
    if (rc < 0) {
        free(*owned);
        *owned = NULL;
    }
    return rc;
}
