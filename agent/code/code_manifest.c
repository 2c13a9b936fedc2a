/* SPDX-License-Identifier: Apache-2.0 */
/* code_manifest.c - see code_manifest.h */
#include "agent/code/code_manifest.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { VERSION = 1, NAME = 255 };

static const char *const kinds[] = {"file", "program", "link"};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

json_t *code_manifest_create(void)
{
    return json_make("{s:i, s:[]}", "version", VERSION, "files");
}

int code_manifest_add(json_t *manifest, const struct code_entry *e)
{
    json_t *row = json_make("[s, s, I, s]", e->path, kinds[e->kind], (json_int_t)e->bytes, e->text);
    return json_array_append_new(json_object_get(manifest, "files"), row);
}

size_t code_manifest_count(const json_t *manifest)
{
    return json_array_size(json_object_get(manifest, "files"));
}

static int kind_of(const char *text)
{
    int k = 0;
    while (k < KINDS && (!text || strcmp(text, kinds[k]) != 0))
        k++;
    return k;
}

struct code_entry code_manifest_at(const json_t *manifest, size_t i)
{
    const json_t *row = json_array_get(json_object_get(manifest, "files"), i);
    return (struct code_entry){.path = json_string_value(json_array_get(row, 0)),
                               .kind = (enum code_kind)kind_of(json_string_value(json_array_get(row, 1))),
                               .bytes = json_integer_value(json_array_get(row, 2)),
                               .text = json_string_value(json_array_get(row, 3))};
}

int64_t code_manifest_bytes(const json_t *manifest)
{
    int64_t sum = 0;
    for (size_t i = 0; i < code_manifest_count(manifest); i++)
        sum += code_manifest_at(manifest, i).bytes;
    return sum;
}

/* ---- paths ---- */

static bool is_dots(const char *name, size_t n)
{
    return (n == 1 && name[0] == '.') || (n == 2 && name[0] == '.' && name[1] == '.');
}

bool code_path_ok(const char *path)
{
    if (!path[0] || strlen(path) >= CODE_PATH)
        return false;
    for (const char *p = path;; p++) {
        const size_t n = strcspn(p, "/");
        if (n == 0 || n > NAME || is_dots(p, n))
            return false;
        p += n;
        if (!*p)
            return true;
    }
}

bool code_link_inside(const char *path, const char *target)
{
    int depth = 0;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    if (!target[0] || target[0] == '/' || strlen(target) >= CODE_PATH)
        return false;
    for (const char *p = target; *p; p += *p == '/') {
        const size_t n = strcspn(p, "/");
        if (n == 2 && is_dots(p, n))
            depth--;
        else if (n > 0 && !is_dots(p, n))
            depth++;
        if (depth < 0)
            return false;
        p += n;
    }
    return true;
}

/* ---- of another side ---- */

bool code_digest_ok(const char *digest)
{
    return strlen(digest) == CODE_DIGEST - 1 && strspn(digest, "0123456789abcdef") == CODE_DIGEST - 1;
}

static bool is_content(const struct code_entry *e)
{
    if (e->kind == CODE_LINK)
        return e->bytes == 0 && code_link_inside(e->path, e->text);
    return e->bytes >= 0 && strncmp(e->text, "xxh3:", 5) == 0 && code_digest_ok(e->text + 5);
}

/* Is a directory of the path one of the files? */
static bool is_below_file(const json_t *seen, const char *path)
{
    char part[CODE_PATH];
    for (const char *p = path; (p = strchr(p, '/')); p++) {
        snprintf(part, sizeof(part), "%.*s", (int)(p - path), path);
        if (json_object_get(seen, part))
            return true;
    }
    return false;
}

static int check_row(const json_t *manifest, size_t i, json_t *seen, const char **last, struct err *err)
{
    const struct code_entry e = code_manifest_at(manifest, i);
    if (!e.path || !e.text || (int)e.kind == KINDS || !code_path_ok(e.path) || !is_content(&e))
        return err_set(err, ERR_DATA, "the snapshot's file list has an invalid entry: %.200s",
                       e.path ? e.path : "no path");
    if (strcmp(*last, e.path) >= 0 || is_below_file(seen, e.path))
        return err_set(err, ERR_DATA, "the snapshot's file list is not sorted at %.200s", e.path);
    *last = e.path;
    return json_object_set_new(seen, e.path, json_true());
}

int code_manifest_check(const json_t *manifest, struct err *err)
{
    const json_t *files = json_object_get(manifest, "files");
    const char *last = "";
    int rc = 0;
    if (!json_is_array(files) || field_int(manifest, "version", 0) != VERSION)
        return err_set(err, ERR_DATA, "this is not a snapshot's file list");
    if (json_array_size(files) > CODE_FILES_MAX)
        return err_set(err, ERR_DATA, "a snapshot has more than %d files", CODE_FILES_MAX);
    json_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(files) && rc == 0; i++)
        rc = check_row(manifest, i, seen, &last, err);
    json_decref(seen);
    return rc;
}

/* ---- the digest ---- */

int code_manifest_digest(char out[CODE_DIGEST], const json_t *manifest, struct err *err)
{
    struct digest *d;
    char text[DIGEST_TEXT], bytes[32];
    if (digest_create(&d, err) < 0)
        return -1;
    for (size_t i = 0; i < code_manifest_count(manifest); i++) {
        const struct code_entry e = code_manifest_at(manifest, i);
        snprintf(bytes, sizeof(bytes), "%lld", (long long)e.bytes);
        digest_add_text(d, e.path);
        digest_add_text(d, kinds[e.kind]);
        digest_add_text(d, bytes);
        digest_add_text(d, e.text);
    }
    digest_text(d, text);
    digest_destroy(d);
    memcpy(out, text + 5, CODE_DIGEST);
    return 0;
}
