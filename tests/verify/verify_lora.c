/* SPDX-License-Identifier: Apache-2.0 */
/* verify_lora.c - kind "lora": low-rank adapters of a frozen Sana
 *
 * CASE.safetensors has the base under the authors' names, inputs and outputs; CASE.pytorch_lora_weights.safetensors
 * the adapter as diffusers saves it.  Checked are the output without and with the adapter and with a scale of 1, merged
 * weights, all gradients, the steps of AdamW, and that what is written is read again.
 */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/contract/lora_config.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/model/lora.h"
#include "engine/model/model.h"
#include "engine/optim/params.h"
#include "tests/verify/verify_internal.h"
#include "engine/weights/adapter.h"
#include "engine/weights/pretrained.h"
#include "kernels/kernels.h"

#define GRADS "grad."
#define FINAL "final."
#define MERGED "merged."
#define PREFIX "transformer."

struct lora_case {
    struct verify_result           *result;
    const struct verify_case_files *files;
    struct model_config             cfg;    /* with the adapter's */
    struct model_limits             limits;
    struct adapter                 *adapter;
    struct pretrained              *base;
    float                          *x, *t, *y, *mask, *x0, *noise, *out, *dout;
    size_t                          numbers; /* of x and out */
};

/* --- inputs -------------------------------------------------------------------------------- */

static int open_adapter(struct adapter **out, const struct lora_case *c, const char *suffix, struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.*s%s", (int)(strlen(c->files->path) - strlen(".json")), c->files->path, suffix);
    return adapter_open(out, path, c->cfg.depth, err);
}

static int read_inputs(struct lora_case *c, struct err *err)
{
    const struct model_limits *z = &c->limits;
    if (verify_limits(&c->limits, c->files, "in.x_t", "in.y", &c->cfg, err) < 0)
        return -1;
    const size_t batch = (size_t)z->batch, text = batch * (size_t)z->text;
    c->numbers = batch * (size_t)c->cfg.latent_channels * (size_t)z->height * (size_t)z->width;
    if (!(c->x = verify_floats(c->files, "in.x_t", c->numbers, err)) ||
        !(c->x0 = verify_floats(c->files, "in.x0", c->numbers, err)) ||
        !(c->noise = verify_floats(c->files, "in.noise", c->numbers, err)) ||
        !(c->t = verify_floats(c->files, "in.timestep", batch, err)) ||
        !(c->y = verify_floats(c->files, "in.y", text * (size_t)c->cfg.caption_channels, err)) ||
        !(c->mask = verify_floats(c->files, "in.mask", text, err)))
        return -1;
    c->out = calloc(c->numbers, sizeof(*c->out));
    c->dout = calloc(c->numbers, sizeof(*c->dout));
    return c->out && c->dout ? 0 : err_set(err, ERR_MEMORY, "no memory for outputs of %zu numbers", c->numbers);
}

static int open_case(struct lora_case *c, struct err *err)
{
    char path[PATH_MAX];
    const struct st_tensor *x = st_find(c->files->golden, "in.x_t");
    if (!x || x->ndim != 4)
        return err_set(err, ERR_DATA, "tensor in.x_t is missing");
    verify_flat_config(&c->cfg, json_object_get(c->files->config, "config"), (int)x->dim[1]);
    snprintf(path, sizeof(path), "%.*s.safetensors", (int)(strlen(c->files->path) - strlen(".json")), c->files->path);
    if (model_config_check(&c->cfg, err) < 0 || read_inputs(c, err) < 0 || pretrained_open(&c->base, path, err) < 0 ||
        pretrained_match(c->base, &c->cfg, false, err) < 0 ||
        open_adapter(&c->adapter, c, "." ADAPTER_FILE, err) < 0)
        return -1;
    c->cfg.lora = *adapter_config(c->adapter);
    c->cfg.lora.base_fp32 = true;
    return 0;
}

static void close_case(struct lora_case *c)
{
    void *const arrays[] = {c->x, c->t, c->y, c->mask, c->x0, c->noise, c->out, c->dout};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        free(arrays[i]);
    adapter_close(c->adapter);
    pretrained_close(c->base);
}

/* --- a model with the base, and with the adapter -------------------------------------------- */

static int load(struct lora_case *c, struct model *m, struct err *err)
{
    const struct layout *l = model_layout(m);
    if (model_lora(m))
        return pretrained_freeze(c->base, m, NULL, err) < 0 || adapter_read(c->adapter, l, model_weights(m), err) < 0
                   ? -1 : model_push(m, err);
    for (int i = 0; i < layout_len(l); i++)
        pretrained_read(c->base, i, 0, layout_at(l, i)->count, model_weights(m) + layout_at(l, i)->offset);
    return model_push(m, err);
}

