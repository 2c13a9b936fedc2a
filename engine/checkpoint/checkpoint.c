/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - load a checkpoint; see checkpoint.h */
#include "engine/checkpoint/checkpoint.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/optim/optim.h"
#include "engine/optim/state.h"

static int join(char *path, const char *dir, const char *name, struct err *err)
{
    if (snprintf(path, CHECKPOINT_PATH, "%s/%s", dir, name) >= CHECKPOINT_PATH)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    return 0;
}

static int read_state(struct checkpoint_state *s, const char *dir, const struct layout *l, struct err *err)
{
    char path[CHECKPOINT_PATH], layout[17];
    struct err why = { 0 };
    if (join(path, dir, "state.json", err) < 0)
        return -1;
    json_t *o = safe_open_json(path, 0, &why);
    if (!o)
        return err_set(err, ERR_DATA, "%s is not readable: %s", path, why.text);
    const char *was = json_string_value(json_object_get(o, "layout_digest"));
    const char *spec = json_string_value(json_object_get(o, "spec_digest"));
    const char *data = json_string_value(json_object_get(o, "data_digest"));
    const char *base = json_string_value(json_object_get(o, "base_digest"));
    snprintf(layout, sizeof(layout), "%016llx", (unsigned long long)layout_digest(l));
    *s = (struct checkpoint_state){
        .step = json_integer_value(json_object_get(o, "step")),
        .optim_count = json_integer_value(json_object_get(o, "optim_count")),
        .seed = (uint64_t)json_integer_value(json_object_get(o, "seed")),
        .loss = json_number_value(json_object_get(o, "loss")),
    };
    snprintf(s->spec_digest, sizeof(s->spec_digest), "%s", spec ? spec : "");
    snprintf(s->data_digest, sizeof(s->data_digest), "%s", data ? data : "");
    snprintf(s->base_digest, sizeof(s->base_digest), "%s", base ? base : "");
    int rc = 0;
    if (json_integer_value(json_object_get(o, "schema")) != 1 || !was)
        rc = err_set(err, ERR_DATA, "%s has a format that this version does not read", path);
    else if (strcmp(was, layout) != 0)
        rc = err_set(err, ERR_USAGE,
                     "%s is a checkpoint of a different model; set train.model to the same model, or use "
                     "another checkpoint.dir",
                     dir);
    json_decref(o);
    return rc;
}

json_t *checkpoint_notes(const char *dir, struct err *err)
{
    char path[CHECKPOINT_PATH];
    struct err why = { 0 };
    if (join(path, dir, "state.json", err) < 0)
        return NULL;
    json_t *o = safe_open_json(path, 0, &why);
    if (!json_is_object(json_object_get(o, "job"))) {
        err_set(err, ERR_DATA, "%s is not the state of a checkpoint: %s", path, o ? "it has no job id" : why.text);
        json_decref(o);
        return NULL;
    }
    return o;
}

/* How well a file matches a state: counts of tensors by name, and the first of each kind. */
struct match {
    int  matched, missing, shapes;
    char first_missing[ST_NAME], first_shape[ST_NAME];
};

/* "341 of 343 tensors match, 1 is missing (pos_embed), ..." */
static int say_mismatch(const char *path, const struct match *m, struct err *err)
{
    char missing[ST_NAME + 40] = "", shapes[ST_NAME + 60] = "";
    if (m->missing)
        snprintf(missing, sizeof(missing), "; it has no tensor '%s'%s", m->first_missing,
                 m->missing > 1 ? " and others" : "");
    if (m->shapes)
        snprintf(shapes, sizeof(shapes), "; '%s'%s a different shape in this model", m->first_shape,
                 m->shapes > 1 ? " and others have" : " has");
    return err_set(err, ERR_USAGE, "%s: %d of %d tensors match, %d missing, %d with a different shape%s%s",
                   path, m->matched, m->matched + m->missing + m->shapes, m->missing, m->shapes, missing, shapes);
}

