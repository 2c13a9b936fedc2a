/* SPDX-License-Identifier: Apache-2.0 */
/* code_receive.c - see code_receive.h */
#include "agent/code/code_receive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/code/code_tree.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

enum { PATH = PATH_MAX + CODE_PATH, STATE = 3000 };

struct receiver {
    int     in, out;
    json_t *offer, *manifest, *missing;
    json_t *known;                  /* {digest of a content: file of an original that has it} */
    char    state[STATE];           /* the state directory */
    char    original[PATH], part[PATH], job[PATH];
};

/* ---- the connection ---- */

static int read_all(int fd, char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t n = read(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Byte by byte: what follows is not a line. */
static json_t *read_line(int fd, struct err *err)
{
    char line[CODE_LINE];
    size_t n = 0;
    while (n < sizeof(line) && read_all(fd, line + n, 1) == 0 && line[n] != '\n')
        n++;
    json_t *value = n < sizeof(line) ? json_loadb(line, n, 0, NULL) : NULL;
    if (!value)
        err_set(err, ERR_DATA, "the controller did not identify its code");
    return value;
}

static json_t *read_manifest(int fd, int64_t size, struct err *err)
{
    char *text = size > 0 && size <= CODE_MANIFEST_BYTES ? malloc((size_t)size) : NULL;
    json_t *value = text && read_all(fd, text, (size_t)size) == 0 ? json_loadb(text, (size_t)size, 0, NULL) : NULL;
    free(text);
    if (!value)
        err_set(err, ERR_DATA, "the controller sent no file list");
    return value;
}

static int say(const struct receiver *r, json_t *line, struct err *err)
{
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    const int rc = text && dprintf(r->out, "%s\n", text) > 0 ? 0 : err_set(err, ERR_SYSTEM, "cannot answer the "
                                                                           "controller");
    free(text);
    json_decref(line);
    return rc;
}

/* ---- places ---- */

static int find_state(struct receiver *r, const char *key, struct err *err)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const bool is_xdg = xdg && xdg[0] == '/';
    const char *digest = field_text(r->offer, "digest");
    if (!key[0] || strspn(key, "0123456789abcdef-") != strlen(key) || !code_digest_ok(digest))
        return err_set(err, ERR_DATA, "the key of the job, or the digest of its code, is invalid");
    if (!is_xdg && (!home || home[0] != '/'))
        return err_set(err, ERR_SYSTEM, "HOME is not set on this machine");
    if (snprintf(r->state, STATE, "%s%s/jobctl", is_xdg ? xdg : home, is_xdg ? "" : "/.local/state") >= STATE)
        return err_set(err, ERR_SYSTEM, "the path of this machine's state directory is too long");
    snprintf(r->original, PATH, "%s/code/%s", r->state, digest);
    snprintf(r->part, PATH, "%s/code/%s.part", r->state, digest);
    snprintf(r->job, PATH, "%s/hosted/%.200s/code/%s", r->state, key, digest);
    return 0;
}

static int make_private(const char *dir, struct err *err)
{
    struct stat st;
    if (scratch_mkdirs(dir, err) < 0)
        return -1;
    if (stat(dir, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
        return err_set(err, ERR_SYSTEM, "'%s' must belong to this user and must not be writable by others", dir);
    return 0;
}

static int make_places(const struct receiver *r, struct err *err)
{
    char dir[PATH];
    snprintf(dir, sizeof(dir), "%s/code", r->state);
    if (make_private(dir, err) < 0)
        return -1;
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(r->job, '/') - r->job), r->job);
    return make_private(dir, err);
}

json_t *code_receive_look(const char *workdir, const json_t *manifest)
{
    char path[2 * PATH];
    struct stat dir, file;
    size_t i = 0;
    while (i < code_manifest_count(manifest) && code_manifest_at(manifest, i).kind == CODE_LINK)
        i++;
    if (i == code_manifest_count(manifest) || stat(workdir, &dir) < 0)
        return NULL;
    snprintf(path, sizeof(path), "%.4000s/%s", workdir, code_manifest_at(manifest, i).path);
    if (lstat(path, &file) < 0)
        return NULL;
    return json_make("{s:I, s:I, s:I}", "inode", (json_int_t)dir.st_ino, "file_inode", (json_int_t)file.st_ino,
                     "file_ctime_ns", (json_int_t)file.st_ctim.tv_sec * 1000000000 + file.st_ctim.tv_nsec);
}

static bool is_shared(const struct receiver *r)
{
    json_t *here = code_receive_look(field_text(r->offer, "workdir"), r->manifest);
    const bool same = here && !field_true(r->offer, "must") && json_equal(here, json_object_get(r->offer, "here"));
    json_decref(here);
    return same;
}

/* ---- what is here already ---- */

static void know_original(struct receiver *r, const char *dir)
{
    char path[PATH + 64];
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, dir);
    json_t *manifest = safe_open_json(path, 0, NULL);
    if (manifest && code_manifest_check(manifest, NULL) == 0)
        for (size_t i = 0; i < code_manifest_count(manifest); i++) {
            const struct code_entry e = code_manifest_at(manifest, i);
            if (e.kind != CODE_LINK)
                json_object_set_new(r->known, e.text, json_text_f("%s/" CODE_TREE "/%s", dir, e.path));
        }
    json_decref(manifest);
}

static void know_originals(struct receiver *r)
{
    char path[PATH];
    snprintf(path, sizeof(path), "%s/code", r->state);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/code/%.255s", r->state, e->d_name);
        if (code_digest_ok(e->d_name))
            know_original(r, path);
    }
    if (d)
        closedir(d);
}

