/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - see params.h */
#include "engine/optim/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/optim/state.h"
#include "kernels/kernels.h"

struct params {
    const struct kern_ops *ops;
    struct model          *model;
    struct optim          *optim;
    struct shard          *shard, *whole;  /* of all ranks; of one rank, which has everything */
    struct shard_holder    held, updated, saved;
    size_t                 floats;         /* of weights, and of gradients */
    float                 *weights, *grads;
    void                  *narrow;         /* the weights, narrow; themselves where that is fp32 */
    float                 *view;
    bool                   borrowed;       /* the weights are in an image */
    params_update_fn       on_update;      /* of the owner of images, or NULL */
    void                  *on_update_arg;
};

static int alloc_packed(struct params *p, struct err *err)
{
    const size_t bytes = sizeof(float) * p->floats;
    const bool wide = p->ops->narrow == sizeof(float);
    if (!(p->narrow = p->view = p->weights = backend_alloc(p->ops, bytes, USE_WEIGHTS, err)) ||
        !(p->grads = backend_alloc(p->ops, bytes, USE_GRADIENTS, err)) ||
        (!wide && !(p->narrow = backend_alloc(p->ops, p->floats * p->ops->narrow, USE_WEIGHTS, err))) ||
        (!p->ops->host && !(p->view = backend_host(bytes, err))))
        return -1;
    return 0;
}

bool params_by_unit(const struct params_share *share)
{
    return share && share->sharing == SHARING_FSDP;
}

static int find_arrays(struct params *p, const struct params_share *share, struct err *err)
{
    const struct shard_holder all = {p->whole, 0}, part = {p->shard, share->rank};
    p->held = params_by_unit(share) ? part : all;
    p->updated = share->sharing == SHARING_DDP ? all : part;
    p->saved = part;
    p->floats = shard_floats(p->held.shard, p->held.rank);
    if (!params_has_all(p))
        return alloc_packed(p, err);
    p->weights = model_kernel_weights(p->model);
    p->grads = model_kernel_grads(p->model);
    p->narrow = model_kernel_narrow(p->model);
    p->view = model_weights(p->model);
    return 0;
}

int params_create(struct params **out, struct model *m, const struct optim_config *opt,
                  const struct params_share *asked, struct err *err)
{
    const struct params_share share = asked ? *asked : (struct params_share){SHARING_DDP, 0, 1};
    const enum shard_cut cut = opt->type == OPTIM_CAME ? SHARD_TENSORS : SHARD_EVEN;
    const struct layout *l = model_layout(m);
    struct params *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_MEMORY, "no memory for weights");
    *p = (struct params){.ops = backend_ops(), .model = m};
    if (shard_create(&p->shard, l, share.world, cut, err) < 0 || shard_create(&p->whole, l, 1, cut, err) < 0 ||
        find_arrays(p, &share, err) < 0 ||
        optim_create(&p->optim, opt, l, &(struct optim_share){p->updated, p->held}, err) < 0) {
        params_destroy(p);
        return -1;
    }
    *out = p;
    return 0;
}

static void free_packed(struct params *p)
{
    if (p->view != p->weights)
        backend_host_free(p->view);
    if (p->narrow != p->weights)
        p->ops->release(p->narrow);
    if (!p->borrowed)
        p->ops->release(p->weights);
    p->ops->release(p->grads);
}

void params_destroy(struct params *p)
{
    if (!p)
        return;
    optim_destroy(p->optim);
    shard_destroy(p->shard);
    shard_destroy(p->whole);
    if (!params_has_all(p))
        free_packed(p);
    free(p);
}

struct optim *params_optim(const struct params *p)
{
    return p->optim;
}

const struct shard *params_shard(const struct params *p)
{
    return p->shard;
}

bool params_has_all(const struct params *p)
{
    return p->held.shard == p->whole;
}

bool params_updates_all(const struct params *p)
{
    return p->updated.shard == p->whole;
}

struct shard_part params_part(const struct params *p, int unit)
{
    const struct shard_part u = shard_held(p->updated, unit), h = shard_held(p->held, unit);
    return (struct shard_part){u.from, u.to, h.at + (u.from - h.from)};
}

size_t params_floats(const struct params *p)
{
    return p->floats;
}

float *params_weights(const struct params *p)
{
    return p->weights;
}

