/* SPDX-License-Identifier: Apache-2.0 */
/* verify_nextdit.c - check a golden case of Next-DiT: outputs, activations, losses and gradients
 *
 * A number at the end of a tensor's name is the picture.  The JSON lists
 * the gradients that are truly zero: numbers that it gives as 0 must be 0, the others
 * may contain rounding.  The optimizer's runs are in verify_nextdit_train.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/optim/optim.h"
#include "tests/verify/verify_internal.h"
#include "tests/verify/verify_pictures.h"

/* The current case, and its pictures. */
struct nextdit_case {
    struct verify_result           *result;
    const struct verify_case_files *files;
    struct verify_pictures         *pictures;
    double                          norm; /* L2 of all gradients */
};

/* A setting of the case, and the only value that is supported. */
static int must_be(const json_t *config, const char *key, const char *only, struct err *err)
{
    const json_t *v = json_object_get(config, key);
    const char *text = json_string_value(v);
    if (!v || (only ? text && strcmp(text, only) == 0 : json_is_null(v)))
        return 0;
    return err_set(err, ERR_USAGE, "%s is %.40s; verify supports %s", key,
                   text ? text : "not a string", only ? only : "none (null)");
}

static int check_settings(const json_t *config, struct err *err)
{
    if (must_be(config, "path", "Linear", err) < 0 ||
        must_be(config, "prediction", "velocity", err) < 0)
        return -1;
    return must_be(config, "loss_weight", NULL, err);
}

/* An unknown kind of tensor is an error, or it would count as checked. */
static int check_names(const struct st_file *golden, struct err *err)
{
    static const char *const known[] = {"param.", "in.", "mid.", "out.", "loss.", "grad.",
                                        "gradsample.", "act."};
    for (int i = 0; i < st_len(golden); i++) {
        const char *name = st_at(golden, i)->name;
        size_t k = 0;
        while (k < sizeof(known) / sizeof(known[0]) &&
               strncmp(name, known[k], strlen(known[k])) != 0)
            k++;
        if (k == sizeof(known) / sizeof(known[0]))
            return err_set(err, ERR_DATA, "verify does not support the kind of tensor %s", name);
    }
    return 0;
}

/* Of "act.*": [B, width], or [B, tokens, width] with padding after the tokens of this picture. */
static int check_activation(struct nextdit_case *x, const struct st_tensor *t, int i, size_t tokens, struct err *err)
{
    char label[ST_NAME + 32];
    int64_t count = 0;
    struct model *m = verify_pictures_model(x->pictures);
    const float *ours = model_activation(m, t->name + strlen("act."), &count, err);
    if (!ours) /* keeps an earlier error: this one is for an unknown name */
        return err_set(err, ERR_DATA, "activation %s is not one of this model", t->name);
    const size_t all = t->count / (size_t)verify_pictures_len(x->pictures);
    const size_t own = t->ndim == 3 ? tokens * (size_t)t->dim[2] : all;
    if (t->dim[0] != verify_pictures_len(x->pictures) || own > all || (size_t)count != own)
        return err_set(err, ERR_DATA, "tensor %s has %zu numbers of picture %d; the model made "
                       "%lld", t->name, own, i, (long long)count);
    double *want = verify_want(x->files, t->name, t->count, err);
    if (!want)
        return -1;
    snprintf(label, sizeof(label), "%s of picture %d", t->name, i);
    const struct verify_row row = {label, VERIFY_OUTPUT, ours, want + (size_t)i * all, own, 0};
    verify_compare(x->result, x->files, &row);
    free(want);
    return 0;
}

static int check_picture(struct nextdit_case *x, int i, double *loss, struct err *err)
{
    char x_t[32], out[32];
    struct verify_picture seen;
    const struct st_file *golden = x->files->golden;
    snprintf(x_t, sizeof(x_t), "mid.xt.%d", i);
    snprintf(out, sizeof(out), "out.%d", i);
    if (verify_pictures_forward(x->pictures, i, &seen, err) < 0 ||
        verify_check(x->result, x->files, x_t, VERIFY_OUTPUT, seen.x_t, seen.count, 0, err) < 0)
        return -1;
    for (int k = 0; k < st_len(golden); k++)
        if (strncmp(st_at(golden, k)->name, "act.", 4) == 0 &&
            check_activation(x, st_at(golden, k), i, seen.tokens, err) < 0)
            return -1;
    if (verify_check(x->result, x->files, out, VERIFY_OUTPUT, seen.out, seen.count, 0, err) < 0)
        return -1;
    return verify_pictures_backward(x->pictures, loss, err);
}