static struct model_input input_of(const struct lora_case *c)
{
    const struct model_limits *z = &c->limits;
    return (struct model_input){.batch = z->batch, .height = z->height, .width = z->width, .text = z->text, .x = c->x,
                                .timestep = c->t, .y = c->y, .mask = c->mask};
}

/* The output of a model with these adapters. */
static int check_output(struct lora_case *c, const char *name, const struct lora_config *lora, struct err *err)
{
    struct model *m;
    struct model_config cfg = c->cfg;
    const struct model_input in = input_of(c);
    cfg.lora = *lora;
    cfg.lora.base_fp32 = true;
    if (!st_find(c->files->golden, name))
        return 0;
    if (model_create(&m, &cfg, &c->limits, false, err) < 0)
        return -1;
    int rc = load(c, m, err);
    if (rc == 0)
        rc = model_forward_host(m, &in, c->out, err);
    if (rc == 0)
        rc = verify_check(c->result, c->files, name, VERIFY_OUTPUT, c->out, c->numbers, 0, err);
    model_destroy(m);
    return rc;
}

static void tell(struct lora_case *c, const char *name, bool same)
{
    const float ours = !same;
    const double want = 0;
    verify_compare(c->result, c->files, &(struct verify_row){name, VERIFY_EXACT, &ours, &want, 1, 0});
}

/* Each layer's alpha is its rank. */
static struct lora_config scale_of_one(const struct lora_config *c)
{
    struct lora_config one = *c;
    one.alpha = one.rank;
    one.rslora = false;
    for (int i = 0; i < one.exceptions; i++)
        one.exception[i].alpha = one.exception[i].rank;
    return one;
}

static bool has_scale_of_one(const struct adapter *a, const struct lora_config *want, int depth)
{
    bool same = !adapter_has_alpha(a);
    for (int b = 0; b < depth; b++)
        for (int m = 0; m < LORA_MODULES; m++)
            same &= lora_config_rank(adapter_config(a), b, (enum lora_module)m) ==
                        lora_config_rank(want, b, (enum lora_module)m) &&
                    fabs(lora_config_alpha(adapter_config(a), b, (enum lora_module)m) -
                         lora_config_rank(want, b, (enum lora_module)m)) <
                        1e-9 + 1e9 * (lora_config_rank(want, b, (enum lora_module)m) == 0);
    return same;
}

/* A file without metadata. */
static int check_without_notes(struct lora_case *c, struct err *err)
{
    char path[PATH_MAX];
    struct adapter *a;
    snprintf(path, sizeof(path), "%.*s.nometa.safetensors", (int)(strlen(c->files->path) - strlen(".json")),
             c->files->path);
    if (access(path, F_OK) < 0)
        return 0;
    if (open_adapter(&a, c, ".nometa.safetensors", err) < 0)
        return -1;
    tell(c, "nometa", has_scale_of_one(a, &c->cfg.lora, c->cfg.depth));
    adapter_close(a);
    return 0;
}

static int check_outputs(struct lora_case *c, struct err *err)
{
    const struct lora_config none = {0}, one = scale_of_one(&c->cfg.lora);
    return check_output(c, "out.base", &none, err) < 0 || check_output(c, "out.model", &c->cfg.lora, err) < 0 ||
                   check_output(c, "out.scale1", &one, err) < 0 || check_without_notes(c, err) < 0
               ? -1
               : 0;
}

/* --- merged weights ------------------------------------------------------------------------ */

static int check_merged_tensor(struct lora_case *c, struct model *m, int tensor, struct err *err)
{
    char name[TENSOR_NAME + 16];
    const struct tensor *t = layout_at(model_base_layout(m), tensor);
    struct lora *l = model_lora(m);
    snprintf(name, sizeof(name), MERGED "%s", t->name);
    if (!st_find(c->files->golden, name))
        return 0;
    float *merged = calloc(t->count, sizeof(*merged));
    if (!merged)
        return err_set(err, ERR_MEMORY, "no memory for %zu merged weights", t->count);
    lora_base_get(l, t->offset, t->count, merged);
    for (int i = 0; i < lora_len(l); i++)
        if (lora_at(l, i)->tensor == tensor)
            lora_merge(l, lora_at(l, i), model_weights(m), merged);
    const int rc = verify_check(c->result, c->files, name, VERIFY_OUTPUT, merged, t->count, 0, err);
    free(merged);
    return rc;
}

static int check_merged(struct lora_case *c, struct model *m, struct err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < layout_len(model_base_layout(m)); i++)
        rc = check_merged_tensor(c, m, i, err);
    return rc;
}

