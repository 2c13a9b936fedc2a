/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - see export.h */
#include "engine/weights/export.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/json_make.h"
#include "engine/contract/safe_open.h"
#include "engine/contract/scratch.h"
#include "engine/contract/write_all.h"
#include "engine/data/safetensors.h"
#include "engine/model/layout.h"
#include "engine/weights/adapter.h"
#include "engine/weights/pth_save.h"
#include "engine/weights/weights_names.h"

/* A new file of `dir`, or -1. */
static int export_open(const char *dir, const char *name, struct err *err)
{
    char path[SCRATCH_PATH];
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    const int fd = safe_open(path, O_WRONLY | O_CREAT | O_EXCL, err);
    if (fd >= 0)
        fchmod(fd, 0644);
    return fd;
}

/* Syncs and closes it; `rc` is the result of the write, and returned if it is not 0. */
static int export_close(int fd, const char *name, int rc, struct err *err)
{
    if (rc == 0 && fsync(fd) < 0)
        rc = err_set(err, ERR_SYSTEM, "cannot write %s to disk", name);
    close(fd);
    return rc;
}

/* JSON into a file; takes the reference. */
static int export_json(const char *dir, const char *name, json_t *value, struct err *err)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(8)) : NULL;
    const int fd = text ? export_open(dir, name, err) : err_set(err, ERR_MEMORY, "no memory for %s", name);
    int rc = fd;
    if (fd >= 0) {
        rc = write_all(fd, text, strlen(text)) < 0 || write_all(fd, "\n", 1) < 0
                 ? err_set(err, ERR_SYSTEM, "cannot write %s/%s", dir, name) : 0;
        rc = export_close(fd, name, rc, err);
    }
    json_decref(value);
    free(text);
    return rc;
}

static void row(FILE *f, const char *name, const json_t *value)
{
    char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    fprintf(f, "| %s | %s |\n", name, text ? text : json_string_value(value));
    free(text);
}

static void how(FILE *f, const struct export_ask *a)
{
    fprintf(f, "\n## Loading\n\n");
    if (a->cfg->lora.rank > 0)
        fprintf(f, "    pipeline = SanaPipeline.from_pretrained(BASE)\n"
                "    pipeline.load_lora_weights(\"DIR\", weight_name=\"" ADAPTER_FILE "\")\n\n"
                "BASE has the weights that the adapters were trained on. Rank and alpha are in the file's header.\n");
    else if (a->format == EXPORT_DIFFUSERS)
        fprintf(f, "    pipeline = SanaPipeline.from_pretrained(\"DIR\", vae=VAE, text_encoder=ENCODER, tokenizer="
                "TOKENIZER)\n\nVAE, text encoder and tokenizer are those that the model was trained with; they are not "
                "in this directory.\n");
    else if (a->format == EXPORT_AUTHORS)
        fprintf(f, "model.pth has {\"state_dict\": ...} under the authors' names, as their programs load it.\n");
    else
        fprintf(f, "model.safetensors has the weights under the authors' names.\n");
    if (a->cfg->lora.rank == 0)
        fprintf(f, "\nWith jobctl: `train: {model: {weights: DIR}}`, or `jobctl-train inspect DIR`.\n");
}

/* README.md */
static int export_card(const struct export_ask *a, const char *dir, struct err *err)
{
    const char *name;
    json_t *value;
    const int fd = export_open(dir, "README.md", err);
    FILE *f = fd < 0 ? NULL : fdopen(dup(fd), "w");
    if (!f)
        return fd < 0 ? -1 : export_close(fd, "README.md", err_set(err, ERR_SYSTEM, "cannot write README.md"), err);
    fprintf(f, "# %s\n\n| | |\n|---|---|\n", a->title);
    json_object_foreach((json_t *)(uintptr_t)a->card, name, value)
        row(f, name, value);
    how(f, a);
    const bool bad = ferror(f);
    const int rc = fclose(f) != 0 || bad ? err_set(err, ERR_SYSTEM, "cannot write %s/README.md", dir) : 0;
    return export_close(fd, "README.md", rc, err);
}

