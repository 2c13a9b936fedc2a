/* SPDX-License-Identifier: Apache-2.0 */
/* weights_source.c - see weights_source.h */
#include "engine/weights/weights_source.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/files/mapped_file.h"
#include "engine/files/safetensors.h"
#include "engine/hub/weights_choice.h"
#include "engine/weights/pth.h"
#include "engine/weights/tensor_view.h"

struct err;

static int choose(struct weights_choice *c, const char *dir, struct err *err)
{
    struct dirent *e;
    DIR *d = opendir(dir);
    int rc;
    if (!d)
        return err_set_errno(err, errno, "%s: cannot be read", dir);
    while ((rc = dir_walk_next(&e, d, dir, err)) > 0)
        weights_choice_add(c, e->d_name);
    closedir(d);
    return rc;
}

static int join(char out[PATH_MAX], const char *dir, const char *name, struct err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
        return 0;
    return err_set(err, ERR_USAGE, "%s/%s: the path is too long", dir, name);
}

/* The folder of the part, if this is a pipeline; else the directory itself. */
static int enter(char out[PATH_MAX], const char *dir, const char *part, struct err *err)
{
    if (join(out, dir, "model_index.json", err) < 0)
        return -1;
    if (access(out, F_OK) < 0)
        return snprintf(out, PATH_MAX, "%s", dir) < PATH_MAX ? 0 : err_set(err, ERR_USAGE, "%s: too long", dir);
    if (join(out, dir, part, err) < 0)
        return -1;
    if (access(out, F_OK) == 0)
        return 0;
    return err_set(err, ERR_DATA, "%s: it has a model_index.json, but no folder %s: copy the whole model", dir, part);
}

/* *file: an index of shards, or the one file with weights, in `dir`, or in its folder `part` if it has a
 * model_index.json. ERR_DATA: none, or several. */
static int weights_folder_find(char file[PATH_MAX], const char *dir, const char *part, struct err *err)
{
    char in[PATH_MAX];
    struct weights_choice c = {0};
    if (enter(in, dir, part, err) < 0 || choose(&c, in, err) < 0)
        return -1;
    if (c.form == 0)
        return err_set(err, ERR_DATA, "%s: no weights in this directory: no .safetensors, .pth, .pt or .bin file", in);
    if (c.files > 1)
        return err_set(err, ERR_DATA, "%s: %d files end in %s, such as %s, and no index lists which belong together: "
                       "name one of them", in, c.files, weights_choice_ending(&c), c.name);
    return join(file, in, c.name, err);
}

enum { SHARDS_MAX = 1024, INDEX_MAX = 100 * 1000 * 1000 };

/* One file; either form. */
struct shard {
    char               name[NAME_MAX + 1]; /* in its folder */
    struct mapped_file map;
    struct st_file    *st;
    struct pth        *pth;
};

struct weights_source {
    char                path[PATH_MAX];
    char                form[64];
    struct shard       *shard;
    int                 shards;
    struct tensor_view *tensor;
    int                 len, others;
};

/* --- files -------------------------------------------------------------------------------- */

static int open_shard(struct shard *s, const char *path, struct err *err)
{
    if (mapped_file_open(&s->map, path, err) < 0)
        return -1;
    const int rc = pth_is(s->map.bytes, s->map.size) ? pth_parse(&s->pth, s->map.bytes, s->map.size, err)
                                                     : st_parse(&s->st, s->map.bytes, s->map.size, err);
    return rc < 0 ? err_prefix(err, "%s: ", path) : 0;
}

static int shard_len(const struct shard *s)
{
    return s->pth ? pth_len(s->pth) : st_len(s->st);
}

/* The weights of a .pth file are below one of these, or at its root. */
static const char *prefix_of(const struct pth *f)
{
    static const char *const below[] = {"/state_dict/", "/model/", "/module/"};
    for (size_t b = 0; b < sizeof(below) / sizeof(*below); b++)
        for (int i = 0; i < pth_len(f); i++)
            if (strncmp(pth_at(f, i)->name, below[b], strlen(below[b])) == 0)
                return below[b];
    return "/";
}

static bool is_weight(const char *path, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(path, prefix, n) == 0 && path[n] && !strchr(path + n, '/');
}

