/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - check one golden case; see verify.h
 *
 * Uses the code of training: model_forward() for "in.*", step_micro() for "loss.*" and
 * "grad.*".  The optimizer's steps are in verify_optim.c.
 */
#include "tests/verify/verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/bench/author_config.h"
#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/model/flow.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/optim/optim.h"
#include "engine/optim/step.h"
#include "tests/verify/verify_internal.h"

static int check_activations(struct verify_result *result, const struct verify_case_files *f,
                             struct model *m, struct err *err)
{
    for (int i = 0; i < st_len(f->golden); i++) {
        const char *name = st_at(f->golden, i)->name;
        int64_t count = 0;
        if (strncmp(name, "act.", 4) != 0)
            continue;
        const float *ours = model_activation(m, name + 4, &count, err);
        if (!ours) /* keeps an earlier error: this one is for an unknown name */
            return err_set(err, ERR_DATA, "activation %s is not one of this model", name);
        if (verify_check(result, f, name, VERIFY_OUTPUT, ours, (size_t)count, 0, err) < 0)
            return -1;
    }
    return 0;
}

static int verify_forward(struct verify_result *result, const struct verify_case_files *f,
                          const struct model_config *cfg, struct err *err)
{
    struct model_limits z;
    struct model *m = NULL;
    float *x = NULL, *t = NULL, *y = NULL, *mask = NULL, *out = NULL;
    int r = -1;
    if (verify_limits(&z, f, "in.x_t", "in.y", cfg, err) < 0)
        return -1;
    const size_t B = (size_t)z.batch, text = B * (size_t)z.text;
    const size_t latent = B * (size_t)cfg->latent_channels * (size_t)z.height * (size_t)z.width;
    if (!(x = verify_floats(f, "in.x_t", latent, err)) ||
        !(t = verify_floats(f, "in.timestep", B, err)) ||
        !(y = verify_floats(f, "in.y", text * (size_t)cfg->caption_channels, err)) ||
        !(mask = verify_floats(f, "in.mask", text, err)) ||
        model_create(&m, cfg, &z, true, err) < 0 ||
        verify_load_weights(model_weights(m), model_layout(m), f, "", err) < 0 ||
        model_push(m, err) < 0)
        goto out;
    if (!(out = calloc(latent, sizeof(*out)))) {
        err_set(err, ERR_MEMORY, "no memory for an output of %zu numbers", latent);
        goto out;
    }
    const struct model_input in = {.batch = z.batch, .height = z.height, .width = z.width,
                                   .text = z.text, .x = x, .timestep = t, .y = y, .mask = mask};
    if (model_forward_host(m, &in, out, err) < 0 ||
        verify_check(result, f, "out.model", VERIFY_OUTPUT, out, latent, 0, err) < 0)
        goto out;
    r = check_activations(result, f, m, err);
out:
    model_destroy(m);
    free(x);
    free(t);
    free(y);
    free(mask);
    free(out);
    return r;
}

/* Gradients of the cross-attention's queries and keys nearly cancel: see verify_compare.c. */
static enum verify_kind gradient_kind(const char *name)
{
    static const char *const parts[] = {"cross_attn.q_linear", "cross_attn.q_norm",
                                        "cross_attn.k_norm"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(name, parts[i]))
            return VERIFY_GRADIENT_QK;
    return VERIFY_GRADIENT;
}

static int check_gradients(struct verify_result *result, const struct verify_case_files *f,
                           struct model *m, struct err *err)
{
    const struct layout *l = model_layout(m);
    const float norm = (float)optim_grad_norm(model_ops(m), l, model_kernel_grads(m));
    if (model_pull_grads(m, err) < 0)
        return -1;
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        char name[TENSOR_NAME + 8];
        snprintf(name, sizeof(name), "grad.%s", t->name);
        if (t->kind == TENSOR_PARAM &&
            verify_check(result, f, name, gradient_kind(name), model_grads(m) + t->offset,
                         t->count, (double)norm, err) < 0)
            return -1;
    }
    return verify_check(result, f, "loss.grad_norm", VERIFY_NORM, &norm, 1, 0, err);
}

