/* SPDX-License-Identifier: Apache-2.0 */
/* verify_pictures.c - see verify_pictures.h */
#include "tests/verify/verify_pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "tests/verify/verify_internal.h"
#include "kernels/kernels.h"

enum { SIDE_MAX = 1 << 12, PICTURES_MAX = 1 << 10 };

/* Kernel arrays of the current picture. */
enum array { DATA, NOISE, MIXED, OUT, DOUT, CAPTION, MASK, TIME, ALPHA, SIGMA, ARRAYS };

struct verify_pictures {
    struct model                   *model;
    const struct kern_ops          *ops;
    struct model_limits             max;
    int                             channels, features; /* of a latent, of a caption's token */
    int                             patch;
    float                          *array[ARRAYS];
    int                            *first;              /* [2], a kernel array */
    double                         *loss;               /* [1], likewise */
    float                          *seen;               /* x_t and out, in host memory */
    /* the batch */
    const struct verify_case_files *files;
    const char                     *prefix;
    int                             batch;
    float                          *time;               /* [batch] */
    struct model_input              input;              /* of the current picture */
};

/* "step3.in.x1.0" is a latent of [C, H, W]. */
static bool is_latent(const char *name)
{
    const char *in = strstr(name, "in.x1.");
    return in && (in == name || in[-1] == '.');
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), e = strlen(end);
    return n >= e && strcmp(name + n - e, end) == 0;
}

static int check_latent(const struct st_tensor *t, int channels, struct err *err)
{
    if (t->ndim == 3 && t->dim[0] == channels && t->dim[1] >= 1 && t->dim[1] <= SIDE_MAX &&
        t->dim[2] >= 1 && t->dim[2] <= SIDE_MAX)
        return 0;
    return err_set(err, ERR_DATA, "tensor %s does not have shape [%d, H, W]", t->name, channels);
}

static int check_captions(const struct st_tensor *t, int features, struct err *err)
{
    if (t->ndim == 3 && t->dim[0] >= 1 && t->dim[0] <= PICTURES_MAX && t->dim[1] >= 1 &&
        t->dim[1] <= SIDE_MAX && t->dim[2] == features)
        return 0;
    return err_set(err, ERR_DATA, "tensor %s does not have shape [B, L, %d]", t->name, features);
}

static void grow(int *most, int64_t size)
{
    if (size > *most)
        *most = (int)size;
}

/* The largest sizes in any batch of the file. */
static int find_limits(struct model_limits *max, const struct model_config *cfg,
                       const struct st_file *golden, struct err *err)
{
    *max = (struct model_limits){.batch = 1};
    for (int i = 0; i < st_len(golden); i++) {
        const struct st_tensor *t = st_at(golden, i);
        if (is_latent(t->name)) {
            if (check_latent(t, cfg->latent_channels, err) < 0)
                return -1;
            grow(&max->height, t->dim[1]);
            grow(&max->width, t->dim[2]);
        } else if (ends_with(t->name, "in.cap_feats")) {
            if (check_captions(t, cfg->caption_channels, err) < 0)
                return -1;
            grow(&max->text, t->dim[1]);
        }
    }
    if (!max->height || !max->text)
        return err_set(err, ERR_DATA, "there is nothing to check: no tensors in.x1.0 and "
                       "in.cap_feats");
    return 0;
}

static int make_arrays(struct verify_pictures *p, struct err *err)
{
    const size_t latent = (size_t)p->channels * (size_t)p->max.height * (size_t)p->max.width;
    const size_t text = (size_t)p->max.text, one = 1;
    const size_t counts[ARRAYS] = {
        [DATA] = latent, [NOISE] = latent, [MIXED] = latent, [OUT] = latent, [DOUT] = latent,
        [CAPTION] = text * (size_t)p->features, [MASK] = text, [TIME] = one, [ALPHA] = one,
        [SIGMA] = one,
    };
    for (int i = 0; i < ARRAYS; i++)
        if (!(p->array[i] = backend_alloc(p->ops, counts[i] * sizeof(float), USE_INPUTS, err)))
            return -1;
    if (!(p->first = backend_alloc(p->ops, 2 * sizeof(*p->first), USE_INPUTS, err)) ||
        !(p->loss = backend_alloc(p->ops, sizeof(*p->loss), USE_INPUTS, err)))
        return -1;
    p->seen = calloc(2 * latent, sizeof(*p->seen));
    return p->seen ? 0 : err_set(err, ERR_MEMORY, "no memory for a latent of %zu numbers", latent);
}