static void add_pth(struct weights_source *w, const struct pth *f)
{
    const char *prefix = prefix_of(f);
    for (int i = 0; i < pth_len(f); i++) {
        const struct tensor_view *v = pth_at(f, i);
        if (!is_weight(v->name, prefix)) {
            w->others++;
            continue;
        }
        struct tensor_view *to = &w->tensor[w->len++];
        *to = *v;
        snprintf(to->name, sizeof(to->name), "%s", v->name + strlen(prefix));
    }
}

static void add_shard(struct weights_source *w, const struct shard *s)
{
    if (s->pth)
        add_pth(w, s->pth);
    else
        for (int i = 0; i < st_len(s->st); i++)
            tensor_view_of(&w->tensor[w->len++], st_at(s->st, i));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor_view *)a)->name, ((const struct tensor_view *)b)->name);
}

static int list_tensors(struct weights_source *w, struct err *err)
{
    size_t n = 0;
    for (int i = 0; i < w->shards; i++)
        n += (size_t)shard_len(&w->shard[i]);
    if (!(w->tensor = calloc(n + 1, sizeof(*w->tensor))))
        return err_set(err, ERR_MEMORY, "no memory for a list of %zu tensors", n);
    for (int i = 0; i < w->shards; i++)
        add_shard(w, &w->shard[i]);
    qsort(w->tensor, (size_t)w->len, sizeof(*w->tensor), by_name);
    for (int i = 1; i < w->len; i++)
        if (strcmp(w->tensor[i - 1].name, w->tensor[i].name) == 0)
            return err_set(err, ERR_DATA, "%s: tensor %s occurs twice", w->path, w->tensor[i].name);
    return w->len ? 0 : err_set(err, ERR_DATA, "%s: the file has no tensors", w->path);
}

/* --- an index of shards ------------------------------------------------------------------- */

static bool is_index(const struct mapped_file *m)
{
    return m->bytes[0] == '{' && m->size < INDEX_MAX;
}

static struct shard *find_shard(struct weights_source *w, const char *name)
{
    for (int i = 0; i < w->shards; i++)
        if (strcmp(w->shard[i].name, name) == 0)
            return &w->shard[i];
    return NULL;
}

static bool is_file_name(const char *name)
{
    return name && name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) <= NAME_MAX;
}

static int add_to_shards(struct weights_source *w, const char *tensor, const char *name, struct err *err)
{
    char path[PATH_MAX];
    const char *slash = strrchr(w->path, '/');
    if (!is_file_name(name))
        return err_set(err, ERR_DATA, "%s: the index names no file in its own directory for tensor %.80s", w->path,
                       tensor);
    if (find_shard(w, name))
        return 0;
    if (w->shards == SHARDS_MAX)
        return err_set(err, ERR_DATA, "%s: it names more than %d files", w->path, SHARDS_MAX);
    struct shard *s = &w->shard[w->shards++];
    snprintf(s->name, sizeof(s->name), "%s", name);
    if (snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash - w->path + 1) : 0, w->path, name) >= PATH_MAX)
        return err_set(err, ERR_DATA, "%s: the path of %s is too long", w->path, name);
    return open_shard(s, path, err) < 0 ? err_prefix(err, "a shard that %s names: ", w->path) : 0;
}

/* Index and shards have the same tensors. */
static int check_map(const struct weights_source *w, const json_t *map, struct err *err)
{
    const char *name;
    json_t *file;
    for (int i = 0; i < w->len; i++)
        if (!json_object_get(map, w->tensor[i].name))
            return err_set(err, ERR_DATA, "%s: the shards have a tensor %s, which the index does not name: index and "
                           "shards do not belong together", w->path, w->tensor[i].name);
    json_object_foreach ((json_t *)(uintptr_t)map, name, file)
        if (!weights_source_find(w, name))
            return err_set(err, ERR_DATA, "%s: tensor %.80s is not in %.80s, which the index names", w->path, name,
                           json_string_value(file));
    return 0;
}

static int read_map(struct weights_source *w, const json_t *map, struct err *err)
{
    const char *tensor;
    json_t *file;
    if (!json_is_object(map) || json_object_size(map) == 0)
        return err_set(err, ERR_DATA, "%s: a JSON file without \"weight_map\": name an index of shards, a file of "
                       "weights or a directory", w->path);
    if (!(w->shard = calloc(SHARDS_MAX, sizeof(*w->shard))))
        return err_set(err, ERR_MEMORY, "no memory for a list of shards");
    json_object_foreach ((json_t *)(uintptr_t)map, tensor, file)
        if (add_to_shards(w, tensor, json_string_value(file), err) < 0)
            return -1;
    snprintf(w->form, sizeof(w->form), "%s, %d shards", w->shard[0].pth ? "torch.save()" : "safetensors", w->shards);
    return list_tensors(w, err) < 0 ? -1 : check_map(w, map, err);
}

