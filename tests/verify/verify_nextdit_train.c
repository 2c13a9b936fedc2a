/* SPDX-License-Identifier: Apache-2.0 */
/* verify_nextdit_train.c - check the runs of a Next-DiT case: steps of AdamW, weights and averages
 *
 * The JSON's "train" names them and their settings; CASE.RUN.safetensors has the batches of
 * all steps and their results.  If the true gradient of a tensor is zero, AdamW turns rounding into
 * full-size steps, in another direction on each machine: the JSON lists
 * those tensors, and they are not compared.  A single element of another tensor can have such a
 * gradient too: AdamW then turns rounding into a part of a step.  So a tensor is judged by the L2
 * norm of its difference over that of its update, and each element only by a loose bound; a tensor
 * whose gradients were all about eps, by that bound alone.
 *
 * The authors update the moving average after an update, this engine before the next one: their
 * average after five updates is ours once a sixth has begun.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/optim/params.h"
#include "tests/verify/verify_internal.h"
#include "tests/verify/verify_pictures.h"

enum { STEPS_MAX = 1000 };

struct run {
    struct verify_result    *result;
    struct verify_case_files files; /* golden: files of the run */
    const json_t            *told;  /* train.RUN of the JSON */
    struct optim_config      opt;
    double                   lr;
    int                      steps;
    struct verify_pictures  *pictures;
    struct model            *model; /* of the pictures */
    struct params           *params;
    float                   *losses, *norms;
    float                   *start; /* the weights before the first step */
};

static int read_number(const json_t *hyper, const char *key, double *to, struct err *err)
{
    const json_t *v = json_object_get(hyper, key);
    if (!json_is_number(v))
        return err_set(err, ERR_USAGE, "hyper.%s is missing, or not a number", key);
    *to = json_number_value(v);
    return 0;
}

static bool is_known(const char *key)
{
    static const char *const known[] = {"lr", "betas", "eps", "wd", "grad_clip", "ema_decay",
                                        "steps"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(key, known[i]) == 0)
            return true;
    return false;
}

static int read_hyper(struct run *r, struct err *err)
{
    json_t *hyper = json_object_get(r->told, "hyper"), *v;
    const json_t *betas = json_object_get(hyper, "betas");
    const char *key;
    double steps = 0;
    r->opt = (struct optim_config){.type = OPTIM_ADAMW, .clip_threshold = 1};
    for (size_t i = 0; i < 2; i++)
        r->opt.beta[i] = json_number_value(json_array_get(betas, i));
    json_object_foreach(hyper, key, v)
        if (!is_known(key))
            return err_set(err, ERR_USAGE, "hyper.%.60s is not a setting that verify knows", key);
    if (read_number(hyper, "lr", &r->lr, err) < 0 ||
        read_number(hyper, "eps", &r->opt.eps[0], err) < 0 ||
        read_number(hyper, "wd", &r->opt.weight_decay, err) < 0 ||
        read_number(hyper, "grad_clip", &r->opt.clip, err) < 0 ||
        read_number(hyper, "ema_decay", &r->opt.ema, err) < 0 ||
        read_number(hyper, "steps", &steps, err) < 0)
        return -1;
    if (json_array_size(betas) != 2 || !(steps >= 1 && steps <= STEPS_MAX) || !(r->lr > 0))
        return err_set(err, ERR_USAGE, "hyper must have two betas, an lr above 0, and from 1 to %d "
                       "steps", STEPS_MAX);
    r->steps = (int)steps;
    return 0;
}

static int keep_start(struct run *r, struct err *err)
{
    const size_t bytes = layout_floats(model_layout(r->model)) * sizeof(*r->start);
    r->start = malloc(bytes);
    if (!r->start)
        return err_set(err, ERR_MEMORY, "no memory for the weights before the first step");
    memcpy(r->start, model_weights(r->model), bytes);
    return 0;
}