/* Checks the flow tables at the case's timesteps, and the noised input. */
static int check_flow(struct verify_result *result, const struct verify_case_files *f,
                      const struct verify_batch *batch, size_t samples, size_t n, struct err *err)
{
    struct flow flow;
    float *buffer = calloc(2 * samples * n + 2 * samples, sizeof(*buffer));
    if (!buffer)
        return err_set(err, ERR_MEMORY, "no memory for %zu latents", samples);
    float *x_t = buffer, *target = x_t + samples * n;
    float *sigma = target + samples * n, *t_model = sigma + samples;
    flow_init(&flow, author_config_flow_shift(f->config));
    for (size_t b = 0; b < samples; b++) {
        const int i = batch->t_index[b];
        sigma[b] = flow.sigma[i];
        t_model[b] = flow.t_model[i];
        flow_noise(x_t + b * n, target, batch->x0 + b * n, batch->noise + b * n, (int64_t)n,
                   flow.alpha[i], flow.sigma[i]);
    }
    int r = verify_check(result, f, "loss.sigma", VERIFY_EXACT, sigma, samples, 0, err);
    if (r == 0)
        r = verify_check(result, f, "loss.t_model", VERIFY_EXACT, t_model, samples, 0, err);
    if (r == 0)
        r = verify_check(result, f, "loss.x_t", VERIFY_OUTPUT, x_t, samples * n, 0, err);
    free(buffer);
    return r;
}

static int verify_loss(struct verify_result *result, const struct verify_case_files *f,
                       const struct model_config *cfg, struct err *err)
{
    struct model_limits z;
    struct step *s = NULL;
    struct verify_batch batch = {0};
    struct optim_config opt;
    float *per_sample = NULL;
    double loss;
    int r = -1;
    if (verify_limits(&z, f, "loss.x0", "loss.y", cfg, err) < 0 ||
        author_config_optimizer(&opt, f->config, err) < 0 ||
        step_create(&s, cfg, &z, &opt, author_config_flow_shift(f->config), NULL, err) < 0 ||
        verify_load_weights(model_weights(step_model(s)), model_layout(step_model(s)), f, "", err) < 0 ||
        model_push(step_model(s), err) < 0 ||
        verify_batch_load(&batch, f, "loss", &z, cfg, err) < 0)
        goto out;
    const size_t B = (size_t)z.batch;
    const size_t n = (size_t)cfg->latent_channels * (size_t)z.height * (size_t)z.width;
    if (!(per_sample = calloc(B, sizeof(*per_sample)))) {
        err_set(err, ERR_MEMORY, "no memory for a batch of %zu", B);
        goto out;
    }
    const struct step_input in = {
        .batch = z.batch, .height = z.height, .width = z.width, .text = z.text, .x0 = batch.x0,
        .noise = batch.noise, .t_index = batch.t_index, .y = batch.y, .mask = batch.mask, .drop = batch.drop,
    };
    step_begin(s);
    if (step_micro(s, &in, 1.0, &loss, per_sample, err) < 0)
        goto out;
    const float mean = (float)loss;
    if (check_flow(result, f, &batch, B, n, err) < 0 ||
        verify_check(result, f, "loss.output", VERIFY_OUTPUT, step_output(s), B * n, 0, err) < 0 ||
        verify_check(result, f, "loss.per_sample", VERIFY_LOSS, per_sample, B, 0, err) < 0 ||
        verify_check(result, f, "loss.mean", VERIFY_LOSS, &mean, 1, 0, err) < 0)
        goto out;
    r = check_gradients(result, f, step_model(s), err);
out:
    step_destroy(s);
    verify_batch_free(&batch);
    free(per_sample);
    return r;
}

static int open_files(struct verify_case_files *f, struct err *err)
{
    json_error_t why;
    const char *json_path = f->path;
    const size_t length = strlen(json_path);
    if (length < 6 || strcmp(json_path + length - 5, ".json") != 0)
        return err_set(err, ERR_USAGE, "name a case by its .json file");
    if (access(json_path, R_OK) != 0)
        return err_set(err, ERR_NOT_FOUND, "%s", strerror(errno));
    f->config = json_load_file(json_path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!f->config)
        return err_set(err, ERR_DATA, "not JSON: %s (line %d)", why.text, why.line);
    return 0;
}