static int read_index(struct weights_source *w, const struct mapped_file *m, struct err *err)
{
    json_error_t why;
    json_t *index = json_loadb((const char *)m->bytes, m->size, JSON_REJECT_DUPLICATES, &why);
    if (!index)
        return err_set(err, ERR_DATA, "%s:%d:%d: not JSON: %s", w->path, why.line, why.column, why.text);
    const int rc = read_map(w, json_object_get(index, "weight_map"), err);
    json_decref(index);
    return rc;
}

/* --- opening ------------------------------------------------------------------------------ */

static int read_single(struct weights_source *w, struct err *err)
{
    if (!(w->shard = calloc(1, sizeof(*w->shard))))
        return err_set(err, ERR_MEMORY, "no memory for a file of weights");
    w->shards = 1;
    if (open_shard(&w->shard[0], w->path, err) < 0)
        return -1;
    snprintf(w->form, sizeof(w->form), "%s", w->shard[0].pth ? "torch.save()" : "safetensors");
    return list_tensors(w, err);
}

static int read_path(struct weights_source *w, struct err *err)
{
    struct mapped_file m;
    if (mapped_file_open(&m, w->path, err) < 0)
        return -1;
    const bool index = is_index(&m);
    const int rc = index ? read_index(w, &m, err) : 0;
    mapped_file_close(&m);
    return index ? rc : read_single(w, err);
}

int weights_source_open(struct weights_source **out, const char *path, const char *part, struct err *err)
{
    struct stat st;
    struct weights_source *w = calloc(1, sizeof(*w));
    if (!w)
        return err_set(err, ERR_MEMORY, "no memory for a source of weights");
    const bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    int rc = 0;
    if (folder)
        rc = weights_folder_find(w->path, path, part, err);
    else if (snprintf(w->path, sizeof(w->path), "%s", path) >= PATH_MAX)
        rc = err_set(err, ERR_USAGE, "%.80s...: the path is too long", path);
    if (rc == 0 && read_path(w, err) == 0) {
        *out = w;
        return 0;
    }
    weights_source_close(w);
    return -1;
}

void weights_source_close(struct weights_source *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->shards; i++) {
        st_close(w->shard[i].st);
        pth_close(w->shard[i].pth);
        mapped_file_close(&w->shard[i].map);
    }
    free(w->shard);
    free(w->tensor);
    free(w);
}

int weights_source_len(const struct weights_source *w)
{
    return w->len;
}

const struct tensor_view *weights_source_at(const struct weights_source *w, int i)
{
    return &w->tensor[i];
}

const struct tensor_view *weights_source_find(const struct weights_source *w, const char *name)
{
    struct tensor_view key;
    snprintf(key.name, sizeof(key.name), "%s", name);
    return strlen(name) < sizeof(key.name) ? bsearch(&key, w->tensor, (size_t)w->len, sizeof(key), by_name) : NULL;
}

const char *weights_source_path(const struct weights_source *w)
{
    return w->path;
}

int weights_source_config(json_t **config, char path[PATH_MAX], const struct weights_source *w, struct err *err)
{
    struct mapped_file m;
    json_error_t why;
    const char *slash = strrchr(w->path, '/');
    *config = NULL;
    if (snprintf(path, PATH_MAX, "%.*sconfig.json", slash ? (int)(slash - w->path + 1) : 0, w->path) >= PATH_MAX ||
        (access(path, F_OK) < 0 && errno == ENOENT))
        return 0;
    if (mapped_file_open(&m, path, err) < 0)
        return -1;
    *config = json_loadb((const char *)m.bytes, m.size, JSON_REJECT_DUPLICATES, &why);
    mapped_file_close(&m);
    if (json_is_object(*config))
        return 0;
    if (!*config)
        return err_set(err, ERR_DATA, "%s:%d:%d: not JSON: %s", path, why.line, why.column, why.text);
    json_decref(*config);
    *config = NULL;
    return err_set(err, ERR_DATA, "%s: not a JSON object", path);
}

const char *weights_source_form(const struct weights_source *w)
{
    return w->form;
}

int weights_source_others(const struct weights_source *w)
{
    return w->others;
}