/* `begun`: the files of the case, with the initial weights of the run. */
static int begin(struct run *r, const struct verify_case_files *begun, const struct model_config *cfg, struct err *err)
{
    char suffix[64];
    snprintf(suffix, sizeof(suffix), "%s.safetensors", r->files.run);
    r->files.golden = NULL;
    if (read_hyper(r, err) < 0 ||
        verify_open_beside(&r->files.golden, r->files.path, suffix, true, err) < 0)
        return -1;
    r->losses = calloc((size_t)r->steps, sizeof(*r->losses));
    r->norms = calloc((size_t)r->steps, sizeof(*r->norms));
    if (!r->losses || !r->norms)
        return err_set(err, ERR_MEMORY, "no memory for %d steps", r->steps);
    if (verify_pictures_create(&r->pictures, cfg, &r->files, err) < 0)
        return -1;
    r->model = verify_pictures_model(r->pictures);
    if (verify_begin_weights(r->model, begun, err) < 0 ||
        keep_start(r, err) < 0 ||
        params_create(&r->params, r->model, &r->opt, NULL, err) < 0)
        return -1;
    optim_ema_reset(params_optim(r->params), model_weights(r->model));
    return 0;
}

static int run_step(struct run *r, int k, struct err *err)
{
    char prefix[32];
    struct verify_picture seen;
    double total = 0, loss = 0;
    snprintf(prefix, sizeof(prefix), "step%d.in.", k);
    if (verify_pictures_begin(r->pictures, &r->files, prefix, err) < 0)
        return -1;
    const int pictures = verify_pictures_len(r->pictures);
    for (int i = 0; i < pictures; i++) {
        if (verify_pictures_forward(r->pictures, i, &seen, err) < 0 ||
            verify_pictures_backward(r->pictures, &loss, err) < 0)
            return -1;
        total += loss;
    }
    const double norm = optim_grad_norm(model_ops(r->model), model_layout(r->model), model_kernel_grads(r->model));
    r->losses[k] = (float)(total / pictures);
    r->norms[k] = (float)norm;
    return params_update(r->params, r->lr, norm, err);
}

static bool is_noise(const struct run *r, const char *tensor)
{
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(r->told, "rounding_noise_driven_tensors"), i, name)
        if (json_string_value(name) && strcmp(json_string_value(name), tensor) == 0)
            return true;
    return false;
}

/* Softmax ignores what all keys share, and rotation takes little of it from channels that turn slowly: half of this
 * tensor's gradient is below 1 % of its largest number (in the golden cases), which is the rounding of bf16.  AdamW
 * takes a full step by the sign of each.  Where a share f of the signs is rounding, half of these differ, by two
 * steps: L2 over the update is sqrt(f / 2 * 4), 1 for f = 1/2 (0.84 in the cases; 2 for a gradient of the wrong sign).
 * So the bound is 1, five times that of others; the gradient itself is compared as any other. */
#define NOISE_OF_BF16 5.0

static double noise_of_bf16(const char *tensor)
{
    const char *part = strstr(tensor, ".attention.k_norm.bias");
    return backend_is_bf16() && part && strcmp(part, ".attention.k_norm.bias") == 0 ? NOISE_OF_BF16 : 1;
}

/* An update this much shorter than AdamW's full steps comes from gradients as small as eps. */
#define SHORT_STEP 0.1

/* Compares one tensor after the steps: its update as a whole, and each element loosely. `share`:
 * the part of the weights' full steps that reaches this tensor. */
static int check_tensor(struct run *r, const char *name, const struct tensor *t, const float *ours,
                        double share, struct err *err)
{
    double *want = verify_want(&r->files, name, t->count, err);
    if (!want)
        return -1;
    char full[ST_NAME + 32];
    snprintf(full, sizeof(full), "%s.%s", r->files.run, name);
    const double change = verify_change(want, r->start + t->offset, t->count);
    const double step = r->lr * share, scale = verify_update_scale(want, t->count, change, step);
    const double noise = noise_of_bf16(t->name);
    const struct verify_row update = {full, VERIFY_ADAMW, ours + t->offset, want, t->count, scale * noise};
    const struct verify_row each = {full, VERIFY_RATES, ours + t->offset, want, t->count, r->lr};
    if (change > SHORT_STEP * step * sqrt((double)t->count))
        verify_compare(r->result, &r->files, &update);
    verify_compare(r->result, &r->files, &each);
    free(want);
    return 0;
}

