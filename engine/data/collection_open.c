/* SPDX-License-Identifier: Apache-2.0 */
/* collection_open.c - which layout a directory has, told from what lies in it */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/contract/dir_walk.h"
#include "engine/contract/err.h"
#include "engine/contract/text_append.h"
#include "engine/data/collection_internal.h"
#include "engine/data/image.h"
#include "engine/data/side_files.h"

enum { BELOW = 3 };

/* What lies in the directory. */
struct found {
    bool list, meta, hub, csv, index, tar; /* captions.jsonl, meta_data.json, metadata.jsonl and .csv, wids-meta.json,
                                              *.tar */
    char a_tar[256], other[256];      /* one of them; a file of another program's layout */
};

static bool ends(const char *name, const char *with)
{
    const size_t n = strlen(name), w = strlen(with);
    return n > w && strcmp(name + n - w, with) == 0;
}

static void note(struct found *f, const char *name)
{
    f->list |= strcmp(name, "captions.jsonl") == 0;
    f->meta |= strcmp(name, "meta_data.json") == 0;
    f->hub |= strcmp(name, "metadata.jsonl") == 0;
    f->csv |= strcmp(name, "metadata.csv") == 0;
    f->index |= strcmp(name, "wids-meta.json") == 0;
    if (name[0] != '.' && ends(name, ".tar")) {
        f->tar = true;
        snprintf(f->a_tar, sizeof(f->a_tar), "%s", name);
    }
    if (ends(name, ".parquet") || ends(name, ".tar.gz") || ends(name, ".tgz") ||
        ends(name, ".tar.zst"))
        snprintf(f->other, sizeof(f->other), "%s", name);
}

static int look(struct found *f, const char *path, struct err *err)
{
    struct dirent *e;
    int rc;
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT ? err_set(err, ERR_DATA, "cannot read the data folder %s: %s", path, strerror(errno))
                               : err_set_errno(err, errno, "cannot read the data folder %s", path);
    while ((rc = dir_walk_next(&e, d, path, err)) > 0)
        note(f, e->d_name);
    closedir(d);
    return rc;
}

static int ambiguous(const char *path, const char *a, const char *b, struct err *err)
{
    return err_set(err, ERR_DATA, "%s holds both %s and %s, which are different layouts: move one of them away", path,
                   a, b);
}

/* The files that name a layout; at most one of them. */
static int choose(struct collection *c, const struct found *f, struct err *err)
{
    const struct {
        bool                   there;
        const char            *file;
        enum collection_layout layout;
    } all[] = {{f->list, "captions.jsonl", COLLECTION_LIST},
               {f->meta, "meta_data.json", COLLECTION_META},
               {f->hub, "metadata.jsonl", COLLECTION_HUB},
               {f->csv, "metadata.csv", COLLECTION_CSV},
               {f->index || f->tar, f->index ? "wids-meta.json" : f->a_tar, COLLECTION_SHARDS}};
    const char *found = NULL;
    c->layout = COLLECTION_FOLDER;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].there && found)
            return ambiguous(c->path, found, all[i].file, err);
        if (all[i].there) {
            found = all[i].file;
            c->layout = all[i].layout;
        }
    }
    return 0;
}

static int find_layout(struct collection *c, struct found *f, struct err *err)
{
    struct stat st;
    if (stat(c->path, &st) == 0 && S_ISREG(st.st_mode) && ends(c->path, ".tar")) {
        c->layout = COLLECTION_SHARDS;
        return 0;
    }
    if (look(f, c->path, err) < 0)
        return -1;
    return choose(c, f, err);
}

static int open_layout(struct collection *c, struct err *err)
{
    switch (c->layout) {
    case COLLECTION_FOLDER:
        c->kind = &collection_folder_kind;
        return collection_open_folder(c, err);
    case COLLECTION_META:
        c->kind = &collection_meta_kind;
        return collection_open_meta(c, err);
    case COLLECTION_LIST:
        c->kind = &collection_list_kind;
        return collection_open_list(c, "captions.jsonl", err);
    case COLLECTION_HUB:
        c->kind = &collection_hub_kind;
        return collection_open_list(c, "metadata.jsonl", err);
    case COLLECTION_CSV:
        c->kind = &collection_csv_kind;
        return collection_open_list(c, "metadata.csv", err);
    default:
        c->kind = &collection_shards_kind;
        return collection_open_shards(c, err);
    }
}

