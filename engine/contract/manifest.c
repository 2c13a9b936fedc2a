/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - see manifest.h */
#include "engine/contract/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"

_Static_assert((int)MANIFEST_DIGEST == (int)DIGEST_TEXT, "one size of digests");

enum { PATH_SIZE = 4096, MANIFEST_BYTES = 65536 };

static int join(char *path, const char *dir, const char *name, struct err *err)
{
    if (snprintf(path, PATH_SIZE, "%s/%s", dir, name) >= PATH_SIZE)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    return 0;
}

static json_t *to_json(const struct manifest *m)
{
    json_t *files = json_array();
    for (int i = 0; i < m->len; i++)
        json_array_append_new(files, json_make("{s:s, s:I, s:s}", "name", m->files[i].name, "bytes",
                                               (json_int_t)m->files[i].bytes, "digest",
                                               m->files[i].digest));
    return json_make("{s:i, s:I, s:o}", "schema", 1, "step", (json_int_t)m->step, "files", files);
}

static int digest_of(char text[DIGEST_TEXT], const json_t *inner, struct err *err)
{
    char *dump = json_dumps(inner, JSON_COMPACT | JSON_SORT_KEYS);
    struct digest *d = NULL;
    int rc = -1;
    if (!dump)
        err_set(err, ERR_MEMORY, "out of memory for a manifest");
    else if (digest_create(&d, err) == 0) {
        digest_add(d, dump, strlen(dump));
        digest_text(d, text);
        rc = 0;
    }
    free(dump);
    digest_destroy(d);
    return rc;
}

static int write_text(const char *path, const char *text, struct err *err)
{
    int fd = safe_open(path, O_WRONLY | O_CREAT | O_EXCL, NULL);
    if (fd < 0 || write_all(fd, text, strlen(text)) < 0 || fsync(fd) < 0) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        err_set_errno(err, why, "cannot write %s", path);
        errno = why;
        return -1;
    }
    close(fd);
    return 0;
}

int manifest_write(struct manifest *out, const char *dir, int64_t step, const char *const *names, struct err *err)
{
    struct manifest m = {.step = step};
    char path[PATH_SIZE];
    json_t *inner = NULL, *outer = NULL;
    char *text = NULL;
    int rc = -1;
    for (; names[m.len]; m.len++) {
        struct manifest_file *f = &m.files[m.len];
        if (m.len == MANIFEST_FILES || strlen(names[m.len]) >= sizeof(f->name))
            return err_set(err, ERR_BUG, "a manifest lists more than %d files", MANIFEST_FILES);
        snprintf(f->name, sizeof(f->name), "%s", names[m.len]);
        if (join(path, dir, f->name, err) < 0 || digest_file(f->digest, &f->bytes, path, err) < 0)
            return -1;
        m.bytes += f->bytes;
    }
    inner = to_json(&m);
    if (digest_of(m.digest, inner, err) < 0)
        goto out;
    outer = json_make("{s:O, s:s}", "manifest", inner, "digest", m.digest);
    text = outer ? json_dumps(outer, JSON_INDENT(1)) : NULL;
    if (!text) {
        err_set(err, ERR_MEMORY, "out of memory for a manifest");
        goto out;
    }
    if (join(path, dir, MANIFEST_FILE, err) < 0 || write_text(path, text, err) < 0)
        goto out;
    *out = m;
    rc = 0;
out:
    free(text);
    json_decref(inner);
    json_decref(outer);
    return rc;
}

/* A name from an untrusted file: must be a file of this directory, not a path out of it. */
static bool plain_name(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < MANIFEST_NAME;
}

static int from_json(struct manifest *m, const json_t *inner)
{
    const json_t *step = json_object_get(inner, "step");
    const json_t *files = json_object_get(inner, "files");
    if (json_integer_value(json_object_get(inner, "schema")) != 1 || !json_is_integer(step) ||
        json_array_size(files) < 1 || json_array_size(files) > MANIFEST_FILES)
        return -1;
    m->step = json_integer_value(step);
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *o = json_array_get(files, i);
        const char *name = json_string_value(json_object_get(o, "name"));
        const char *sum = json_string_value(json_object_get(o, "digest"));
        const json_t *bytes = json_object_get(o, "bytes");
        struct manifest_file *f = &m->files[m->len++];
        if (!plain_name(name) || !sum || strlen(sum) >= sizeof(f->digest) ||
            !json_is_integer(bytes))
            return -1;
        snprintf(f->name, sizeof(f->name), "%s", name);
        snprintf(f->digest, sizeof(f->digest), "%s", sum);
        f->bytes = json_integer_value(bytes);
        m->bytes += f->bytes;
    }
    return 0;
}

int manifest_read(struct manifest *out, const char *dir, struct err *err)
{
    struct manifest m = {0};
    char path[PATH_SIZE], text[MANIFEST_BYTES];
    if (join(path, dir, MANIFEST_FILE, err) < 0)
        return -1;
    FILE *f = safe_open_stream(path, err);
    if (!f)
        return -1;
    size_t n = fread(text, 1, sizeof(text), f);
    fclose(f);
    json_t *outer = n < sizeof(text) ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const json_t *inner = json_object_get(outer, "manifest");
    const char *sum = json_string_value(json_object_get(outer, "digest"));
    int rc = -1;
    if (!json_is_object(inner) || !sum)
        err_set(err, ERR_DATA, "%s is not a manifest", MANIFEST_FILE);
    else if (digest_of(m.digest, inner, err) < 0)
        ;
    else if (strcmp(m.digest, sum) != 0)
        err_set(err, ERR_DATA, "%s does not match its own digest", MANIFEST_FILE);
    else if (from_json(&m, inner) < 0)
        err_set(err, ERR_DATA, "%s is not a manifest that this version reads", MANIFEST_FILE);
    else
        rc = 0;
    json_decref(outer);
    if (rc == 0)
        *out = m;
    return rc;
}

int manifest_verify(struct manifest *out, const char *dir, struct err *err)
{
    struct manifest m;
    if (manifest_read(&m, dir, err) < 0)
        return -1;
    for (int i = 0; i < m.len; i++) {
        const struct manifest_file *f = &m.files[i];
        char path[PATH_SIZE], sum[DIGEST_TEXT];
        int64_t bytes;
        struct err why = {0};
        if (join(path, dir, f->name, err) < 0)
            return -1;
        if (digest_file(sum, &bytes, path, &why) < 0)
            return err_set(err, ERR_DATA, "%s", why.text);
        if (bytes != f->bytes)
            return err_set(err, ERR_DATA, "%s has %lld bytes, the manifest says %lld", f->name,
                           (long long)bytes, (long long)f->bytes);
        if (strcmp(sum, f->digest) != 0)
            return err_set(err, ERR_DATA, "%s does not match the digest in the manifest", f->name);
    }
    *out = m;
    return 0;
}