int verify_pictures_create(struct verify_pictures **out, const struct model_config *cfg,
                           const struct verify_case_files *files, struct err *err)
{
    struct model_limits max;
    struct model_config own = *cfg;
    if (find_limits(&max, cfg, files->golden, err) < 0)
        return -1;
    struct verify_pictures *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_MEMORY, "no memory for a case");
    own.caption_len = max.text;
    p->ops = backend_ops();
    p->max = max;
    p->channels = cfg->latent_channels;
    p->features = cfg->caption_channels;
    p->patch = cfg->patch;
    if (model_create(&p->model, &own, &max, true, err) < 0 || make_arrays(p, err) < 0) {
        verify_pictures_destroy(p);
        return -1;
    }
    *out = p;
    return 0;
}

void verify_pictures_destroy(struct verify_pictures *p)
{
    if (!p)
        return;
    for (int i = 0; i < ARRAYS; i++)
        p->ops->release(p->array[i]);
    p->ops->release(p->first);
    p->ops->release(p->loss);
    model_destroy(p->model);
    free(p->seen);
    free(p->time);
    free(p);
}

struct model *verify_pictures_model(struct verify_pictures *p)
{
    return p->model;
}

int verify_pictures_len(const struct verify_pictures *p)
{
    return p->batch;
}

/* "in." and "x1.0" to the tensor "in.x1.0". */
static const struct st_tensor *find(const struct verify_pictures *p, const char *name, struct err *err)
{
    char full[ST_NAME];
    snprintf(full, sizeof(full), "%s%s", p->prefix, name);
    const struct st_tensor *t = st_find(p->files->golden, full);
    if (!t)
        err_set(err, ERR_DATA, "tensor %s is missing", full);
    return t;
}

int verify_pictures_begin(struct verify_pictures *p, const struct verify_case_files *files,
                          const char *prefix, struct err *err)
{
    char more[ST_NAME];
    p->files = files;
    p->prefix = prefix;
    const struct st_tensor *y = find(p, "cap_feats", err), *t = find(p, "t", err);
    if (!y || !t || check_captions(y, p->features, err) < 0)
        return -1;
    free(p->time);
    p->batch = (int)y->dim[0];
    p->time = NULL;
    snprintf(more, sizeof(more), "%sx1.%d", prefix, p->batch);
    if (st_find(files->golden, more))
        return err_set(err, ERR_DATA, "tensor %s belongs to a picture for which %s has no caption", more, y->name);
    p->time = verify_floats(files, t->name, (size_t)p->batch, err);
    p->ops->zero(model_kernel_grads(p->model), layout_floats(model_layout(p->model)));
    return p->time ? 0 : -1;
}

/* Copies a tensor to a kernel array. */
static int upload(struct verify_pictures *p, enum array to, const char *name, size_t count, struct err *err)
{
    float *numbers = verify_floats(p->files, name, count, err);
    if (!numbers)
        return -1;
    p->ops->upload(p->array[to], numbers, count * sizeof(*numbers));
    free(numbers);
    return 0;
}

static int take_latents(struct verify_pictures *p, int i, struct err *err)
{
    char x1[32], x0[32];
    snprintf(x1, sizeof(x1), "x1.%d", i);
    snprintf(x0, sizeof(x0), "x0.%d", i);
    const struct st_tensor *data = find(p, x1, err), *noise = find(p, x0, err);
    if (!data || !noise || check_latent(data, p->channels, err) < 0)
        return -1;
    p->input.height = (int)data->dim[1];
    p->input.width = (int)data->dim[2];
    return upload(p, DATA, data->name, data->count, err) < 0
               ? -1
               : upload(p, NOISE, noise->name, data->count, err);
}