/* What a case of a model has beside its JSON. */
static int open_tensors(struct verify_case_files *f, struct err *err)
{
    const char *json_path = f->path;
    if (verify_open_beside(&f->golden, json_path, "safetensors", true, err) < 0 ||
        verify_open_beside(&f->ref64, json_path, "ref64.safetensors", false, err) < 0)
        return -1;
    return verify_open_beside(&f->optstate, json_path, "optstate.safetensors", false, err);
}

/* A case of SanaMS. */
static int verify_sana(struct verify_result *result, const struct verify_case_files *f,
                       const struct model_config *cfg, struct err *err)
{
    if (st_find(f->golden, "in.x_t") && verify_forward(result, f, cfg, err) < 0)
        return -1;
    if (st_find(f->golden, "loss.x0") && verify_loss(result, f, cfg, err) < 0)
        return -1;
    if (st_find(f->golden, "step0.x0") && verify_optim(result, f, cfg, err) < 0)
        return -1;
    if (result->tensors == 0)
        return err_set(err, ERR_DATA, "there is nothing to check: no in.x_t, loss.x0 or step0.x0");
    return 0;
}

static int verify_model(struct verify_result *result, struct verify_case_files *f, struct err *err)
{
    struct model_config cfg;
    if (!json_object_get(f->config, "model"))
        return err_set(err, ERR_DATA, "this JSON is not a case: it has neither a \"kind\" nor a \"model\"");
    if (open_tensors(f, err) < 0 || model_config_parse(&cfg, f->config, err) < 0)
        return -1;
    return st_find(f->golden, "in.x1.0") ? verify_nextdit(result, f, &cfg, err) : verify_sana(result, f, &cfg, err);
}

static bool lists_refusals(const json_t *config)
{
    return json_object_get(json_array_get(json_object_get(config, "files"), 0), "must") != NULL;
}

/* A case without a kind is one of a model, or a list of files that must be refused. */
static int verify_by_kind(struct verify_result *result, struct verify_case_files *f, struct err *err)
{
    const char *kind = json_string_value(json_object_get(f->config, "kind"));
    if (kind && strcmp(kind, "tokenizer") == 0)
        return verify_tokenizer(result, f, err);
    if (kind && strcmp(kind, "resize") == 0)
        return open_tensors(f, err) < 0 ? -1 : verify_resize(result, f, err);
    if (kind && strcmp(kind, "data") == 0)
        return verify_data(result, f, err);
    if (kind && (strcmp(kind, "gemma1") == 0 || strcmp(kind, "gemma2") == 0))
        return open_tensors(f, err) < 0 ? -1 : verify_gemma(result, f, kind[5] - '0', err);
    if (kind && (strcmp(kind, "dcae") == 0 || strcmp(kind, "sdxl-vae") == 0))
        return open_tensors(f, err) < 0 ? -1 : verify_vae(result, f, kind[0] == 'd', err);
    if (kind && strcmp(kind, "names-table") == 0 && verify_is_vae_table(f))
        return verify_vae_names(result, f, err);
    if (kind ? strcmp(kind, "pth") == 0 : lists_refusals(f->config))
        return verify_pth(result, f, err);
    if (kind && (strcmp(kind, "names") == 0 || strcmp(kind, "names-table") == 0))
        return verify_names(result, f, err);
    if (kind && strcmp(kind, "lora") == 0)
        return open_tensors(f, err) < 0 ? -1 : verify_lora(result, f, err);
    if (kind)
        return err_set(err, ERR_DATA, "verify does not know the kind \"%s\" of this case", kind);
    return verify_model(result, f, err);
}

int verify_case(struct verify_result *result, const char *json_path, FILE *each, struct err *err)
{
    struct verify_case_files f = {.path = json_path, .each = each};
    *result = (struct verify_result){.measure = ""};
    const int r = open_files(&f, err) < 0 ? -1 : verify_by_kind(result, &f, err);
    json_decref(f.config);
    st_close(f.golden);
    st_close(f.ref64);
    st_close(f.optstate);
    return r;
}