/* Received by an earlier try, and whole. */
static bool is_received(const char *tree, const struct code_entry *e)
{
    char path[2 * PATH], digest[DIGEST_TEXT];
    int64_t bytes;
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", tree, e->path);
    if (lstat(path, &st) < 0)
        return false;
    if (e->kind != CODE_LINK && S_ISREG(st.st_mode) && digest_file(digest, &bytes, path, NULL) == 0 &&
        strcmp(digest, e->text) == 0 && chmod(path, e->kind == CODE_PROGRAM ? 0500 : 0400) == 0)
        return true;
    unlink(path);
    return false;
}

/* From a file with the same content. */
static bool is_copied(const struct receiver *r, const char *tree, const struct code_entry *e)
{
    const char *file = json_string_value(json_object_get(r->known, e->text));
    const int in = file ? safe_open(file, O_RDONLY, NULL) : -1;
    const int rc = in < 0 ? -1 : code_tree_receive(in, tree, e, NULL);
    if (in >= 0)
        close(in);
    return rc == 0;
}

static int gather(struct receiver *r, const char *tree, struct err *err)
{
    know_originals(r);
    for (size_t i = 0; i < code_manifest_count(r->manifest); i++) {
        const struct code_entry e = code_manifest_at(r->manifest, i);
        if (is_received(tree, &e) || (e.kind != CODE_LINK && is_copied(r, tree, &e)))
            continue;
        if (e.kind == CODE_LINK && code_tree_receive(-1, tree, &e, err) < 0)
            return -1;
        if (e.kind != CODE_LINK)
            json_array_append_new(r->missing, json_integer((json_int_t)i));
    }
    return 0;
}

/* ---- what comes ---- */

static int take_missing(struct receiver *r, const char *tree, struct err *err)
{
    size_t i;
    json_t *index;
    json_array_foreach (r->missing, i, index) {
        const struct code_entry e = code_manifest_at(r->manifest, (size_t)json_integer_value(index));
        if (code_tree_receive(r->in, tree, &e, err) < 0)
            return -1;
    }
    return 0;
}

static int publish(const struct receiver *r, struct err *err)
{
    char path[PATH + 32];
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, r->part);
    unlink(path);
    if (json_file_save(r->manifest, path, JSON_COMPACT) < 0)
        return err_set_errno(err, errno, "cannot write %s", path);
    code_tree_remove(r->original, NULL);    /* not whole, or it would not have been received */
    if (rename(r->part, r->original) < 0)
        return err_set_errno(err, errno, "cannot create directory %s", r->original);
    snprintf(path, sizeof(path), "%s/" CODE_TREE, r->original);
    return code_tree_close(path, err);
}

/* One transfer at a time of the same code; the lock goes with the process. */
static int lock_part(const struct receiver *r, struct err *err)
{
    char path[PATH + 32];
    snprintf(path, sizeof(path), "%s/code/lock", r->state);
    const int lock = safe_open(path, O_RDWR | O_CREAT, err);
    if (lock >= 0 && flock(lock, LOCK_EX) == 0)
        return lock;
    if (lock >= 0) {
        err_set_errno(err, errno, "cannot lock %s", path);
        close(lock);
    }
    return -1;
}

static int receive(struct receiver *r, struct err *err)
{
    char tree[PATH + 8];
    snprintf(tree, sizeof(tree), "%s/" CODE_TREE, r->part);
    const bool whole = code_tree_whole(r->original, r->manifest);
    if (!whole && (make_private(tree, err) < 0 || gather(r, tree, err) < 0))
        return -1;
    if (say(r, json_make("{s:O}", "missing", r->missing), err) < 0)
        return -1;
    if (!whole && (take_missing(r, tree, err) < 0 || publish(r, err) < 0))
        return -1;
    utimensat(AT_FDCWD, r->original, NULL, 0);      /* used now */
    return code_tree_copy(r->original, r->job, err) < 0 ? -1 : say(r, json_make("{s:b}", "made", 1), err);
}

static int serve(struct receiver *r, struct err *err)
{
    char digest[CODE_DIGEST];
    if (code_manifest_check(r->manifest, err) < 0 || code_manifest_digest(digest, r->manifest, err) < 0)
        return -1;
    if (strcmp(digest, field_text(r->offer, "digest")) != 0)
        return err_set(err, ERR_DATA, "the received file list does not match the announced digest");
    if (access(r->job, F_OK) == 0)
        return say(r, json_make("{s:b}", "kept", 1), err);
    if (is_shared(r))
        return say(r, json_make("{s:b}", "shared", 1), err);
    if (make_places(r, err) < 0)
        return -1;
    const int lock = lock_part(r, err);
    const int rc = lock < 0 ? -1 : receive(r, err);
    if (lock >= 0)
        close(lock);
    return rc;
}

int code_receive(int in, int out, const char *key, struct err *err)
{
    struct receiver r = {.in = in, .out = out, .missing = json_array(), .known = json_object()};
    int rc = -1;
    if (dprintf(out, CODE_READY) < 0)
        err_set(err, ERR_SYSTEM, "cannot answer the controller");
    else if ((r.offer = read_line(in, err)) && find_state(&r, key, err) == 0 &&
             (r.manifest = read_manifest(in, field_int(r.offer, "manifest_bytes", 0), err)))
        rc = serve(&r, err);
    json_decref(r.offer);
    json_decref(r.manifest);
    json_decref(r.missing);
    json_decref(r.known);
    return rc;
}
