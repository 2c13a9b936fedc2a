/* SPDX-License-Identifier: Apache-2.0 */
/* collection_folder.c - pictures in a directory: all of them, or those that meta_data.json lists */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/base/utf8.h"
#include "engine/collection/collection_internal.h"
#include "engine/image/image.h"

enum { CAPTION_MAX = 16384 };

size_t collection_stem(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *first = base + strspn(base, "."), *dot = strrchr(first, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* --- files, for all layouts of files ------------------------------------------------------ */

int collection_file_load(struct collection_bytes *out, const struct collection *c, const char *name, struct err *err)
{
    char *path = collection_text(err, "%s/%s", c->path, name);
    *out = (struct collection_bytes){.name = path};
    return path ? image_load(&out->at, &out->size, path, err) : -1;
}

int collection_file_stat(struct collection_sample *s, const struct collection *c, const char *name, struct err *err)
{
    struct stat st;
    char *path = collection_text(err, "%s/%s", c->path, name);
    const int rc = path ? stat(path, &st) : -1;
    if (rc == 0) {
        s->bytes = st.st_size;
        s->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    } else if (path && (errno == ENOENT || errno == ENOTDIR)) {
        err_set(err, ERR_DATA, "cannot read the picture %s: %s", path, strerror(errno));
    } else if (path) {
        err_set_errno(err, errno, "cannot read the picture %s", path);
    }
    free(path);
    return rc;
}

/* NAME<suffix>.json beside the picture; `s->name` is its path in the directory. */
char *collection_file_side(const struct collection *c, int64_t i, const struct collection_sample *s, const char *suffix,
                           struct err *err)
{
    (void)i;
    return collection_text(err, "%s/%.*s%s.json", c->path, (int)collection_stem(s->name), s->name, suffix);
}

/* --- names -------------------------------------------------------------------------------- */

static const char *name_of(const struct collection *c, int64_t i)
{
    return c->names + c->name_at[i];
}

/* Into the block of names; its place there, or -1. */
static int64_t keep_name(struct collection *c, const char *name, struct err *err)
{
    const size_t n = strlen(name) + 1, at = c->names_len;
    if (at + n > c->names_room) {
        const size_t room = (at + n) * 2;
        char *more = realloc(c->names, room);
        if (!more)
            return err_set(err, ERR_MEMORY, "out of memory for names of %zu bytes", room);
        c->names = more;
        c->names_room = room;
    }
    memcpy(c->names + at, name, n);
    c->names_len += n;
    return (int64_t)at;
}

static int add_name(struct collection *c, const char *name, struct err *err)
{
    uint64_t *more = collection_grow(c->name_at, c->len, sizeof(*more), err);
    c->name_at = more ? more : c->name_at;
    const int64_t at = more ? keep_name(c, name, err) : -1;
    if (at < 0)
        return -1;
    c->name_at[c->len++] = (uint64_t)at;
    return 0;
}

static int load_folder(struct collection_bytes *out, const struct collection *c, int64_t i, struct err *err)
{
    return collection_file_load(out, c, name_of(c, i), err);
}

/* --- a text file beside a picture ----------------------------------------------------------- */

/* The bytes of a text file with a NUL behind them, owned by the caller; NULL without an error: there is
 * no such file. */
static char *read_text(const char *path, size_t *size, struct err *err)
{
    char *text = NULL;
    size_t room = 0;
    FILE *in = fopen(path, "re");
    *size = 0;
    if (!in && errno != ENOENT)
        err_set_errno(err, errno, "cannot read %s", path);
    if (!in)
        return NULL;
    errno = 0;
    const ssize_t n = getdelim(&text, &room, '\0', in); /* to the end: a caption has no byte 0 */
    const int failed = ferror(in) ? errno : 0;
    const bool more = n > 0 && text[n - 1] == '\0';
    fclose(in);
    if (failed)
        err_set_errno(err, failed, "cannot read %s", path);
    else if (more)
        err_set(err, ERR_DATA, "%s: the caption holds a byte 0", path);
    else if (n <= 0 && (free(text), !(text = calloc(1, 1))))
        err_set(err, ERR_MEMORY, "out of memory for a caption");
    else
        return *size = n > 0 ? (size_t)n : 0, text;
    free(text);
    return NULL;
}

static int check_length(const char *text, const char *path, struct err *err)
{
    if (strlen(text) > CAPTION_MAX)
        return err_set(err, ERR_DATA, "%s is longer than a caption may be (%d bytes)", path, CAPTION_MAX);
    return 0;
}

/* NAME.json beside a picture, if it describes that: it has a "prompt". */
static int read_json(json_t **out, const char *path, struct err *err)
{
    json_error_t why;
    FILE *in = fopen(path, "re");
    *out = NULL;
    if (!in)
        return errno == ENOENT ? 0 : err_set_errno(err, errno, "cannot read %s", path);
    *out = json_loadf(in, 0, &why);
    fclose(in);
    if (!*out)
        return err_set(err, ERR_DATA, "%s:%d: not JSON: %s", path, why.line, why.text);
    if (json_is_object(*out) && json_object_get(*out, "prompt"))
        return 0;
    json_decref(*out); /* a side file with the suffix "" */
    *out = NULL;
    return 0;
}

static int no_caption(const struct collection *c, const char *name, struct err *err)
{
    const int n = (int)collection_stem(name);
    return err_set(err, ERR_DATA, "%s/%s has no caption: there is no %.*s.txt, and no %.*s.json with a \"prompt\"",
                   c->path, name, n, name, n, name);
}

/* 1: added; 0: there is no NAME.txt. */
static int add_txt(struct collection_sample *s, const struct collection *c, struct err *err)
{
    size_t size;
    struct err why = {0};
    char *path = collection_text(&why, "%s/%.*s.txt", c->path, (int)collection_stem(s->name), s->name);
    char *text = path ? read_text(path, &size, &why) : NULL;
    int rc = why.code ? -1 : text != NULL;
    if (text) {
        collection_trim(text);
        rc = check_length(text, path, &why) < 0 || collection_add_caption(s, "prompt", text, &why) < 0 ? -1 : 1;
    }
    free(text);
    free(path);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* The caption by NAME.txt, else by NAME.json; *own gets what NAME.json says. */
static int add_beside(struct collection_sample *s, const struct collection *c, json_t **own, struct err *err)
{
    char *path = collection_text(err, "%s/%.*s.json", c->path, (int)collection_stem(s->name), s->name);
    int found = path ? read_json(own, path, err) : -1;
    free(path);
    if (found == 0)
        found = add_txt(s, c, err);
    if (found < 0)
        return -1;
    const json_t *prompt = json_object_get(*own, "prompt");
    collection_label(s, *own);
    if (found > 0)
        return 0;
    if (!prompt && c->prompt)
        return collection_add_caption(s, "prompt", c->prompt, err);
    if (!json_is_string(prompt) && !json_is_null(prompt))
        return no_caption(c, s->name, err);
    return collection_add_caption(s, "prompt", json_is_null(prompt) ? "" : json_string_value(prompt), err);
}

static int set_names(struct collection_sample *s, const struct collection *c, const char *name, struct err *err)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    s->name = strdup(name);
    s->where = strdup(name);
    s->key = collection_text(err, "%.*s", (int)collection_stem(base), base);
    if (!s->name || !s->where || !s->key)
        return err_set(err, ERR_MEMORY, "out of memory for a sample");
    return collection_file_stat(s, c, name, err);
}

static int describe_folder(struct collection_sample *s, const struct collection *c, int64_t i, struct err *err)
{
    json_t *own = NULL;
    int rc = set_names(s, c, name_of(c, i), err);
    if (rc == 0)
        rc = add_beside(s, c, &own, err);
    if (rc == 0)
        rc = collection_add_side_files(s, c, i, own, err);
    json_decref(own);
    return rc;
}

const struct collection_kind collection_folder_kind = {describe_folder, load_folder, collection_file_side};

/* --- a folder without a list ---------------------------------------------------------------- */

static int by_name(const void *a, const void *b, void *names)
{
    return strcmp((const char *)names + *(const uint64_t *)a, (const char *)names + *(const uint64_t *)b);
}

static bool is_text(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".txt") == 0 || strcmp(dot, ".json") == 0);
}