/* Checks all pictures, and the inputs made from them. */
static int check_losses(struct nextdit_case *x, struct err *err)
{
    const int n = verify_pictures_len(x->pictures);
    float *per_sample = calloc((size_t)n, sizeof(*per_sample));
    double total = 0, loss = 0;
    int r = per_sample ? 0 : err_set(err, ERR_MEMORY, "no memory for a batch of %d", n);
    for (int i = 0; r == 0 && i < n; i++) {
        r = check_picture(x, i, &loss, err);
        total += loss;
        per_sample[i] = (float)loss;
    }
    const float mean = (float)(total / n);
    if (r == 0)
        r = verify_check(x->result, x->files, "loss.per_sample", VERIFY_LOSS, per_sample, (size_t)n, 0, err);
    if (r == 0)
        r = verify_check(x->result, x->files, "loss.mean", VERIFY_LOSS, &mean, 1, 0, err);
    free(per_sample);
    return r;
}

/* The JSON's entry for a tensor's gradient in double precision; NULL: none. */
static const json_t *gradient_told(const struct nextdit_case *x, const char *tensor)
{
    const json_t *all = json_object_get(x->files->config, "grads");
    return json_object_get(json_object_get(all, tensor), "norm");
}

static enum verify_kind gradient_kind(const struct nextdit_case *x, const char *tensor)
{
    size_t i;
    const json_t *norm = gradient_told(x, tensor), *name;
    const json_t *zero = json_object_get(x->files->config, "tensors_with_zero_true_gradient");
    json_array_foreach(zero, i, name)
        if (json_string_value(name) && strcmp(json_string_value(name), tensor) == 0)
            return norm && json_number_value(norm) == 0 ? VERIFY_EXACT : VERIFY_GRADIENT_ZERO;
    return VERIFY_GRADIENT;
}

/* Compares a norm with the JSON's. */
static void check_norm(struct nextdit_case *x, const char *name, double norm, const json_t *told)
{
    const float ours = (float)norm;
    const double want = json_number_value(told);
    const struct verify_row row = {name, VERIFY_NORM, &ours, &want, 1, 0};
    if (json_is_number(told))
        verify_compare(x->result, x->files, &row);
}

static double norm_of(const float *x, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/* Compares a tensor that the case stores only in part: those numbers, and the norm. */
static int check_sample(struct nextdit_case *x, const struct tensor *t, const float *grad, struct err *err)
{
    char name[TENSOR_NAME + 16];
    float sample[VERIFY_SAMPLES];
    const size_t n = verify_rule_samples(t->count);
    const enum verify_kind kind = gradient_kind(x, t->name);
    for (size_t j = 0; j < n; j++)
        sample[j] = grad[verify_rule_sample(t->count, j)];
    snprintf(name, sizeof(name), "gradsample.%s", t->name);
    if (verify_check(x->result, x->files, name, kind, sample, n, x->norm, err) < 0)
        return -1;
    snprintf(name, sizeof(name), "norm of grad.%s", t->name);
    if (kind == VERIFY_GRADIENT)
        check_norm(x, name, norm_of(grad, t->count), gradient_told(x, t->name));
    return 0;
}

static int check_gradients(struct nextdit_case *x, struct err *err)
{
    struct model *m = verify_pictures_model(x->pictures);
    const struct layout *l = model_layout(m);
    const bool sampled = json_object_get(x->files->config, "procedural") != NULL;
    x->norm = optim_grad_norm(model_ops(m), l, model_kernel_grads(m));
    if (model_pull_grads(m, err) < 0)
        return -1;
    for (int i = 0; i < layout_len(l); i++) {
        char name[TENSOR_NAME + 8];
        const struct tensor *t = layout_at(l, i);
        const float *grad = model_grads(m) + t->offset;
        snprintf(name, sizeof(name), "grad.%s", t->name);
        if (sampled ? check_sample(x, t, grad, err) < 0
                    : verify_check(x->result, x->files, name, gradient_kind(x, t->name), grad,
                                   t->count, x->norm, err) < 0)
            return -1;
    }
    check_norm(x, "total_grad_norm_fp64", x->norm, json_object_get(x->files->config, "total_grad_norm_fp64"));
    return 0;
}

int verify_nextdit(struct verify_result *result, const struct verify_case_files *files,
                   const struct model_config *cfg, struct err *err)
{
    struct nextdit_case x = {.result = result, .files = files};
    int r = -1;
    if (check_settings(files->config, err) < 0 || check_names(files->golden, err) < 0 ||
        verify_pictures_create(&x.pictures, cfg, files, err) < 0 ||
        verify_begin_weights(verify_pictures_model(x.pictures), files, err) < 0 ||
        verify_pictures_begin(x.pictures, files, "in.", err) < 0 || check_losses(&x, err) < 0)
        goto out;
    r = check_gradients(&x, err);
out:
    verify_pictures_destroy(x.pictures);
    return r < 0 ? -1 : verify_nextdit_train(result, files, cfg, err);
}
