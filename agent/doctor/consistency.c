/* SPDX-License-Identifier: Apache-2.0 */
/* consistency.c - see consistency.h */
#include "agent/doctor/consistency.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "agent/plan/plan_internal.h"
#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* A limit for both sides. Larger listings are cut and not compared, as the order of files
 * differs. */
enum {
    ENTRIES = 20000,
    DATA_DEPTH = 8,
    CODE_DEPTH = 2,
    CODE_NAMED = 300,
    CODE_BYTES = 1 << 20,
    CODE_ALL = 64 << 20
};

/* --- listing -------------------------------------------------------------------------------- */

struct list {
    size_t base; /* length of the path prefix before names */
    int depth, entries;
    bool code, cut;
    int64_t  files, bytes;
    uint64_t sum; /* a sum, independent of directory order */
    json_t  *programs;
};

static bool is_program(const char *name)
{
    static const char *const ends[] = {".py",  ".sh", ".c",   ".h", ".cc",
                                       ".cpp", ".cu", ".cuh", ".pl"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < ARRAY_LEN(ends); i++)
        if (strcmp(dot, ends[i]) == 0)
            return true;
    return false;
}

static void add_text(struct list *l, const char *text)
{
    l->sum += XXH3_64bits(text, strlen(text));
}

static void add_file(struct list *l, const char *path, const struct stat *st)
{
    char digest[DIGEST_TEXT] = "unreadable", text[PATH_MAX + 64];
    int64_t bytes;
    const char *name = path + l->base;
    if (l->code && (!is_program(name) || st->st_size > CODE_BYTES))
        return;
    l->files++;
    l->bytes += st->st_size;
    l->cut = l->cut || (l->code && l->bytes > CODE_ALL);
    if (l->code && !l->cut)
        digest_file(digest, &bytes, path, NULL);
    digest[21] = '\0'; /* 64 bits of it */
    snprintf(text, sizeof(text), "%s/%lld/%s", name, (long long)st->st_size, l->code ? digest : "");
    add_text(l, text);
    if (l->code && json_object_size(l->programs) <= CODE_NAMED)
        json_object_set_new(l->programs, name, json_make("[I, s]", (json_int_t)st->st_size, digest));
}

/* Hidden names hold tools' metadata, and links may form loops. */
static void walk(struct list *l, char path[PATH_MAX], int depth)
{
    const size_t end = strlen(path);
    struct stat st;
    DIR *d = opendir(path);
    for (const struct dirent *e; d && !l->cut && (e = readdir(d));) {
        l->cut = l->entries++ >= ENTRIES;
        if (e->d_name[0] == '.' ||
            (size_t)snprintf(path + end, PATH_MAX - end, "/%s", e->d_name) >= PATH_MAX - end)
            continue;
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            add_file(l, path, &st);
        else if (depth < l->depth && lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            walk(l, path, depth + 1);
    }
    path[end] = '\0';
    if (d)
        closedir(d);
}

static json_t *list_of(const char *where, bool code)
{
    char path[PATH_MAX], digest[24];
    struct stat st;
    struct list l = {.depth = code ? CODE_DEPTH : DATA_DEPTH, .code = code};
    if (!where[0] || (size_t)snprintf(path, sizeof(path), "%s", where) >= sizeof(path))
        return json_null();
    l.base = strlen(path) + 1;
    l.programs = code ? json_object() : NULL;
    if (stat(path, &st) < 0)
        l.files = -1;
    else if (S_ISDIR(st.st_mode))
        walk(&l, path, 0);
    else {
        l.base = 0;
        add_file(&l, path, &st);
    }
    snprintf(digest, sizeof(digest), "%016llx", (unsigned long long)l.sum);
    if (json_object_size(l.programs) > CODE_NAMED) {
        json_decref(l.programs);
        l.programs = NULL;
    }
    return json_make("{s:s, s:I, s:I, s:s, s:b, s:o*}", "path", where, "files", (json_int_t)l.files,
                     "bytes", (json_int_t)l.bytes, "digest", digest, "cut", (int)l.cut, "programs",
                     l.programs);
}

json_t *consistency_list(const json_t *spec)
{
    const json_t *data = json_object_get(json_object_get(spec, "train"), "data");
    const bool runs = json_is_string(json_object_get(spec, "run"));
    return json_make("{s:o, s:o}", "data", list_of(field_text(data, "path"), false), "workdir",
                     list_of(runs ? field_text(spec, "workdir") : "", true));
}

/* --- comparing ------------------------------------------------------------------------------ */

struct side {
    const char   *name;
    const json_t *list;
};

static bool can_compare(struct side a, struct side b)
{
    return json_is_object(a.list) && json_is_object(b.list) && !field_true(a.list, "cut") &&
           !field_true(b.list, "cut");
}

/* "120 files of 3.2 MB" */
static const char *amount(char out[64], const json_t *list)
{
    const int64_t files = field_int(list, "files", 0);
    const double bytes = (double)field_int(list, "bytes", 0);
    if (files < 0)
        snprintf(out, 64, "nothing");
    else
        snprintf(out, 64, "%lld file%s of %.*f %s", (long long)files, files == 1 ? "" : "s", bytes < 1e6 ? 0 : 1,
                 bytes < 1e6 ? bytes : bytes / 1e6, bytes < 1e6 ? "bytes" : "MB");
    return out;
}

static int compare_data(struct side a, struct side b, struct err *err)
{
    char ours[64], theirs[64];
    if (!can_compare(a, b) || strcmp(field_text(a.list, "digest"), field_text(b.list, "digest")) == 0)
        return 0;
    amount(ours, a.list);
    amount(theirs, b.list);
    return err_set(err, ERR_CONFLICT,
                   "train.data.path '%.200s' differs between nodes: %.60s has "
                   "%s, %.60s has %s%s. Copy it again, or put it on a shared file system",
                   field_text(a.list, "path"), a.name, ours, b.name, theirs,
                   strcmp(ours, theirs) == 0 ? " with other names or sizes" : "");
}

/* The first program that is missing in or differs from the other list; NULL: none. */
static const char *first_unlike(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, name, value)
    {
        if (!json_equal(value, json_object_get(b, name)))
            return name;
    }
    return NULL;
}