/* --- training ------------------------------------------------------------------------------ */

/* The mean over samples of mean((noise - x0 - out)^2), and its gradient. */
static float take_loss(struct lora_case *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->numbers; i++) {
        const double d = (double)c->out[i] - ((double)c->noise[i] - (double)c->x0[i]);
        sum += d * d;
        c->dout[i] = (float)(2 * d / (double)c->numbers);
    }
    return (float)(sum / (double)c->numbers);
}

static const char *short_name(const struct tensor *t)
{
    return t->name + strlen(PREFIX);
}

/* Of queries and keys gradients nearly cancel. */
static enum verify_kind kind_of(const char *name)
{
    return strstr(name, "attn2.to_q") || strstr(name, "attn2.to_k") ? VERIFY_GRADIENT_QK : VERIFY_GRADIENT;
}

static int check_gradients(struct lora_case *c, struct model *m, double norm, struct err *err)
{
    const struct layout *l = model_layout(m);
    int rc = 0;
    for (int i = 0; rc == 0 && i < layout_len(l); i++) {
        char name[TENSOR_NAME + 16];
        const struct tensor *t = layout_at(l, i);
        snprintf(name, sizeof(name), GRADS "%s", short_name(t));
        rc = verify_check(c->result, c->files, name, kind_of(name), model_grads(m) + t->offset, t->count, norm, err);
    }
    return rc;
}

struct run {
    struct model  *m;
    struct model_input in;           /* of kernel arrays, as are the next two */
    float         *out, *dout;
    struct params *params;
    float         *start;            /* weights before the first step */
    float          losses[16], norms[16];
    int            steps;
    double         lr;
};

static const float *stage(const struct kern_ops *ops, const float *from, size_t n)
{
    float *to = ops->alloc(n * sizeof(*to));
    if (to)
        ops->upload(to, from, n * sizeof(*to));
    return to;
}

static int stage_inputs(const struct lora_case *c, struct run *r, struct err *err)
{
    const struct kern_ops *ops = model_ops(r->m);
    const size_t batch = (size_t)c->limits.batch, text = batch * (size_t)c->limits.text;
    r->in = input_of(c);
    r->in.x = stage(ops, c->x, c->numbers);
    r->in.timestep = stage(ops, c->t, batch);
    r->in.y = stage(ops, c->y, text * (size_t)c->cfg.caption_channels);
    r->in.mask = stage(ops, c->mask, text);
    r->out = ops->alloc(c->numbers * sizeof(float));
    r->dout = ops->alloc(c->numbers * sizeof(float));
    return r->in.x && r->in.timestep && r->in.y && r->in.mask && r->out && r->dout
               ? 0 : err_set(err, ERR_MEMORY, "no memory for a batch");
}

static void free_inputs(struct run *r)
{
    const void *const arrays[] = {r->in.x, r->in.timestep, r->in.y, r->in.mask, r->out, r->dout};
    for (size_t i = 0; r->m && i < sizeof(arrays) / sizeof(arrays[0]); i++)
        model_ops(r->m)->release((void *)(uintptr_t)arrays[i]);
}

static int run_step(struct lora_case *c, struct run *r, int k, struct err *err)
{
    const struct kern_ops *ops = model_ops(r->m);
    const size_t bytes = c->numbers * sizeof(float);
    double norm;
    ops->zero(params_grads(r->params), params_floats(r->params));
    if (model_forward(r->m, &r->in, r->out, err) < 0)
        return -1;
    ops->download(c->out, r->out, bytes);
    r->losses[k] = take_loss(c);
    ops->upload(r->dout, c->dout, bytes);
    if (model_backward(r->m, &r->in, r->dout, NULL, err) < 0 || params_squares(r->params, &norm, err) < 0 ||
        model_pull_grads(r->m, err) < 0)
        return -1;
    norm = sqrt(norm);
    r->norms[k] = (float)norm;
    if (k == 0 && (verify_check(c->result, c->files, "loss.mean", VERIFY_LOSS, r->losses, 1, 0, err) < 0 ||
                   check_gradients(c, r->m, norm, err) < 0))
        return -1;
    return params_update(r->params, r->lr, norm, err);
}