/* mlp_hidden is hidden * mlp_ratio, rounded down. */
static json_t *export_config(const struct model_config *c, int sample)
{
    return json_make("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:i, s:i, s:b, s:f, s:n, "
                     "s:o}",
                     "_class_name", "SanaTransformer2DModel", "_diffusers_version", "0.32.0", "in_channels",
                     c->latent_channels, "out_channels", c->latent_channels, "num_attention_heads",
                     c->hidden / c->linear_head_dim, "attention_head_dim", c->linear_head_dim, "num_layers", c->depth,
                     "num_cross_attention_heads", c->heads, "cross_attention_head_dim", c->hidden / c->heads,
                     "cross_attention_dim", c->hidden, "caption_channels", c->caption_channels, "mlp_ratio",
                     (double)c->mlp_hidden / c->hidden, "dropout", 0.0, "attention_bias", 0, "sample_size", sample,
                     "patch_size", c->patch, "norm_elementwise_affine", 0, "norm_eps", 1e-6, "interpolation_scale",
                     "qk_norm", c->qk_norm ? json_text("rms_norm_across_heads") : json_null());
}

/* What is not in the directory is null: from_pretrained() takes it as an argument. */
static json_t *export_index(void)
{
    return json_make("{s:s, s:s, s:[s,s], s:[n,n], s:[n,n], s:[s,s], s:[n,n]}", "_class_name", "SanaPipeline",
                     "_diffusers_version", "0.32.0", "scheduler", "diffusers", "DPMSolverMultistepScheduler",
                     "text_encoder", "tokenizer", "transformer", "diffusers", "SanaTransformer2DModel", "vae");
}

static json_t *export_scheduler(double flow_shift)
{
    return json_make("{s:s, s:s, s:i, s:s, s:i, s:s, s:s, s:b, s:f, s:b, s:s}", "_class_name",
                     "DPMSolverMultistepScheduler", "_diffusers_version", "0.32.0", "num_train_timesteps", 1000,
                     "prediction_type", "flow_prediction", "solver_order", 2, "algorithm_type", "dpmsolver++",
                     "solver_type", "midpoint", "use_flow_sigmas", 1, "flow_shift", flow_shift, "lower_order_final", 1,
                     "final_sigmas_type", "zero");
}

static const char *const formats[EXPORT_FORMATS] = {"diffusers", "authors", "safetensors"};

enum export_format export_format(const char *name)
{
    int f = 0;
    while (f < EXPORT_FORMATS && strcmp(formats[f], name) != 0)
        f++;
    return (enum export_format)f;
}

/* --- tensors ------------------------------------------------------------------------------- */

/* A tensor under its names: whole, or some of its rows. */
static int add_parts(struct st_writer *w, const struct export_ask *a, enum weights_naming naming,
                     const struct tensor *t, struct err *err)
{
    struct weights_place place[WEIGHTS_NAMES_MOST];
    const int n = weights_names_split(place, naming, t->name);
    int rc = 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        int64_t dim[TENSOR_DIMS];
        const size_t count = t->count / (size_t)place[i].parts;
        memcpy(dim, t->dim, sizeof(dim));
        dim[0] /= place[i].parts;
        rc = st_writer_add(w, place[i].name, ST_F32, t->ndim, dim,
                           a->weights + t->offset + count * (size_t)place[i].part, err);
    }
    return rc;
}

