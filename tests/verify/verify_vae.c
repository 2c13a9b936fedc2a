/* SPDX-License-Identifier: Apache-2.0 */
/* verify_vae.c - kinds "dcae" and "sdxl-vae": latents of pictures, and pictures of latents
 *
 * For each tag of "cases": "in.TAG.x" is encoded into "out.TAG.z" (SDXL: mean, logvar and std), "in.TAG.z" decoded into
 * "out.TAG.x"; "act.TAG.NAME" is what a layer gives.  Older cases have TAG.image, TAG.latent and TAG.recon.  Weights
 * are tensors, drawn by a rule, or those of CASE.diffusers.safetensors, with which all is run once more.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/vae/vae.h"
#include "engine/vae/vae_names.h"
#include "tests/verify/verify_internal.h"

struct vae_case {
    struct verify_result           *result;
    const struct verify_case_files *files;
    struct st_file                 *diffusers; /* or NULL */
    bool                            theirs;    /* use these weights */
    struct vae_config               cfg;
    struct vae                     *vae;
    const char                     *tag;       /* the current one ... */
    int                             item, items; /* ... and its picture */
};

/* --- weights --------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* By the sentence of the rule: matrices by their inputs, norms around 1, the rest around 0. */
static int draw(float *to, const json_t *rule, const char *name, size_t rows, size_t each, struct err *err)
{
    const bool norm = ends_with(name, "norm.weight") || ends_with(name, "project_out.op_list.0.weight");
    if (json_object_get(json_object_get(rule, "tensors"), name))
        return verify_rule_tensor(to, rule, name, rows * each, err);
    if (each > 1)
        return verify_rule_draw(to, rule, name, rows * each, 0, sqrt(3.0 / (double)each), err);
    return verify_rule_draw(to, rule, name, rows, norm ? 1 : 0, norm ? 0.5 : 0.3, err);
}

static const float *their_tensor(const struct vae_case *c, const char *name, size_t count, float *scratch,
                                 struct err *err)
{
    char names[VAE_NAME_PARTS][VAE_NAME];
    const size_t parts = (size_t)vae_names_diffusers(names, name);
    for (size_t i = 0; i < parts; i++) {
        const struct st_tensor *t = st_find(c->diffusers, names[i]);
        if (!t || t->count * parts != count)
            return err_set(err, ERR_DATA, "tensor %s is missing, or has not %zu numbers", names[i], count / parts),
                   NULL;
        if (st_to_float(scratch + i * t->count, t, t->count, err) < 0)
            return NULL;
    }
    return parts ? scratch : (err_set(err, ERR_DATA, "diffusers has no name for %s", name), NULL);
}

static const float *tensor(void *arg, const char *name, size_t rows, size_t each, float *scratch, struct err *err)
{
    const struct vae_case *c = arg;
    const struct st_tensor *t = st_find(c->files->golden, name);
    const json_t *rule = json_object_get(c->files->config, "procedural");
    if (c->theirs)
        return their_tensor(c, name, rows * each, scratch, err);
    if (!t && rule)
        return draw(scratch, rule, name, rows, each, err) < 0 ? NULL : scratch;
    if (!t || t->count != rows * each)
        return err_set(err, ERR_DATA, "tensor %s is missing, or has not %zu numbers", name, rows * each), NULL;
    return st_to_float(scratch, t, t->count, err) < 0 ? NULL : scratch;
}

/* --- comparisons ----------------------------------------------------------------------------- */

/* With one item of a batch of the tensor `name`, if there is one. */
static int check(struct vae_case *c, const char *name, const char *shown, const float *ours, size_t count,
                 struct err *err)
{
    const struct st_tensor *t = st_find(c->files->golden, name);
    double *want = t ? verify_want(c->files, name, count * (size_t)c->items, err) : NULL;
    if (!want)
        return t ? -1 : 0;
    const struct verify_row row = {shown, VERIFY_PICTURE, ours, want + (size_t)c->item * count, count, 0};
    verify_compare(c->result, c->files, &row);
    free(want);
    return 0;
}

static float *planes_of(const float *x, size_t pixels, size_t channels)
{
    float *p = malloc(pixels * channels * sizeof(*p));
    for (size_t i = 0; p && i < pixels; i++)
        for (size_t k = 0; k < channels; k++)
            p[k * pixels + i] = x[i * channels + k];
    return p;
}

static int observe(void *arg, const char *name, const float *x, int height, int width, int channels, struct err *err)
{
    struct vae_case *c = arg;
    char full[ST_NAME];
    const size_t pixels = (size_t)height * (size_t)width;
    snprintf(full, sizeof(full), "act.%s.%s", c->tag, name);
    if (!st_find(c->files->golden, full))
        return 0;
    float *p = planes_of(x, pixels, (size_t)channels);
    const int rc = p ? check(c, full, full, p, pixels * (size_t)channels, err)
                     : err_set(err, ERR_MEMORY, "no memory for %s", full);
    free(p);
    return rc;
}

/* mean, logvar and std of KL */
static int check_moments(struct vae_case *c, float *z, size_t count, struct err *err)
{
    static const char *const what[] = {"mean", "logvar", "std"};
    for (int i = 0; i < 3; i++) {
        char name[ST_NAME];
        float *of = z + (i ? count : 0);
        for (size_t k = 0; i == 2 && k < count; k++)
            of[k] = expf(of[k] / 2);
        snprintf(name, sizeof(name), "out.%s.%s", c->tag, what[i]);
        if (check(c, name, name, of, count, err) < 0)
            return -1;
    }
    return 0;
}