static int check_final(struct lora_case *c, const struct run *r, struct err *err)
{
    const struct layout *l = model_layout(r->m);
    int rc = 0;
    for (int i = 0; rc == 0 && i < layout_len(l); i++) {
        char name[TENSOR_NAME + 16];
        const struct tensor *t = layout_at(l, i);
        snprintf(name, sizeof(name), FINAL "%s", short_name(t));
        double *want = verify_want(c->files, name, t->count, err);
        if (!want)
            return -1;
        const double change = verify_change(want, r->start + t->offset, t->count);
        rc = verify_check(c->result, c->files, name, VERIFY_ADAMW, params_view(r->params) + t->offset, t->count,
                          verify_update_scale(want, t->count, change, r->lr), err);
        free(want);
    }
    if (rc == 0)
        rc = verify_check(c->result, c->files, "train.losses", VERIFY_LOSS, r->losses, (size_t)r->steps, 0, err);
    return rc < 0 ? rc : verify_check(c->result, c->files, "train.grad_norms", VERIFY_NORM, r->norms,
                                      (size_t)r->steps, 0, err);
}

static struct optim_config optimizer_of(const json_t *train)
{
    const json_t *betas = json_object_get(train, "betas");
    return (struct optim_config){
        .type = OPTIM_ADAMW, .beta = {json_number_value(json_array_get(betas, 0)),
                                      json_number_value(json_array_get(betas, 1))},
        .eps = {field_number(train, "eps")}, .weight_decay = field_number(train, "weight_decay"),
        .clip = field_number(train, "max_grad_norm"), .clip_threshold = 1};
}

static int keep_start(struct run *r, struct err *err)
{
    const size_t bytes = params_floats(r->params) * sizeof(float);
    if (!(r->start = malloc(bytes)))
        return err_set(err, ERR_MEMORY, "no memory for %zu bytes of weights", bytes);
    memcpy(r->start, params_view(r->params), bytes);
    return 0;
}

static int train(struct lora_case *c, struct run *r, struct err *err)
{
    const json_t *train = json_object_get(c->files->config, "train");
    const struct optim_config opt = optimizer_of(train);
    r->steps = (int)field_int(train, "steps", 0);
    r->lr = field_number(train, "lr");
    if (r->steps < 1 || r->steps > 16)
        return err_set(err, ERR_DATA, "train.steps is %d; 1 to 16 are possible", r->steps);
    if (stage_inputs(c, r, err) < 0 || params_create(&r->params, r->m, &opt, NULL, err) < 0 || keep_start(r, err) < 0)
        return -1;
    for (int k = 0; k < r->steps; k++)
        if (run_step(c, r, k, err) < 0)
            return -1;
    return params_pull(r->params, err) < 0 ? -1 : check_final(c, r, err);
}

/* --- files --------------------------------------------------------------------------------- */

static bool same_config(const struct lora_config *a, const struct lora_config *b, int depth)
{
    bool same = true;
    for (int i = 0; i < depth; i++)
        for (int m = 0; m < LORA_MODULES; m++)
            same &= fabs(lora_config_scale(a, i, (enum lora_module)m) - lora_config_scale(b, i, (enum lora_module)m)) <
                    1e-12;
    return same;
}

static int read_again(struct lora_case *c, struct model *m, const char *path, struct err *err)
{
    struct adapter *a;
    const size_t floats = layout_floats(model_layout(m));
    float *again = layout_alloc(model_layout(m));
    int rc = again ? adapter_open(&a, path, c->cfg.depth, err) : err_set(err, ERR_MEMORY, "no memory for adapters");
    if (rc == 0) {
        rc = adapter_read(a, model_layout(m), again, err);
        tell(c, "written again", rc == 0 && same_config(adapter_config(a), &c->cfg.lora, c->cfg.depth) &&
             memcmp(again, model_weights(m), floats * sizeof(*again)) == 0);
        adapter_close(a);
    }
    free(again);
    return rc;
}

static int check_file(struct lora_case *c, struct model *m, struct err *err)
{
    char path[64];
    const int fd = memfd_create("adapter", MFD_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "no memory file for an adapter");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int rc = adapter_write(fd, &c->cfg.lora, c->cfg.depth, model_layout(m), model_weights(m), err);
    if (rc == 0)
        rc = read_again(c, m, path, err);
    close(fd);
    return rc;
}

int verify_lora(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    struct lora_case c = {.result = result, .files = files};
    struct run r = {0};
    int rc = open_case(&c, err);
    if (rc == 0)
        rc = check_outputs(&c, err);
    if (rc == 0)
        rc = model_create(&r.m, &c.cfg, &c.limits, true, err);
    if (rc == 0 && (rc = load(&c, r.m, err)) == 0 && (rc = check_merged(&c, r.m, err)) == 0 &&
        (rc = check_file(&c, r.m, err)) == 0)
        rc = train(&c, &r, err);
    params_destroy(r.params);
    free_inputs(&r);
    model_destroy(r.m);
    free(r.start);
    close_case(&c);
    return rc;
}
