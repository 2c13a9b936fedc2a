/* SPDX-License-Identifier: Apache-2.0 */
/* collection_open.c - recognizes a directory's layout by the files in it */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/base/text_append.h"
#include "engine/collection/collection.h"
#include "engine/collection/collection_internal.h"
#include "engine/collection/side_files.h"
#include "engine/contract/train_config.h"
#include "engine/contract/train_spec.h"
#include "engine/image/image.h"

static int copy_suffixes(char (*to)[COLLECTION_SUFFIX], const char (*from)[TRAIN_SPEC_SUFFIX], int n)
{
    int len = 0;
    for (; len < n && len < COLLECTION_SUFFIXES; len++)
        snprintf(to[len], COLLECTION_SUFFIX, "%s", from[len]);
    return len;
}

void collection_options(struct collection_options *out, const struct train_spec *s)
{
    const bool plain = s->encoders == ENCODERS_DCT_HASH || s->encoders == ENCODERS_LUMINA;
    *out = (struct collection_options){.path = s->data_path,
                                       .recipe = plain ? COLLECTION_PLAIN : COLLECTION_SANA,
                                       .resolution = s->resolution,
                                       .multi_scale = s->multi_scale,
                                       .step = (plain ? s->dct_block : SYNTHETIC_SHRINK) * s->model.patch,
                                       .suffixes_needed = true,
                                       .prompt = s->data_prompt,
                                       .rule = {s->score_min, s->score_temperature}};
    out->caption_suffixes = copy_suffixes(out->caption_suffix, s->caption_suffix, s->caption_suffixes);
    out->score_suffixes = copy_suffixes(out->score_suffix, s->score_suffix, s->score_suffixes);
}

#define JSON ".json"
enum { TOLD = 6 };

/* --- is there one? ---------------------------------------------------------------------------- */

static bool has_file(const struct collection *c, int64_t i, const char *suffix)
{
    struct collection_sample s = {0};
    const bool shards = c->layout == COLLECTION_SHARDS;
    char *path = NULL;
    if (shards || collection_sample(&s, c, i, NULL) == 0)
        path = c->kind->side(c, i, &s, suffix, NULL);
    const bool found = path && access(path, F_OK) == 0;
    collection_sample_free(&s);
    free(path);
    return found;
}

/* In the order of samples: of those that have any, one of the first has one. Without a suffix the files are the
 * pictures' own descriptions, which need not be there. */
static bool has_any(const struct collection *c, const char *suffix)
{
    if (!suffix[0])
        return true;
    for (int i = 0; i < c->nshards; i++)
        if (c->shards[i].len > 0 && has_file(c, c->shards[i].first, suffix))
            return true;
    for (int64_t i = 0; c->layout != COLLECTION_SHARDS && i < c->len; i++)
        if (has_file(c, i, suffix))
            return true;
    return false;
}

/* --- which are there? ------------------------------------------------------------------------- */

struct names {
    struct dirent **at;
    int             n;
    char            told[240];
    int             count;
};

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_json(const char *name)
{
    const size_t n = strlen(name), end = strlen(JSON);
    return n > end && strcmp(name + n - end, JSON) == 0;
}

/* Is there a picture or shard "STEM.*", for the first `n` bytes of `name`? */
static bool has_stem(const struct names *all, const char *name, size_t n)
{
    int lo = 0, hi = all->n;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        strncmp(all->at[mid]->d_name, name, n) < 0 ? (lo = mid + 1) : (hi = mid);
    }
    for (; lo < all->n && strncmp(all->at[lo]->d_name, name, n) == 0; lo++)
        if (all->at[lo]->d_name[n] == '.' && !is_json(all->at[lo]->d_name))
            return true;
    return false;
}

static void tell(struct names *all, const char *suffix, int n)
{
    char known[COLLECTION_SUFFIX + 8];
    snprintf(known, sizeof(known), " %.*s,", n, suffix);
    if (n < COLLECTION_SUFFIX && !strstr(all->told, known) && all->count++ < TOLD)
        text_append(all->told, sizeof(all->told), "%s", known);
}

/* The longest name of a picture or shard that the file's begins with; the rest is its suffix. */
static void take_name(struct names *all, const char *name)
{
    const size_t n = strlen(name) - strlen(JSON);
    for (size_t stem = n; stem > 0; stem--)
        if (has_stem(all, name, stem)) {
            if (stem < n)
                tell(all, name + stem, (int)(n - stem));
            return;
        }
}

/* " _a, _b", or "". */
static void list_suffixes(struct names *all, const char *dir)
{
    *all = (struct names){0};
    all->n = scandir(dir, &all->at, NULL, by_bytes);
    for (int i = 0; i < all->n; i++)
        if (is_json(all->at[i]->d_name))
            take_name(all, all->at[i]->d_name);
    for (int i = 0; i < all->n; i++)
        free(all->at[i]);
    free(all->at);
    if (all->told[0])
        all->told[strlen(all->told) - 1] = '\0';
}

/* --- the check -------------------------------------------------------------------------------- */

static int refuse(const struct collection *c, const char *key, const char *suffix, struct err *err)
{
    struct names all;
    const bool shards = c->layout == COLLECTION_SHARDS;
    char *dir = strdup(c->nshards > 0 ? c->shards[0].path : c->path);
    if (!dir)
        return err_set(err, ERR_MEMORY, "out of memory for a path");
    if (c->nshards > 0 && strrchr(dir, '/'))
        *strrchr(dir, '/') = '\0';
    list_suffixes(&all, dir);
    err_set(err, ERR_USAGE, "train.data.%s: there is no file %s%s.json beside the %s in %s; %s%s", key,
            shards ? "SHARD" : "NAME", suffix, shards ? "shards" : "pictures", dir,
            all.told[0] ? "suffixes that are there:" : "there are none with any suffix", all.told);
    free(dir);
    return -1;
}

/* ERR_USAGE: no file has a suffix of the options; names those that there are */
static int collection_suffixes_check(const struct collection *c, struct err *err)
{
    const struct collection_options *o = &c->o;
    for (int k = 0; k < o->caption_suffixes; k++)
        if (!has_any(c, o->caption_suffix[k]))
            return refuse(c, "caption_suffixes", o->caption_suffix[k], err);
    for (int k = 0; k < o->score_suffixes; k++)
        if (!has_any(c, o->score_suffix[k]))
            return refuse(c, "score_suffixes", o->score_suffix[k], err);
    return 0;
}

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