static const char *tell_program(char out[64], const json_t *programs, const char *name)
{
    const json_t *row = json_object_get(programs, name);
    if (row)
        snprintf(out, 64, "%lld bytes (%.8s)", (long long)json_integer_value(json_array_get(row, 0)),
                 json_string_value(json_array_get(row, 1)));
    else
        snprintf(out, 64, "no such file");
    return out;
}

static int compare_workdir(struct side a, struct side b, struct err *err)
{
    char ours[64], theirs[64];
    const char *path = field_text(a.list, "path");
    const json_t *mine = json_object_get(a.list, "programs"),
                 *other = json_object_get(b.list, "programs");
    const bool here = field_int(a.list, "files", 0) >= 0, there = field_int(b.list, "files", 0) >= 0;
    if (json_is_object(a.list) && json_is_object(b.list) && here != there)
        return err_set(
            err, ERR_CONFLICT,
            "workdir '%.200s' exists on %.60s but not on %.60s. Copy it, or put it on a shared "
            "file system",
            path, (here ? a : b).name, (here ? b : a).name);
    if (!can_compare(a, b) || strcmp(field_text(a.list, "digest"), field_text(b.list, "digest")) == 0)
        return 0;
    const char *name = first_unlike(mine, other);
    name = name ? name : first_unlike(other, mine);
    if (!name)
        return err_set(err, ERR_CONFLICT,
                       "the programs in workdir '%.200s' differ between nodes: %.60s has %lld with digest %s, %.60s "
                       "has %lld with %s. Synchronize them",
                       path, a.name, (long long)field_int(a.list, "files", 0),
                       field_text(a.list, "digest"), b.name, (long long)field_int(b.list, "files", 0),
                       field_text(b.list, "digest"));
    return err_set(err, ERR_CONFLICT,
                   "%.120s in workdir '%.200s' differs between nodes: %.60s has %s, %.60s has %s. Synchronize them",
                   name, path, a.name, tell_program(ours, mine, name), b.name,
                   tell_program(theirs, other, name));
}

int consistency_compare(const json_t *a, const json_t *b, const char *a_name, const char *b_name, struct err *err)
{
    static const struct {
        const char *key;
        int       (*compare)(struct side a, struct side b, struct err *err);
    } rows[] = {{"data", compare_data}, {"workdir", compare_workdir}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct side left = {a_name, json_object_get(a, rows[i].key)};
        const struct side right = {b_name, json_object_get(b, rows[i].key)};
        if (rows[i].compare(left, right, err) < 0)
            return -1;
    }
    return 0;
}