/* All names that matter, in order. */
static int list_names(struct collection *c, struct err *err)
{
    struct dirent *e;
    int rc;
    DIR *d = opendir(c->path);
    if (!d)
        return err_set_errno(err, errno, "cannot read the data folder %s", c->path);
    while ((rc = dir_walk_next(&e, d, c->path, err)) > 0)
        if (e->d_name[0] != '.' && (image_name_ok(e->d_name) || is_text(e->d_name)) && add_name(c, e->d_name, err) < 0) {
            rc = -1;
            break;
        }
    closedir(d);
    if (rc == 0 && c->len > 0)
        qsort_r(c->name_at, (size_t)c->len, sizeof(*c->name_at), by_name, c->names);
    return rc;
}

static bool has_name(const struct collection *c, int64_t len, const char *name)
{
    int64_t lo = 0, hi = len;
    while (lo < hi) {
        const int64_t mid = (lo + hi) / 2;
        const int order = strcmp(c->names + c->name_at[mid], name);
        if (order == 0)
            return true;
        order < 0 ? (lo = mid + 1) : (hi = mid);
    }
    return false;
}

/* Is there a file that may hold the picture's caption? */
static int check_caption(const struct collection *c, const char *name, struct err *err)
{
    char beside[300];
    const int n = (int)collection_stem(name);
    if (c->prompt)
        return 0;
    snprintf(beside, sizeof(beside), "%.*s.txt", n, name);
    if (has_name(c, c->len, beside))
        return 0;
    snprintf(beside, sizeof(beside), "%.*s.json", n, name);
    if (has_name(c, c->len, beside))
        return 0;
    no_caption(c, name, err);
    return collection_bad(c, name, err);
}