/* The number of unmasked tokens of a caption, which must come first. */
static int caption_length(const float *mask, int length, const char *name, struct err *err)
{
    int n = 0;
    while (n < length && mask[n] == 1)
        n++;
    for (int i = n; i < length; i++)
        if (mask[i] != 0)
            return err_set(err, ERR_DATA, "tensor %s masks tokens in the middle of a caption", name);
    return n > 0 ? n : err_set(err, ERR_DATA, "tensor %s masks all tokens of a caption", name);
}

/* Copies its valid rows only. */
static int take_caption(struct verify_pictures *p, int i, struct err *err)
{
    const struct st_tensor *y = find(p, "cap_feats", err), *m = find(p, "cap_mask", err);
    if (!y || !m)
        return -1;
    const size_t length = (size_t)y->dim[1], features = (size_t)p->features;
    float *mask = verify_floats(p->files, m->name, (size_t)p->batch * length, err);
    float *rows = mask ? verify_floats(p->files, y->name, y->count, err) : NULL;
    const float *own = mask + (size_t)i * length;
    const int n = rows ? caption_length(own, (int)length, m->name, err) : -1;
    if (n > 0) {
        const int first[2] = {0, n};
        p->ops->upload(p->array[CAPTION], rows + (size_t)i * length * features, (size_t)n * features * sizeof(*rows));
        p->ops->upload(p->array[MASK], own, (size_t)n * sizeof(*mask));
        p->ops->upload(p->first, first, sizeof(first));
        p->input.text = p->input.rows = n;
    }
    free(mask);
    free(rows);
    return n > 0 ? 0 : -1;
}

static size_t latent_count(const struct verify_pictures *p)
{
    return (size_t)p->channels * (size_t)p->input.height * (size_t)p->input.width;
}

int verify_pictures_forward(struct verify_pictures *p, int i, struct verify_picture *seen, struct err *err)
{
    const float t = p->time[i], rest = 1 - t;
    p->input = (struct model_input){
        .batch = 1, .x = p->array[MIXED], .timestep = p->array[TIME], .y = p->array[CAPTION],
        .mask = p->array[MASK], .first = p->first,
    };
    if (take_latents(p, i, err) < 0 || take_caption(p, i, err) < 0)
        return -1;
    const size_t n = latent_count(p), bytes = n * sizeof(float);
    p->ops->upload(p->array[TIME], &t, sizeof(t));
    p->ops->upload(p->array[ALPHA], &t, sizeof(t));
    p->ops->upload(p->array[SIGMA], &rest, sizeof(rest));
    p->ops->flow_noise(p->array[MIXED], p->array[DATA], p->array[NOISE], p->array[ALPHA], p->array[SIGMA], 1, n);
    if (model_forward(p->model, &p->input, p->array[OUT], err) < 0)
        return -1;
    p->ops->download(p->seen, p->array[MIXED], bytes);
    p->ops->download(p->seen + n, p->array[OUT], bytes);
    *seen = (struct verify_picture){
        .x_t = p->seen, .out = p->seen + n, .count = n,
        .tokens = (size_t)(p->input.height / p->patch) * (size_t)(p->input.width / p->patch),
    };
    return backend_check(p->ops, err);
}

int verify_pictures_backward(struct verify_pictures *p, double *loss, struct err *err)
{
    /* This velocity is from noise to data: swap the two. */
    p->ops->flow_loss(p->loss, p->array[DOUT], p->array[OUT], p->array[NOISE], p->array[DATA],
                      1.0 / p->batch, 1, latent_count(p));
    if (model_backward(p->model, &p->input, p->array[DOUT], NULL, err) < 0)
        return -1;
    p->ops->download(loss, p->loss, sizeof(*loss));
    return backend_check(p->ops, err);
}
