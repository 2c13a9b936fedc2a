/* SPDX-License-Identifier: Apache-2.0 */
/* verify_load.c - load a golden case: files, weights, sizes, batches */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "tests/verify/verify_internal.h"

int verify_open_beside(struct st_file **out, const char *json_path, const char *suffix, bool needed, struct err *err)
{
    char path[4096];
    const size_t stem = strlen(json_path) - strlen(".json");
    if (snprintf(path, sizeof(path), "%.*s.%s", (int)stem, json_path, suffix) >= (int)sizeof(path))
        return err_set(err, ERR_USAGE, "the path is too long");
    if (!needed && access(path, F_OK) != 0)
        return 0;
    return st_open(out, path, err);
}

/* First parts of names that are not weights; "pos_embed" is a constant in the authors' code. */
static const char *const not_weights[] = {
    "in.", "out.", "act.", "loss.", "grad.", "gradbuf.", "step", "final.", "losses",
    "grad_norms", "lrs", "pos_embed",
};

/* The layout's name for a weight of the case; NULL: the tensor is not a weight. */
static const char *weight_name(const char *name, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (n)
        return strncmp(name, prefix, n) == 0 ? name + n : NULL;
    for (size_t i = 0; i < sizeof(not_weights) / sizeof(not_weights[0]); i++)
        if (strncmp(name, not_weights[i], strlen(not_weights[i])) == 0)
            return strncmp(name, "final_layer.", 12) == 0 ? name : NULL;
    return name;
}

static bool same_shape(const struct tensor *a, const struct st_tensor *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

int verify_load_weights(float *weights, const struct layout *l, const struct verify_case_files *files,
                        const char *prefix, struct err *err)
{
    for (int i = 0; i < layout_len(l); i++) {
        char name[ST_NAME];
        const struct tensor *t = layout_at(l, i);
        snprintf(name, sizeof(name), "%s%s", prefix, t->name);
        const struct st_tensor *from = st_find(files->golden, name);
        if (!from)
            return err_set(err, ERR_DATA, "tensor %s is missing", name);
        if (!same_shape(t, from))
            return err_set(err, ERR_DATA, "tensor %s does not have the shape of the "
                           "configuration", name);
        if (st_to_float(weights + t->offset, from, t->count, err) < 0)
            return -1;
    }
    for (int i = 0; i < st_len(files->golden); i++) {
        const char *name = st_at(files->golden, i)->name;
        const char *weight = weight_name(name, prefix);
        if (weight && layout_find(l, weight) < 0)
            return err_set(err, ERR_DATA, "tensor %s is not part of this configuration", name);
    }
    return 0;
}

int verify_begin_weights(struct model *m, const struct verify_case_files *files, struct err *err)
{
    const json_t *rule = json_object_get(files->config, "procedural");
    const int r = rule ? verify_rule_weights(model_weights(m), model_layout(m), rule, err)
                       : verify_load_weights(model_weights(m), model_layout(m), files, "param.", err);
    return r < 0 ? -1 : model_push(m, err);
}

int verify_limits(struct model_limits *max, const struct verify_case_files *files, const char *x_name,
                  const char *y_name, const struct model_config *cfg, struct err *err)
{
    const struct st_tensor *x = st_find(files->golden, x_name);
    const struct st_tensor *y = st_find(files->golden, y_name);
    if (!x || !y)
        return err_set(err, ERR_DATA, "tensor %s is missing", x ? y_name : x_name);
    if (x->ndim != 4 || y->ndim < 3 || x->dim[1] != cfg->latent_channels ||
        y->dim[y->ndim - 1] != cfg->caption_channels || y->dim[0] != x->dim[0])
        return err_set(err, ERR_DATA, "tensors %s and %s do not have shapes [B, %d, H, W] and "
                       "[B, 1, L, %d]", x_name, y_name, cfg->latent_channels,
                       cfg->caption_channels);
    for (int i = 0; i < 4; i++)
        if (x->dim[i] < 1 || x->dim[i] > 1 << 20)
            return err_set(err, ERR_DATA, "tensor %s has an impossible shape", x_name);
    *max = (struct model_limits){(int)x->dim[0], (int)x->dim[2], (int)x->dim[3],
                                 (int)y->dim[y->ndim - 2], false, false, 0};
    return 0;
}

/* "loss" and "x0" to "loss.x0". */
static float *load(const struct verify_case_files *files, const char *prefix, const char *name,
                   size_t count, struct err *err)
{
    char full[ST_NAME];
    snprintf(full, sizeof(full), "%s.%s", prefix, name);
    return verify_floats(files, full, count, err);
}

int verify_batch_load(struct verify_batch *b, const struct verify_case_files *files, const char *prefix,
                      const struct model_limits *size, const struct model_config *cfg, struct err *err)
{
    const size_t B = (size_t)size->batch, text = B * (size_t)size->text;
    const size_t latent = B * (size_t)cfg->latent_channels * (size_t)size->height * (size_t)size->width;
    float *index = NULL, *drop = NULL;
    int r = -1;
    *b = (struct verify_batch){0};
    if (!(b->x0 = load(files, prefix, "x0", latent, err)) ||
        !(b->noise = load(files, prefix, "noise", latent, err)) ||
        !(b->y = load(files, prefix, "y", text * (size_t)cfg->caption_channels, err)) ||
        !(b->mask = load(files, prefix, "mask", text, err)) ||
        !(index = load(files, prefix, "t_index", B, err)) ||
        !(drop = load(files, prefix, "drop_ids", B, err)))
        goto out;
    b->t_index = calloc(B, sizeof(*b->t_index));
    b->drop = calloc(B, sizeof(*b->drop));
    if (!b->t_index || !b->drop) {
        err_set(err, ERR_MEMORY, "no memory for a batch of %zu", B);
        goto out;
    }
    for (size_t i = 0; i < B; i++) {
        b->t_index[i] = index[i] >= 0 && index[i] < 1e6f ? (int)index[i] : -1;
        b->drop[i] = drop[i] != 0;
    }
    r = 0;
out:
    free(index);
    free(drop);
    if (r < 0)
        verify_batch_free(b);
    return r;
}

void verify_batch_free(struct verify_batch *b)
{
    free(b->x0);
    free(b->noise);
    free(b->y);
    free(b->mask);
    free(b->t_index);
    free(b->drop);
    *b = (struct verify_batch){0};
}