int collection_open_folder(struct collection *c, struct err *err)
{
    int64_t pictures = 0;
    if (list_names(c, err) < 0)
        return -1;
    for (int64_t i = 0; i < c->len; i++)
        if (image_name_ok(name_of(c, i)) && check_caption(c, name_of(c, i), err) < 0)
            return -1;
    for (int64_t i = 0; i < c->len; i++)
        if (image_name_ok(name_of(c, i)))
            c->name_at[pictures++] = c->name_at[i];
    c->len = pictures;
    return 0;
}

/* --- meta_data.json --------------------------------------------------------------------------- */

/* Blanks of Python's str.strip(). */
static bool is_blank(uint32_t x)
{
    return (x >= 9 && x <= 13) || (x >= 28 && x <= 32) || x == 0x85 || x == 0xa0 || x == 0x1680 ||
           (x >= 0x2000 && x <= 0x200a) || x == 0x2028 || x == 0x2029 || x == 0x202f || x == 0x205f || x == 0x3000;
}

/* The first line without blanks at both ends, in place. */
static void first_line(char *text)
{
    uint32_t x;
    text[strcspn(text, "\r\n")] = '\0';
    char *from = text, *end = text;
    for (size_t n; *from && (n = utf8_read(from, strlen(from), &x)) && is_blank(x);)
        from += n;
    for (char *p = from; *p;) {
        const size_t n = utf8_read(p, strlen(p), &x);
        p += n ? n : 1;
        end = n && is_blank(x) ? end : p;
    }
    *(end > from ? end : from) = '\0';
    memmove(text, from, strlen(from) + 1);
}

static int add_first_line(struct collection_sample *s, const struct collection *c, struct err *err)
{
    size_t size = 0;
    int rc = -1;
    char *path = collection_text(err, "%s/%.*s.txt", c->path, (int)collection_stem(s->name), s->name);
    char *text = path ? read_text(path, &size, err) : NULL;
    if (text && size == 0) {
        err_set(err, ERR_DATA, "%s is empty; expected a caption in its first line", path);
    } else if (text) {
        first_line(text);
        rc = check_length(text, path, err) < 0 ? -1 : collection_add_caption(s, "prompt", text, err);
    } else if (path) {
        err_set(err, ERR_DATA, "%s/%s has no caption: %.*s.txt is missing", c->path, s->name,
                (int)collection_stem(s->name), s->name); /* kept only if there is no sentence yet */
    }
    free(text);
    free(path);
    return rc;
}

static int describe_meta(struct collection_sample *s, const struct collection *c, int64_t i, struct err *err)
{
    if (set_names(s, c, name_of(c, i), err) < 0 || add_first_line(s, c, err) < 0)
        return -1;
    return collection_add_side_files(s, c, i, NULL, err);
}

const struct collection_kind collection_meta_kind = {describe_meta, load_folder, collection_file_side};

static bool is_picture_end(const char *end)
{
    return strcmp(end, ".jpg") == 0 || strcmp(end, ".png") == 0 || strcmp(end, ".jpeg") == 0 ||
           strcmp(end, ".webp") == 0;
}

/* A name without an extension has that of the last name with one. */
static int add_listed(struct collection *c, const char *name, char extension[8], struct err *err)
{
    const char *end = name + collection_stem(name);
    char *file = NULL;
    if (is_picture_end(end))
        snprintf(extension, 8, "%s", end);
    else
        file = collection_text(err, "%s%s", name, extension);
    const int rc = is_picture_end(end) ? add_name(c, name, err) : file ? add_name(c, file, err) : -1;
    free(file);
    return rc;
}

static int add_all_listed(struct collection *c, const json_t *names, const char *path, struct err *err)
{
    char extension[8] = ".png", where[48];
    size_t i;
    json_t *name;
    json_array_foreach((json_t *)(uintptr_t)names, i, name) {
        const char *text = json_string_value(name);
        if (add_listed(c, text ? text : "?", extension, err) < 0)
            return -1;
        if (text)
            continue;
        snprintf(where, sizeof(where), "meta_data.json: img_names[%zu]", i);
        err_set(err, ERR_DATA, "%s: img_names[%zu] is not a text", path, i);
        if (collection_bad(c, where, err) < 0)
            return -1;
    }
    return 0;
}

int collection_open_meta(struct collection *c, struct err *err)
{
    json_error_t why;
    int rc = -1;
    char *path = collection_text(err, "%s/meta_data.json", c->path);
    json_t *all = path ? json_load_file(path, 0, &why) : NULL;
    const json_t *names = json_object_get(all, "img_names");
    if (path && !all)
        err_set(err, ERR_DATA, "%s:%d: not JSON: %s", path, why.line, why.text);
    else if (path && !json_is_array(names))
        err_set(err, ERR_DATA, "%s: expected {\"img_names\": [\"NAME\", ...]}", path);
    else if (path)
        rc = add_all_listed(c, names, path, err);
    json_decref(all);
    free(path);
    return rc;
}
