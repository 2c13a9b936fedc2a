/* SPDX-License-Identifier: Apache-2.0 */
/* model_host.c - forward pass on host-memory buffers; see model.h */
#include "engine/contract/err.h"
#include "engine/model/backend.h"
#include "engine/model/model_internal.h"

static const float *stage(const struct model *m, float *to, const float *from, size_t count)
{
    m->ops->upload(to, from, count * sizeof(float));
    return to;
}

int model_forward_host(struct model *m, const struct model_input *in, float *out, struct err *err)
{
    if (m->ops->host)
        return model_forward(m, in, out, err);
    const struct model_config *c = &m->cfg;
    const struct model_limits *z = &m->max;
    if (in->batch < 1 || in->batch > z->batch || in->height < 1 || in->height > z->height ||
        in->width < 1 || in->width > z->width || in->text < 1 || in->text > z->text ||
        (int64_t)in->batch * in->height * in->width > model_limits_pixels(z) ||
        (in->first && in->rows > in->batch * in->text))
        return err_set(err, ERR_USAGE, "the batch is larger than the model was created for");
    const size_t B = (size_t)in->batch, text = in->first ? (size_t)in->rows : B * (size_t)in->text;
    const size_t latent = B * (size_t)c->latent_channels * (size_t)in->height * (size_t)in->width;
    struct model_input there = *in;
    there.x = stage(m, m->stage.x, in->x, latent);
    there.timestep = stage(m, m->stage.timestep, in->timestep, B);
    there.y = stage(m, m->stage.y, in->y, text * (size_t)c->caption_channels);
    there.mask = stage(m, m->stage.mask, in->mask, text);
    if (in->first) {
        m->ops->upload(m->stage.first, in->first, (B + 1) * sizeof(*in->first));
        there.first = m->stage.first;
    }
    if (model_forward(m, &there, m->stage.out, err) < 0)
        return -1;
    m->ops->download(out, m->stage.out, latent * sizeof(float));
    return backend_check(m->ops, err);
}
