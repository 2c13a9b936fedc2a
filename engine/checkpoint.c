/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - write one, read one; see checkpoint.h */
#include "engine/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/digest.h"
#include "engine/err.h"
#include "engine/layout.h"
#include "engine/optim.h"
#include "engine/safetensors.h"
#include "engine/scratch.h"

static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "state.json",
                                    NULL};

static int join(char *path, const char *dir, const char *name, struct err *err)
{
    if (snprintf(path, CHECKPOINT_PATH, "%s/%s", dir, name) >= CHECKPOINT_PATH)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    return 0;
}

/* Tensors of one file, however they are kept in memory. */
struct piece {
    const char    *name;
    int            ndim;
    const int64_t *dim;
    float         *data;
    size_t         count;
};

struct piece_list {
    int           len;
    struct piece *at;
};

static int pieces_of_weights(struct piece_list *out, const struct layout *l, const float *weights,
                             struct err *err)
{
    out->len = layout_len(l);
    out->at = calloc((size_t)out->len + 1, sizeof(*out->at));
    if (!out->at)
        return err_set(err, ERR_MEMORY, "out of memory for a list of tensors");
    for (int i = 0; i < out->len; i++) {
        const struct tensor *t = layout_at(l, i);
        out->at[i] = (struct piece){t->name, t->ndim, t->dim,
                                    (float *)(uintptr_t)(weights + t->offset), t->count};
    }
    return 0;
}

static int pieces_of_optim(struct piece_list *out, struct optim *o, struct err *err)
{
    out->len = optim_state_len(o);
    out->at = calloc((size_t)out->len + 1, sizeof(*out->at));
    if (!out->at)
        return err_set(err, ERR_MEMORY, "out of memory for a list of tensors");
    for (int i = 0; i < out->len; i++) {
        const struct optim_state *s = optim_state_at(o, i);
        out->at[i] = (struct piece){s->name, s->ndim, s->dim, s->data, (size_t)s->count};
    }
    return 0;
}

/* Is what the disk holds what memory holds? */
static int compare(const char *path, const struct piece_list *list, struct err *err)
{
    struct st_file *f = NULL;
    int rc = st_open(&f, path, err);
    for (int i = 0; rc == 0 && i < list->len; i++) {
        const struct piece *p = &list->at[i];
        const struct st_tensor *t = st_find(f, p->name);
        if (!t || t->count != p->count || memcmp(t->data, p->data, t->bytes) != 0)
            rc = err_set(err, ERR_SYSTEM, "%s: '%s' reads back differently from what was written",
                         path, p->name);
    }
    st_close(f);
    return rc;
}

/* Keeps errno of the failure for the caller. */
static int write_pieces(const char *path, const struct piece_list *list, struct err *err)
{
    struct st_writer *w = NULL;
    int64_t bytes;
    int rc = -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int why = errno;
    if (fd < 0) {
        err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(why));
        goto out;
    }
    if (st_writer_create(&w, err) < 0)
        goto out;
    for (int i = 0; i < list->len; i++) {
        const struct piece *p = &list->at[i];
        if (st_writer_add(w, p->name, ST_F32, p->ndim, p->dim, p->data, err) < 0)
            goto out;
    }
    errno = 0;
    rc = st_writer_write(w, fd, &bytes, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = err_set(err, ERR_SYSTEM, "cannot sync %s: %s", path, strerror(errno));
    why = errno;
    if (rc < 0)
        err_prefix(err, "%s: ", path);
out:
    if (fd >= 0)
        close(fd);
    st_writer_destroy(w);
    if (rc == 0)
        rc = compare(path, list, err);
    errno = why;
    return rc;
}

static int write_text(const char *path, const char *text, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t n = strlen(text);
    int rc = fd >= 0 && write(fd, text, n) == (ssize_t)n && fsync(fd) == 0 ? 0 : -1;
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(why));
    errno = why;
    return rc;
}

static int write_state(const char *path, const struct checkpoint_state *s, const struct layout *l,
                       struct err *err)
{
    char layout[17];
    snprintf(layout, sizeof(layout), "%016llx", (unsigned long long)layout_digest(l));
    json_t *o = json_pack("{s:i, s:I, s:I, s:I, s:f, s:s, s:s, s:s, s:s}", "schema", 1, "step",
                          (json_int_t)s->step, "optim_count", (json_int_t)s->optim_count, "seed",
                          (json_int_t)s->seed, "loss", s->loss, "spec_digest", s->spec_digest,
                          "data_digest", s->data_digest, "layout_digest", layout, "version",
                          JOBCTL_VERSION);
    if (o && s->job)
        json_object_set(o, "job", (json_t *)(uintptr_t)s->job);
    if (o && s->codec)
        json_object_set(o, "codec", (json_t *)(uintptr_t)s->codec);
    if (o && s->exact)
        json_object_set(o, "exact", (json_t *)(uintptr_t)s->exact);
    char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    int rc = text ? write_text(path, text, err)
                  : err_set(err, ERR_MEMORY, "out of memory for the state of a checkpoint");
    int why = errno;
    free(text);
    json_decref(o);
    errno = why;
    return rc;
}