static int write_tensors(const struct export_ask *a, const char *dir, const char *name, bool diffusers, struct err *err)
{
    struct st_writer *w = NULL;
    int64_t bytes;
    int fd = -1, rc = st_writer_create(&w, err);
    if (rc == 0)
        rc = st_writer_meta(w, "format", "pt", err);
    for (int i = 0; rc == 0 && i < layout_len(a->layout); i++) {
        const struct tensor *t = layout_at(a->layout, i);
        rc = diffusers ? add_parts(w, a, WEIGHTS_SANA_DIFFUSERS, t, err)
                       : st_writer_add(w, t->name, ST_F32, t->ndim, t->dim, a->weights + t->offset, err);
    }
    if (rc == 0 && (rc = fd = export_open(dir, name, err)) >= 0)
        rc = export_close(fd, name, st_writer_write(w, fd, &bytes, err), err);
    st_writer_destroy(w);
    return rc;
}

static int write_pth(const struct export_ask *a, const char *dir, struct err *err)
{
    const int n = layout_len(a->layout);
    struct pth_save_row *rows = calloc((size_t)n, sizeof(*rows));
    if (!rows)
        return err_set(err, ERR_MEMORY, "no memory for a list of %d tensors", n);
    for (int i = 0; i < n; i++) {
        const struct tensor *t = layout_at(a->layout, i);
        rows[i] = (struct pth_save_row){t->name, t->ndim, t->dim, a->weights + t->offset, t->count};
    }
    const int fd = export_open(dir, "model.pth", err);
    const int rc = fd < 0 ? -1 : export_close(fd, "model.pth", pth_save(fd, rows, n, err), err);
    free(rows);
    return rc;
}

static int write_adapters(const struct export_ask *a, const char *dir, struct err *err)
{
    const int fd = export_open(dir, ADAPTER_FILE, err);
    if (fd < 0)
        return -1;
    return export_close(fd, ADAPTER_FILE, adapter_write(fd, &a->cfg->lora, a->cfg->depth, a->layout, a->weights, err),
                        err);
}

static int make_dir(char sub[SCRATCH_PATH], const char *dir, const char *name, struct err *err)
{
    if (snprintf(sub, SCRATCH_PATH, "%s/%s", dir, name) >= SCRATCH_PATH || mkdir(sub, 0755) < 0)
        return err_set(err, ERR_SYSTEM, "cannot make %.300s/%s", dir, name);
    return 0;
}

static int write_pipeline(const struct export_ask *a, const char *dir, struct err *err)
{
    char sub[SCRATCH_PATH];
    if (make_dir(sub, dir, "transformer", err) < 0 ||
        export_json(sub, "config.json", export_config(a->cfg, a->sample), err) < 0 ||
        write_tensors(a, sub, "diffusion_pytorch_model.safetensors", true, err) < 0 || scratch_sync_dir(sub, err) < 0 ||
        make_dir(sub, dir, "scheduler", err) < 0 ||
        export_json(sub, "scheduler_config.json", export_scheduler(a->flow_shift), err) < 0 ||
        scratch_sync_dir(sub, err) < 0)
        return -1;
    return export_json(dir, "model_index.json", export_index(), err);
}

int export_check(const struct export_ask *a, struct err *err)
{
    if (a->format == EXPORT_AUTHORS && a->cfg->lora.rank > 0)
        return err_set(err, ERR_USAGE, "the authors' programs have no adapters: add --merged, or take --format "
                       "diffusers");
    if (a->format == EXPORT_DIFFUSERS && a->cfg->family != MODEL_SANA)
        return err_set(err, ERR_USAGE, "--format diffusers writes Sana only; take authors or safetensors for "
                       "Lumina-Next");
    return 0;
}

int export_write(const struct export_ask *a, const char *dir, struct err *err)
{
    const int rc = a->cfg->lora.rank > 0            ? write_adapters(a, dir, err)
                   : a->format == EXPORT_DIFFUSERS ? write_pipeline(a, dir, err)
                   : a->format == EXPORT_AUTHORS   ? write_pth(a, dir, err)
                                                   : write_tensors(a, dir, "model.safetensors", false, err);
    return rc < 0 || export_card(a, dir, err) < 0 ? -1 : scratch_sync_dir(dir, err);
}