float *params_grads(const struct params *p)
{
    return p->grads;
}

/* Where a tensor that this rank has all of is in a block or packed memory like `weights`. */
static float *tensor_in(const struct params *p, float *weights, const struct tensor *t)
{
    size_t from, to, at;
    shard_of_tensor(p->held, t, &from, &to, &at);
    return weights + at;
}

float *params_tensor(const struct params *p, const struct tensor *t)
{
    return tensor_in(p, p->weights, t);
}

float *params_view(const struct params *p)
{
    return p->view;
}

void params_round(struct params *p)
{
    if (!p->ops->host)
        p->ops->round(p->narrow, p->weights, p->floats);
}

int params_push(struct params *p, struct err *err)
{
    if (!p->ops->host)
        p->ops->upload(p->weights, p->view, p->floats * sizeof(float));
    params_round(p);
    return optim_push(p->optim, err);
}

int params_pull(struct params *p, struct err *err)
{
    if (!p->ops->host)
        p->ops->download(p->view, p->weights, p->floats * sizeof(float));
    return optim_pull(p->optim, err);
}

int params_state(const struct params *p, struct state *out, struct err *err)
{
    const struct state_source source = {.layout = model_layout(p->model), .weights = p->view, .optim = p->optim,
                                        .held = p->held, .saved = p->saved};
    return state_make(out, &source, err);
}

int params_kernel_state(const struct params *p, struct state *out, struct err *err)
{
    if (params_state(p, out, err) < 0)
        return -1;
    for (int i = 0; i < out->len; i++) {
        struct state_part *part = &out->part[i];
        part->data = i < out->weights ? p->weights + (part->data - p->view)
                                      : optim_kernel(p->optim, part->data);
    }
    return 0;
}

int params_squares(const struct params *p, double *squares, struct err *err)
{
    *squares = optim_share_squares(p->optim, p->grads);
    return backend_check(p->ops, err);
}

static int check_norm(double grad_norm, struct err *err)
{
    if (isfinite(grad_norm))
        return 0;
    return err_set(err, ERR_DATA, "the norm of the gradients is %g; nothing was updated", grad_norm);
}

int params_update(struct params *p, double lr, double grad_norm, struct err *err)
{
    return p->on_update ? p->on_update(p->on_update_arg, lr, grad_norm, err)
                        : params_update_here(p, lr, grad_norm, err);
}

int params_update_here(struct params *p, double lr, double grad_norm, struct err *err)
{
    if (check_norm(grad_norm, err) < 0)
        return -1;
    optim_step(p->optim, p->weights, p->narrow, p->grads, grad_norm, lr);
    return backend_check(p->ops, err);
}

/* --- images ------------------------------------------------------------------------------ */

void params_on_update(struct params *p, params_update_fn fn, void *arg)
{
    p->on_update = fn;
    p->on_update_arg = arg;
}

/* Numbers of the weights in an image: the optimizer's begin at a page. */
static size_t weights_image(const struct params *p)
{
    enum { PAGE = 1024 };
    return (p->floats + PAGE - 1) / PAGE * PAGE;
}

size_t params_image(const struct params *p)
{
    return weights_image(p) + optim_image(p->optim);
}

void params_place(struct params *p, float *image)
{
    if (params_has_all(p))
        model_place(p->model, image);
    else if (!p->borrowed)
        p->ops->release(p->weights);
    p->borrowed = true;
    p->weights = p->view = image;
    p->narrow = image;
    optim_place(p->optim, image + weights_image(p));
}

void params_carry(const struct params *p, float *image)
{
    const struct layout *l = model_layout(p->model);
    for (int i = 0; i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        if (t->kind != TENSOR_PARAM)
            memcpy(tensor_in(p, image, t), params_tensor(p, t), t->count * sizeof(float));
    }
    optim_carry(p->optim, image + weights_image(p));
}

int params_move_begin(const struct params *p, struct optim_move *m, float *image, double lr, double grad_norm,
                      struct err *err)
{
    if (check_norm(grad_norm, err) < 0)
        return -1;
    m->weights = p->weights;
    m->grads = p->grads;
    m->to = image;
    m->image = image + weights_image(p);
    optim_move_begin(p->optim, m, grad_norm, lr);
    return 0;
}