/* Everything into `tmp`, manifest last. Keeps errno. */
static int fill(const char *tmp, struct checkpoint_info *info, const struct checkpoint_state *state,
                const struct layout *l, const float *weights, struct optim *o, struct err *err)
{
    struct piece_list model = {0}, moments = {0};
    struct manifest m;
    char path[CHECKPOINT_PATH];
    int rc = -1;
    errno = 0;
    if (pieces_of_weights(&model, l, weights, err) < 0 || pieces_of_optim(&moments, o, err) < 0)
        goto out;
    if (join(path, tmp, files[0], err) < 0 || write_pieces(path, &model, err) < 0 ||
        join(path, tmp, files[1], err) < 0 || write_pieces(path, &moments, err) < 0 ||
        join(path, tmp, files[2], err) < 0 || write_state(path, state, l, err) < 0 ||
        join(path, tmp, "trust", err) < 0 || write_text(path, "verified\n", err) < 0 ||
        manifest_write(&m, tmp, state->step, files, err) < 0 || scratch_sync_dir(tmp, err) < 0)
        goto out;
    info->step = state->step;
    info->bytes = m.bytes;
    memcpy(info->digest, m.digest, sizeof(info->digest));
    rc = 0;
out:;
    int why = errno;
    free(model.at);
    free(moments.at);
    errno = why;
    return rc;
}

int checkpoint_save(struct checkpoint_info *info, const char *root,
                    const struct checkpoint_state *state, const struct layout *l,
                    const float *weights, struct optim *o, struct err *err)
{
    char tmp[SCRATCH_PATH], aside[CHECKPOINT_PATH];
    struct stat st;
    *info = (struct checkpoint_info){0};
    if (snprintf(info->path, sizeof(info->path), "%s/step-%08lld", root, (long long)state->step) >=
        (int)sizeof(info->path))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", root);
    if (scratch_mkdirs(root, err) < 0 || scratch_name(tmp, info->path, err) < 0 ||
        scratch_remove(tmp, err) < 0)
        return -1;
    if (mkdir(tmp, 0700) < 0) {
        info->disk_full = errno == ENOSPC || errno == EDQUOT;
        return err_set(err, ERR_SYSTEM, "cannot make the directory %s: %s", tmp, strerror(errno));
    }
    int rc = fill(tmp, info, state, l, weights, o, err);
    info->disk_full = rc < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG);
    if (rc == 0 && lstat(info->path, &st) == 0)
        rc = checkpoint_quarantine(aside, info->path, "another checkpoint of the same step was "
                                                      "written in its place", err);
    if (rc == 0 && rename(tmp, info->path) < 0)
        rc = err_set(err, ERR_SYSTEM, "cannot rename %s to %s: %s", tmp, info->path,
                     strerror(errno));
    if (rc < 0)
        scratch_remove(tmp, NULL);
    return rc < 0 ? -1 : scratch_sync_dir(root, err);
}

static int read_state(struct checkpoint_state *s, const char *dir, const struct layout *l,
                      struct err *err)
{
    char path[CHECKPOINT_PATH], layout[17];
    json_error_t why;
    if (join(path, dir, "state.json", err) < 0)
        return -1;
    json_t *o = json_load_file(path, 0, &why);
    if (!o)
        return err_set(err, ERR_DATA, "%s is not readable: %s", path, why.text);
    const char *was = json_string_value(json_object_get(o, "layout_digest"));
    const char *spec = json_string_value(json_object_get(o, "spec_digest"));
    const char *data = json_string_value(json_object_get(o, "data_digest"));
    snprintf(layout, sizeof(layout), "%016llx", (unsigned long long)layout_digest(l));
    *s = (struct checkpoint_state){
        .step = json_integer_value(json_object_get(o, "step")),
        .optim_count = json_integer_value(json_object_get(o, "optim_count")),
        .seed = (uint64_t)json_integer_value(json_object_get(o, "seed")),
        .loss = json_number_value(json_object_get(o, "loss")),
    };
    snprintf(s->spec_digest, sizeof(s->spec_digest), "%s", spec ? spec : "");
    snprintf(s->data_digest, sizeof(s->data_digest), "%s", data ? data : "");
    int rc = 0;
    if (json_integer_value(json_object_get(o, "schema")) != 1 || !was)
        rc = err_set(err, ERR_DATA, "%s is not a state that this version reads", path);
    else if (strcmp(was, layout) != 0)
        rc = err_set(err, ERR_USAGE,
                     "%s is a checkpoint of another model than train.model describes; use the same "
                     "model, or another checkpoint.dir",
                     dir);
    json_decref(o);
    return rc;
}

