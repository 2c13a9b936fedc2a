/* SPDX-License-Identifier: Apache-2.0 */
/* code_take.c - see code_take.h */
#include "controller/code/code_take.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/code/code_tree.h"
#include "controller/code/code_list.h"
#include "controller/code/code_record.h"
#include "controller/job/job_code.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/scratch.h"

enum { TRIES = 3, NAMED = 5, FULL = PATH_MAX + CODE_PATH };

int64_t code_take_max(void)
{
    const char *text = getenv("JOBCTL_SNAPSHOT_MIB");
    const long mib = text ? strtol(text, NULL, 10) : 0;
    return (int64_t)(mib > 0 ? mib : CODE_MAX_MIB) * 1024 * 1024;
}

/* ---- the original ---- */

static int add_file(json_t *manifest, const char *dir, const char *rel, struct err *err)
{
    char path[FULL], target[PATH_MAX], digest[DIGEST_TEXT];
    struct stat st;
    struct code_entry e = {.path = rel, .kind = CODE_LINK, .text = target};
    snprintf(path, sizeof(path), "%s/%s", dir, rel);
    if (lstat(path, &st) < 0)
        return 0;               /* it was removed meanwhile */
    if (S_ISLNK(st.st_mode)) {
        const ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
    } else {
        e.kind = st.st_mode & 0111 ? CODE_PROGRAM : CODE_FILE;
        e.text = digest;
        if (digest_file(digest, &e.bytes, path, err) < 0)
            return -1;
    }
    return code_manifest_add(manifest, &e) == 0 ? 0 : err_set(err, ERR_MEMORY, "out of memory for a list of files");
}

static json_t *make_manifest(const struct code_list *l, const char *dir, struct err *err)
{
    json_t *manifest = code_manifest_create();
    int rc = 0;
    for (size_t i = 0; i < l->count && rc == 0; i++)
        rc = add_file(manifest, dir, l->paths[i], err);
    if (rc == 0)
        return manifest;
    json_decref(manifest);
    return NULL;
}

static int fill(const char *tmp, const char *workdir, const json_t *manifest, struct err *err)
{
    char tree[PATH_MAX], path[PATH_MAX + 16];
    int rc = 0;
    snprintf(tree, sizeof(tree), "%.4000s/" CODE_TREE, tmp);
    snprintf(path, sizeof(path), "%.4000s/" CODE_MANIFEST, tmp);
    if (mkdir(tmp, 0700) < 0 || mkdir(tree, 0700) < 0)
        return err_set_errno(err, errno, "cannot create directory %s", tree);
    for (size_t i = 0; i < code_manifest_count(manifest) && rc == 0; i++) {
        const struct code_entry e = code_manifest_at(manifest, i);
        rc = code_tree_put(workdir, tree, &e, CODE_ORIGINAL, err);
    }
    if (rc == 0 && json_file_save(manifest, path, JSON_COMPACT) < 0)
        rc = err_set_errno(err, errno, "cannot write %s", path);
    return rc;
}

static int make_original(const char *dir, const char *workdir, const json_t *manifest, struct err *err)
{
    char tmp[SCRATCH_PATH], tree[PATH_MAX + 16];
    if (code_tree_whole(dir, manifest))
        return 0;
    if (scratch_name(tmp, dir, err) < 0)
        return -1;
    code_tree_remove(tmp, NULL);
    int rc = fill(tmp, workdir, manifest, err);
    if (rc == 0 && rename(tmp, dir) < 0 && !code_tree_whole(dir, manifest)) {
        code_tree_remove(dir, NULL);    /* it was damaged, as by a disk that lost power */
        if (rename(tmp, dir) < 0)
            rc = err_set_errno(err, errno, "cannot create directory %s", dir);
    }
    code_tree_remove(tmp, NULL);
    snprintf(tree, sizeof(tree), "%s/" CODE_TREE, dir);
    return rc < 0 || code_tree_close(tree, err) < 0 ? -1 : 0;
}

static int try_snapshot(const struct code_taken *t, const struct code_wish *wish, const struct code_list *l,
                        json_t *info, struct err *err)
{
    char digest[CODE_DIGEST], dir[PATH_MAX], from[PATH_MAX + 16], to[PATH_MAX + 16];
    json_t *manifest = make_manifest(l, wish->workdir, err);
    int rc = manifest ? code_manifest_digest(digest, manifest, err) : -1;
    if (rc == 0) {
        job_code_original(dir, sizeof(dir), wish->home, digest);
        rc = make_original(dir, wish->workdir, manifest, err);
    }
    if (rc == 0) {
        snprintf(from, sizeof(from), "%s/" CODE_MANIFEST, dir);
        snprintf(to, sizeof(to), "%s/" CODE_MANIFEST, t->dir);
        rc = job_code_link(from, to, err);
    }
    if (rc == 0) {
        json_object_set_new(info, "snapshot", json_text(digest));
        json_object_set_new(info, "files", json_integer((json_int_t)code_manifest_count(manifest)));
        json_object_set_new(info, "bytes", json_integer(code_manifest_bytes(manifest)));
    }
    json_decref(manifest);
    return rc;
}