/* --- one half of one case -------------------------------------------------------------------- */

/* What is read and compared, as the case names it. */
struct names {
    char in[ST_NAME], out[ST_NAME];
};

static struct names names_of(const struct vae_case *c, enum vae_half half)
{
    struct names n;
    const bool enc = half == VAE_ENCODER;
    snprintf(n.in, sizeof(n.in), "in.%s.%s", c->tag, enc ? "x" : "z");
    snprintf(n.out, sizeof(n.out), "out.%s.%s", c->tag, enc ? "z" : "x");
    if (st_find(c->files->golden, n.in))
        return n;
    snprintf(n.in, sizeof(n.in), "%s.%s", c->tag, enc ? "image" : "latent");
    snprintf(n.out, sizeof(n.out), "%s.%s", c->tag, enc ? "latent" : "recon");
    return n;
}

static int run_item(struct vae_case *c, enum vae_half half, const float *in, const struct st_tensor *t, float *out,
                    size_t count, const char *name, struct err *err)
{
    const int h = (int)t->dim[2], w = (int)t->dim[3];
    if (half == VAE_DECODER)
        return vae_decode(c->vae, out, in, h, w, err) < 0 ? -1 : check(c, name, name, out, count, err);
    if (vae_encode(c->vae, out, in, h, w, err) < 0)
        return -1;
    return c->cfg.family == VAE_KL ? check_moments(c, out, count, err) : check(c, name, name, out, count, err);
}

static int run_tag(struct vae_case *c, enum vae_half half, struct err *err)
{
    const struct names n = names_of(c, half);
    const struct st_tensor *t = st_find(c->files->golden, n.in);
    const int channels = half == VAE_ENCODER ? 3 : c->cfg.latent, factor = vae_config_factor(&c->cfg);
    if (!t || t->ndim != 4 || t->dim[1] != channels || t->dim[2] < 1 || t->dim[3] < 1 || t->dim[2] > 1 << 14 ||
        t->dim[3] > 1 << 14 || t->dim[0] < 1)
        return err_set(err, ERR_DATA, "tensor %s of [batch, %d, height, width] is missing", n.in, channels);
    const size_t pixels = (size_t)t->dim[2] * (size_t)t->dim[3], square = (size_t)factor * (size_t)factor;
    const size_t count = half == VAE_ENCODER ? pixels / square * (size_t)c->cfg.latent : pixels * square * 3;
    float *in = verify_floats(c->files, n.in, t->count, err), *out = malloc((2 * count + 1) * sizeof(*out));
    int rc = in && out ? 0 : err_set(err, ERR_MEMORY, "no memory for %s", n.in);
    c->items = (int)t->dim[0];
    for (c->item = 0; rc == 0 && c->item < c->items; c->item++)
        rc = run_item(c, half, in + (size_t)c->item * pixels * (size_t)channels, t, out, count, n.out, err);
    free(in);
    free(out);
    return rc;
}

/* "cases" lists tags, or has an object for each. */
static int run_tags(struct vae_case *c, enum vae_half half, struct err *err)
{
    const json_t *cases = json_object_get(c->files->config, "cases");
    const char *tag;
    json_t *v;
    size_t i;
    int rc = 0;
    json_array_foreach(cases, i, v)
        if (rc == 0 && (c->tag = json_string_value(v)))
            rc = run_tag(c, half, err);
    json_object_foreach((json_t *)(uintptr_t)cases, tag, v)
        if (rc == 0 && (c->tag = tag))
            rc = run_tag(c, half, err);
    return rc;
}

static int run_half(struct vae_case *c, enum vae_half half, struct err *err)
{
    const struct vae_weights weights = {tensor, c, NULL};
    if (vae_create(&c->vae, &c->cfg, half, &weights, err) < 0)
        return -1;
    if (!c->theirs)
        vae_observe(c->vae, observe, c);
    const int rc = run_tags(c, half, err);
    vae_destroy(c->vae);
    return rc;
}

static int run(struct vae_case *c, struct err *err)
{
    if (run_half(c, VAE_ENCODER, err) < 0 || run_half(c, VAE_DECODER, err) < 0 ||
        verify_open_beside(&c->diffusers, c->files->path, "diffusers.safetensors", false, err) < 0)
        return -1;
    c->theirs = true;
    const int rc = c->diffusers && (run_half(c, VAE_ENCODER, err) < 0 || run_half(c, VAE_DECODER, err) < 0) ? -1 : 0;
    st_close(c->diffusers);
    return rc;
}

int verify_vae(struct verify_result *result, const struct verify_case_files *files, bool dcae, struct err *err)
{
    struct vae_case c = {.result = result, .files = files};
    const json_t *config = json_object_get(files->config, "config");
    if (verify_vae_config(&c.cfg, dcae, config ? config : files->config, err) < 0 ||
        run(&c, err) < 0)
        return -1;
    return result->tensors ? 0 : err_set(err, ERR_DATA, "there is nothing to check: no out.TAG.z or out.TAG.x");
}