json_t *checkpoint_notes(const char *dir, struct err *err)
{
    char path[CHECKPOINT_PATH];
    json_error_t why;
    if (join(path, dir, "state.json", err) < 0)
        return NULL;
    json_t *o = json_load_file(path, 0, &why);
    if (!json_is_object(json_object_get(o, "job"))) {
        err_set(err, ERR_DATA, "%s is not the state of a checkpoint: %s", path,
                o ? "it does not say which job it is of" : why.text);
        json_decref(o);
        return NULL;
    }
    return o;
}

static int read_pieces(const char *path, const char *prefix, const struct piece_list *list,
                       struct err *err)
{
    struct st_file *f = NULL;
    int rc = st_open(&f, path, err);
    for (int i = 0; rc == 0 && i < list->len; i++) {
        const struct piece *p = &list->at[i];
        char name[ST_NAME];
        snprintf(name, sizeof(name), "%s%s", prefix, p->name);
        const struct st_tensor *t = st_find(f, name);
        if (!t)
            rc = err_set(err, ERR_USAGE, "%s has no tensor '%s'", path, name);
        else if (t->ndim != p->ndim ||
                 memcmp(t->dim, p->dim, sizeof(*p->dim) * (size_t)p->ndim) != 0)
            rc =
                err_set(err, ERR_USAGE, "%s: '%s' has another shape than this model's", path, name);
        else
            rc = st_to_float(p->data, t, p->count, err);
    }
    st_close(f);
    return rc;
}

/* Averages exist for trained tensors only. */
static int read_ema(const char *path, const struct piece_list *model, struct err *err)
{
    struct piece_list averaged = {0};
    struct st_file *f = NULL;
    if (st_open(&f, path, err) < 0)
        return -1;
    averaged.at = calloc((size_t)model->len + 1, sizeof(*averaged.at));
    for (int i = 0; averaged.at && i < model->len; i++) {
        char name[ST_NAME];
        snprintf(name, sizeof(name), "ema.%s", model->at[i].name);
        if (st_find(f, name))
            averaged.at[averaged.len++] = model->at[i];
    }
    st_close(f);
    int rc = averaged.at ? read_pieces(path, "ema.", &averaged, err)
                         : err_set(err, ERR_MEMORY, "out of memory for a list of tensors");
    free(averaged.at);
    return rc;
}

int checkpoint_load(struct checkpoint_state *state, const char *dir, const struct layout *l,
                    float *weights, struct optim *o, bool ema, struct err *err)
{
    struct piece_list model = {0}, moments = {0};
    struct manifest m;
    char path[CHECKPOINT_PATH];
    int rc = -1;
    if (manifest_verify(&m, dir, err) < 0)
        return err_prefix(err, "checkpoint %s: ", dir);
    if (read_state(state, dir, l, err) < 0 || pieces_of_weights(&model, l, weights, err) < 0 ||
        join(path, dir, files[0], err) < 0 || read_pieces(path, "", &model, err) < 0 ||
        join(path, dir, files[1], err) < 0)
        goto out;
    if (o && (pieces_of_optim(&moments, o, err) < 0 || read_pieces(path, "", &moments, err) < 0))
        goto out;
    if (ema && read_ema(path, &model, err) < 0)
        goto out;
    if (o)
        optim_set_count(o, state->optim_count);
    rc = 0;
out:
    free(model.at);
    free(moments.at);
    return rc;
}

int checkpoint_load_weights(const char *path, const struct layout *l, float *weights,
                            struct err *err)
{
    struct piece_list model = {0};
    struct stat st;
    char in[CHECKPOINT_PATH];
    struct manifest m;
    if (stat(path, &st) < 0)
        return err_set(err, ERR_USAGE, "load_from: cannot read %s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) {
        if (manifest_verify(&m, path, err) < 0)
            return err_prefix(err, "load_from: checkpoint %s: ", path);
        if (join(in, path, files[0], err) < 0)
            return -1;
        path = in;
    }
    int rc = pieces_of_weights(&model, l, weights, err);
    if (rc == 0 && read_pieces(path, "", &model, err) < 0)
        rc = err_prefix(err, "load_from: ");
    free(model.at);
    return rc;
}