/* "the snapshot is without .env (may hold a secret), data (a link that leads outside) and 3 more" */
static void note_left_out(struct code_taken *t, const struct code_list *l)
{
    char text[1024] = "";
    size_t at = 0;
    if (l->left == 0)
        return;
    for (size_t i = 0; i < json_array_size(l->left_out) && i < NAMED; i++) {
        const json_t *one = json_array_get(l->left_out, i);
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.80s (%s)", i ? ", " : "", field_text(one, "path"),
                               field_text(one, "why"));
    }
    if (l->left > NAMED)
        snprintf(text + at, sizeof(text) - at, " and %zu more", l->left - NAMED);
    json_array_append_new(t->notes, json_text_f("the snapshot of the code leaves out %s", text));
}

/* A file that is written meanwhile does not match its digest: once more. */
static int take_snapshot(struct code_taken *t, const struct code_wish *wish, json_t *info, struct err *err)
{
    struct code_list l;
    int rc = code_list_make(&l, &(struct code_list_wish){wish->workdir, wish->home, wish->max_bytes, !wish->must}, err);
    if (rc < 0)
        return -1;
    for (int i = 0; i < TRIES; i++) {
        struct err why = {.code = ERR_NONE};
        rc = try_snapshot(t, wish, &l, info, &why);
        if (rc == 0 || why.code != ERR_DATA || i == TRIES - 1) {
            rc = rc == 0 ? 0 : err_set(err, why.code, "%s", why.text);
            break;
        }
    }
    if (rc == 0) {
        json_object_set_new(info, "must", json_boolean(wish->must));
        json_object_set(info, "left_out", l.left_out);
        json_object_set_new(info, "left", json_integer((json_int_t)l.left));
        note_left_out(t, &l);
    }
    code_list_fini(&l);
    return rc;
}

/* ---- all ---- */

static int make_staging(struct code_taken *t, const char *home, struct err *err)
{
    char wish[PATH_MAX], tmp[SCRATCH_PATH];
    if (job_code_open(&t->lock, home, err) < 0)
        return -1;
    snprintf(wish, sizeof(wish), "%.3800s/code/job", home);
    if (scratch_name(tmp, wish, err) < 0)
        return -1;
    snprintf(t->dir, sizeof(t->dir), "%s", tmp);
    snprintf(t->name, sizeof(t->name), "%.255s", strrchr(t->dir, '/') + 1);
    code_tree_remove(t->dir, NULL);
    return mkdir(t->dir, 0700) == 0 ? 0 : err_set_errno(err, errno, "cannot create directory %s", t->dir);
}

static int snapshot_or_note(struct code_taken *t, const struct code_wish *wish, json_t *info, struct err *err)
{
    struct err why = {.code = ERR_NONE};
    if (!wish->snapshot || take_snapshot(t, wish, info, &why) == 0)
        return 0;
    if (wish->must)
        return err_set(err, why.code, "%s", why.text);
    if (why.code != ERR_NOT_FOUND)
        json_array_append_new(t->notes, json_text_f("no snapshot of the code is sent to the hosts: %s", why.text));
    return 0;
}

static int write_all(struct code_taken *t, const struct code_wish *wish, json_t *info, struct err *err)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/" JOB_CODE_INFO, t->dir);
    if (snapshot_or_note(t, wish, info, err) < 0)
        return -1;
    if (json_object_get(info, "commit"))
        code_record_write(info, wish->workdir, t->dir);
    return json_file_save(info, path, JSON_INDENT(1)) == 0 ? 0 : err_set_errno(err, errno, "cannot write %s", path);
}

int code_take(struct code_taken *t, const struct code_wish *wish, struct err *err)
{
    json_t *info = json_make("{s:i, s:o}", "version", 1, "workdir", json_string(wish->workdir));
    int rc = -1;
    *t = (struct code_taken){.notes = json_array(), .lock = -1};
    const bool known = info && code_record_look(info, wish->workdir);
    if (!info)
        err_set(err, ERR_MEMORY, "out of memory, or the workdir is not UTF-8");
    else if (!known && !wish->snapshot)
        rc = 0;
    else if (make_staging(t, wish->home, err) == 0)
        rc = write_all(t, wish, info, err);
    json_decref(info);
    if (rc < 0)
        code_take_end(t);
    return rc;
}

void code_take_end(struct code_taken *t)
{
    if (t->dir[0])
        code_tree_remove(t->dir, NULL);
    if (t->lock >= 0)
        close(t->lock);
    json_decref(t->notes);
    *t = (struct code_taken){.lock = -1};
}