/* --- folders in it --------------------------------------------------------------------------- */

static bool has_picture(const char *path)
{
    struct dirent *e;
    DIR *d = opendir(path);
    bool found = false;
    while (d && !found && dir_walk_next(&e, d, path, NULL) > 0)
        found = e->d_name[0] != '.' && image_name_ok(e->d_name);
    if (d)
        closedir(d);
    return found;
}

/* Names of the folders with pictures, some of them. */
static int look_below(struct collection *c, struct err *err)
{
    struct dirent **names = NULL;
    const int n = scandir(c->path, &names, NULL, alphasort);
    int found = 0;
    for (int i = 0; i < n; i++) {
        char *path = names[i]->d_name[0] != '.' && (names[i]->d_type == DT_DIR || names[i]->d_type == DT_UNKNOWN)
                         ? collection_text(err, "%s/%s", c->path, names[i]->d_name) : NULL;
        if (path && found < BELOW + 1 && has_picture(path) && found++ < BELOW)
            text_append(c->below, sizeof(c->below), "%s%.40s", c->below[0] ? ", " : "", names[i]->d_name);
        free(path);
        free(names[i]);
    }
    free(names);
    if (found > BELOW)
        text_append(c->below, sizeof(c->below), " and others");
    return 0;
}

static bool is_there(const struct collection *c, const char *name)
{
    char path[COLLECTION_NAME];
    snprintf(path, sizeof(path), "%.3900s/%s", c->path, name);
    return access(path, F_OK) == 0;
}

/* Why there is nothing, where that can be told. */
static int empty(const struct collection *c, const struct found *f, struct err *err)
{
    if (is_there(c, "train/metadata.jsonl") || is_there(c, "train/metadata.csv"))
        return err_set(err, ERR_DATA, "%s has its pictures in %s/train: name that folder in train.data.path", c->path,
                       c->path);
    if (c->below[0])
        return err_set(err, ERR_DATA, "%s holds no pictures itself, but folders with some, which are not read: %s; name one of "
                       "them in train.data.path, or list all pictures in %s/metadata.csv, with lines FOLDER/NAME,CAPTION below "
                       "file_name,text", c->path, c->below, c->path);
    if (f->other[0])
        return err_set(err, ERR_DATA, "%s has no supported layout, but %s: unpack it, or write metadata.jsonl",
                       c->path, f->other);
    if (c->layout == COLLECTION_SHARDS)
        return err_set(err, ERR_DATA, "%s holds no samples", c->path);
    return err_set(err, ERR_DATA, "%s holds no pictures (.png, .jpg, .jpeg or .webp)", c->path);
}

static int copy_options(struct collection *c, const struct collection_options *o, struct err *err)
{
    c->o = *o;
    c->path = strdup(o->path);
    c->text_dir = o->text_dir ? strdup(o->text_dir) : NULL;
    c->o.path = c->path;
    c->o.text_dir = c->text_dir;
    c->prompt = o->prompt && o->prompt[0] ? strdup(o->prompt) : NULL;
    c->o.prompt = c->prompt;
    if (!c->path || (o->text_dir && !c->text_dir) || (o->prompt && o->prompt[0] && !c->prompt))
        return err_set(err, ERR_MEMORY, "out of memory for a collection");
    for (size_t n = strlen(c->path); n > 1 && c->path[n - 1] == '/'; n--)
        c->path[n - 1] = '\0';
    return side_files_create(&c->side, err);
}

int collection_open(struct collection **out, const struct collection_options *o, collection_bad_fn bad, void *arg,
                    struct err *err)
{
    struct found f = {0};
    struct collection *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_MEMORY, "out of memory for a collection");
    *c = (struct collection){.list = -1, .bad = bad, .bad_arg = arg};
    int rc = copy_options(c, o, err);
    if (rc == 0)
        rc = find_layout(c, &f, err);
    if (rc == 0)
        rc = open_layout(c, err);
    if (rc == 0 && c->layout == COLLECTION_FOLDER)
        rc = look_below(c, err);
    if (rc == 0 && c->len == 0)
        rc = empty(c, &f, err);
    if (rc == 0 && o->suffixes_needed)
        rc = collection_suffixes_check(c, err);
    if (rc < 0) {
        collection_close(c);
        return -1;
    }
    c->bad = NULL;
    *out = c;
    return 0;
}