/* Checks "final.param" or "final.ema" of every tensor; `ours` is a block of the layout. */
static int check_block(struct run *r, const char *prefix, const float *ours, double share, struct err *err)
{
    const struct layout *l = model_layout(r->model);
    for (int i = 0; i < layout_len(l); i++) {
        char name[ST_NAME];
        const struct tensor *t = layout_at(l, i);
        snprintf(name, sizeof(name), "%s.%s", prefix, t->name);
        if (!is_noise(r, t->name) && check_tensor(r, name, t, ours, share, err) < 0)
            return -1;
    }
    return 0;
}

/* A run may have stored its averages only. */
static bool has_weights(const struct run *r)
{
    for (int i = 0; i < st_len(r->files.golden); i++)
        if (strncmp(st_at(r->files.golden, i)->name, "final.param.", 12) == 0)
            return true;
    return false;
}

/* In bf16, steps after the first begin with weights that may be apart by the bound of an update (VERIFY_ADAMW, 0.2).
 * To first order that share of the way which norms have gone since the first step is what may be added to the bound of
 * a norm (VERIFY_NORM, 0.01): 20 times the way beside the norm. */
#define WAY_OF_BF16 20.0

static int check_norms(struct run *r, struct err *err)
{
    const size_t steps = (size_t)r->steps;
    double way = 0, *want = verify_want(&r->files, "train.grad_norm", steps, err);
    char full[ST_NAME + 32];
    if (!want)
        return -1;
    for (size_t k = 1; k < steps && backend_is_bf16(); k++) {
        way += fabs(want[k] - want[k - 1]);
        r->norms[k] = (float)(want[k] + ((double)r->norms[k] - want[k]) / (1 + WAY_OF_BF16 * way / want[k]));
    }
    snprintf(full, sizeof(full), "%s.train.grad_norm", r->files.run);
    const struct verify_row row = {full, VERIFY_NORM, r->norms, want, steps, 0};
    verify_compare(r->result, &r->files, &row);
    free(want);
    return 0;
}

static int check_final(struct run *r, struct err *err)
{
    const size_t steps = (size_t)r->steps;
    if (model_pull(r->model, err) < 0 ||
        verify_check(r->result, &r->files, "train.loss", VERIFY_LOSS, r->losses, steps, 0, err) < 0 ||
        check_norms(r, err) < 0)
        return -1;
    if (has_weights(r) && check_block(r, "final.param", model_weights(r->model), 1, err) < 0)
        return -1;
    if (params_update(r->params, 0, 0, err) < 0 || /* updates the average first: see above */
        params_pull(r->params, err) < 0)
        return -1;
    return check_block(r, "final.ema", optim_ema(params_optim(r->params)), 1 - pow(r->opt.ema, r->steps), err);
}

static int verify_run(struct run *r, const struct verify_case_files *begun,
                      const struct model_config *cfg, struct err *err)
{
    int rc = begin(r, begun, cfg, err);
    for (int k = 0; rc == 0 && k < r->steps; k++)
        rc = run_step(r, k, err);
    if (rc == 0)
        rc = check_final(r, err);
    params_destroy(r->params);
    verify_pictures_destroy(r->pictures);
    st_close(r->files.golden);
    free(r->losses);
    free(r->norms);
    free(r->start);
    return rc < 0 ? err_prefix(err, "run %s: ", r->files.run) : 0;
}

int verify_nextdit_train(struct verify_result *result, const struct verify_case_files *files,
                         const struct model_config *cfg, struct err *err)
{
    const char *name;
    json_t *told;
    json_object_foreach(json_object_get(files->config, "train"), name, told) {
        struct run r = {.result = result, .files = *files, .told = told};
        r.files.run = name;
        if (verify_run(&r, files, cfg, err) < 0)
            return -1;
    }
    return 0;
}