/* Reads parts [first, last) of `into` from a file; the sentence reports how much of it matched. */
static int read_parts(const char *path, const char *prefix, const struct state *into, int first,
                      int last, struct err *err)
{
    struct match m = {0};
    struct st_file *f = NULL;
    int rc = st_open(&f, path, err);
    for (int i = first; rc == 0 && i < last; i++) {
        const struct state_part *p = &into->part[i];
        char name[ST_NAME];
        snprintf(name, sizeof(name), "%s%s", prefix, p->name);
        const struct st_tensor *t = st_find(f, name);
        if (!t) {
            if (m.missing++ == 0)
                snprintf(m.first_missing, sizeof(m.first_missing), "%s", name);
        } else if (t->ndim != p->ndim ||
                   memcmp(t->dim, p->dim, sizeof(*p->dim) * (size_t)p->ndim) != 0) {
            if (m.shapes++ == 0)
                snprintf(m.first_shape, sizeof(m.first_shape), "%s", name);
        } else {
            m.matched++;
            rc = st_range_to_float(p->data, t, p->from, p->to - p->from, err);
        }
    }
    st_close(f);
    return rc == 0 && (m.missing || m.shapes) ? say_mismatch(path, &m, err) : rc;
}

/* Averages exist for trained tensors only. */
static int read_ema(const char *path, const struct state *weights, struct err *err)
{
    struct state averaged = {0};
    struct st_file *f = NULL;
    if (st_open(&f, path, err) < 0)
        return -1;
    averaged.part = calloc((size_t)weights->weights + 1, sizeof(*averaged.part));
    for (int i = 0; averaged.part && i < weights->weights; i++) {
        char name[ST_NAME];
        snprintf(name, sizeof(name), "ema.%s", weights->part[i].name);
        if (st_find(f, name))
            averaged.part[averaged.len++] = weights->part[i];
    }
    st_close(f);
    int rc = averaged.part ? read_parts(path, "ema.", &averaged, 0, averaged.len, err)
                           : err_set(err, ERR_MEMORY, "out of memory for a list of tensors");
    free(averaged.part);
    return rc;
}

int checkpoint_load_parts(struct checkpoint_state *state, const char *dir, const struct layout *l,
                          const struct state *into, bool ema, struct err *err)
{
    struct manifest m;
    char path[CHECKPOINT_PATH];
    if (manifest_verify(&m, dir, err) < 0)
        return err_prefix(err, "checkpoint %s: ", dir);
    if (read_state(state, dir, l, err) < 0 || join(path, dir, CHECKPOINT_WEIGHTS, err) < 0 ||
        read_parts(path, "", into, 0, into->weights, err) < 0 ||
        join(path, dir, CHECKPOINT_MOMENTS, err) < 0)
        return -1;
    if (into->len > into->weights &&
        read_parts(path, "", into, into->weights, into->len, err) < 0)
        return -1;
    return ema ? read_ema(path, into, err) : 0;
}

int checkpoint_load(struct checkpoint_state *state, const char *dir, const struct layout *l,
                    float *weights, struct optim *o, bool ema, struct err *err)
{
    const struct state_source source = {.layout = l, .weights = weights, .optim = o};
    struct state into;
    if (state_make(&into, &source, err) < 0)
        return -1;
    int rc = checkpoint_load_parts(state, dir, l, &into, ema, err);
    state_free(&into);
    if (rc == 0 && o)
        optim_set_count(o, state->optim_count);
    return rc;
}

enum { SMALL_FILES = 1 << 16, HEADER_ROW = 256 }; /* state.json, manifest.json, trust; a tensor in a header */

int64_t checkpoint_need(const struct state *s)
{
    int64_t bytes = SMALL_FILES;
    for (int i = 0; i < s->len; i++)
        bytes += (int64_t)(s->part[i].count * sizeof(float)) + HEADER_ROW;
    return bytes;
}

int64_t checkpoint_free(const char *root)
{
    struct statvfs v;
    return statvfs(root, &v) == 0 ? (int64_t)(v.f_bavail * v.f_frsize) : -1;
}
