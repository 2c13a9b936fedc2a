/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - see export.h */
#include "engine/weights/export.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"
#include "engine/base/write_all.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/weights/adapter.h"
#include "engine/weights/weights_names.h"

struct err;

struct pth_save_row {
    const char    *name;
    int            ndim;
    const int64_t *dim;
    const float   *data;
    size_t         count;
};

enum { RECORD_NAME = 64, ZIP64_FIELD = 1, NEEDS_ZIP64 = 45, NO_16 = 0xffff };
#define NO_32 0xffffffffu

struct record {
    char       name[RECORD_NAME];
    const void *bytes;
    uint64_t    size, at;
    uint32_t    crc;
};

struct archive {
    int            fd;
    uint64_t       at;
    struct record *record; /* written so far */
    int            n;
    bool           failed; /* errno */
};

/* --- little-endian numbers ----------------------------------------------------------------- */

struct bytes {
    unsigned char at[256];
    size_t        n;
};

static void put(struct bytes *b, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        b->at[b->n++] = (unsigned char)(value >> (8 * i));
}

static void put_text(struct bytes *b, const char *text)
{
    memcpy(b->at + b->n, text, strlen(text));
    b->n += strlen(text);
}

static void write_bytes(struct archive *a, const void *bytes, size_t n)
{
    a->failed |= write_all(a->fd, bytes, n) < 0;
    a->at += n;
}

/* --- the archive --------------------------------------------------------------------------- */

/* Of a local and of a central header: versions to flags, method and time (1980-01-01), checksum. */
static void put_common(struct bytes *b, const struct record *r)
{
    put(b, NEEDS_ZIP64, 2);
    put(b, 0, 2);
    put(b, 0, 2);
    put(b, 0, 2);
    put(b, 0x21, 2);
    put(b, r->crc, 4);
    put(b, NO_32, 4);
    put(b, NO_32, 4);
    put(b, strlen(r->name), 2);
}

static uint32_t checksum(const unsigned char *p, uint64_t n)
{
    return (uint32_t)crc32_z(0, p, (size_t)n);
}

static void add(struct archive *a, const char *name, const void *bytes, uint64_t size)
{
    struct bytes b = {.n = 0};
    struct record *r = &a->record[a->n++];
    *r = (struct record){.bytes = bytes, .size = size, .at = a->at, .crc = checksum(bytes, size)};
    snprintf(r->name, sizeof(r->name), "archive/%s", name);
    put(&b, 0x04034b50, 4);
    put_common(&b, r);
    put(&b, 20, 2);
    put_text(&b, r->name);
    put(&b, ZIP64_FIELD, 2);
    put(&b, 16, 2);
    put(&b, size, 8);
    put(&b, size, 8);
    write_bytes(a, b.at, b.n);
    write_bytes(a, bytes, size);
}

static void add_to_directory(struct archive *a, const struct record *r)
{
    struct bytes b = {.n = 0};
    put(&b, 0x02014b50, 4);
    put(&b, NEEDS_ZIP64, 2);
    put_common(&b, r);
    put(&b, 28, 2);
    put(&b, 0, 2);
    put(&b, 0, 2);
    put(&b, 0, 2);
    put(&b, 0, 4);
    put(&b, NO_32, 4);
    put_text(&b, r->name);
    put(&b, ZIP64_FIELD, 2);
    put(&b, 24, 2);
    put(&b, r->size, 8);
    put(&b, r->size, 8);
    put(&b, r->at, 8);
    write_bytes(a, b.at, b.n);
}

static void finish(struct archive *a)
{
    struct bytes b = {.n = 0};
    const uint64_t directory = a->at;
    for (int i = 0; i < a->n; i++)
        add_to_directory(a, &a->record[i]);
    const uint64_t end = a->at;
    put(&b, 0x06064b50, 4); /* zip64 end of the directory */
    put(&b, 44, 8);
    put(&b, NEEDS_ZIP64, 2);
    put(&b, NEEDS_ZIP64, 2);
    put(&b, 0, 8);
    put(&b, (uint64_t)a->n, 8);
    put(&b, (uint64_t)a->n, 8);
    put(&b, end - directory, 8);
    put(&b, directory, 8);
    put(&b, 0x07064b50, 4); /* its locator */
    put(&b, 0, 4);
    put(&b, end, 8);
    put(&b, 1, 4);
    put(&b, 0x06054b50, 4); /* the old end */
    put(&b, 0, 4);
    put(&b, NO_16, 2);
    put(&b, NO_16, 2);
    put(&b, NO_32, 4);
    put(&b, NO_32, 4);
    put(&b, 0, 2);
    write_bytes(a, b.at, b.n);
}

/* --- the object ---------------------------------------------------------------------------- */

static void pickle_number(FILE *f, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        fputc((int)(value >> (8 * i) & 0xff), f);
}

static void pickle_text(FILE *f, const char *text)
{
    fputc('X', f);
    pickle_number(f, strlen(text), 4);
    fputs(text, f);
}

/* LONG1 of eight bytes. */
static void pickle_int(FILE *f, uint64_t value)
{
    fputs("\x8a\x08", f);
    pickle_number(f, value, 8);
}

static void pickle_sizes(FILE *f, const struct pth_save_row *r, bool steps)
{
    fputc('(', f);
    for (int i = 0; i < r->ndim; i++) {
        uint64_t n = steps ? 1 : (uint64_t)r->dim[i];
        for (int k = i + 1; steps && k < r->ndim; k++)
            n *= (uint64_t)r->dim[k];
        pickle_int(f, n);
    }
    fputc('t', f);
}

/* _rebuild_tensor_v2(storage, offset, sizes, steps, requires_grad, hooks) */
static void pickle_tensor(FILE *f, const struct pth_save_row *r, int i)
{
    char key[16];
    snprintf(key, sizeof(key), "%d", i);
    pickle_text(f, r->name);
    fputs("ctorch._utils\n_rebuild_tensor_v2\n((", f);
    pickle_text(f, "storage");
    fputs("ctorch\nFloatStorage\n", f);
    pickle_text(f, key);
    pickle_text(f, "cpu");
    pickle_int(f, r->count);
    fputs("tQK", f);
    fputc(0, f);
    pickle_sizes(f, r, false);
    pickle_sizes(f, r, true);
    fputs("\x89" "ccollections\nOrderedDict\n)RtR", f);
}

static char *pickle(size_t *size, const struct pth_save_row *rows, int n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    if (!f)
        return NULL;
    fputs("\x80\x02}", f);
    pickle_text(f, "state_dict");
    fputs("}(", f);
    for (int i = 0; i < n; i++)
        pickle_tensor(f, &rows[i], i);
    fputs("us.", f);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* ERR_SYSTEM: it cannot be written; the caller syncs. */
static int pth_save(int fd, const struct pth_save_row *rows, int n, struct err *err)
{
    char name[32];
    size_t size = 0;
    struct archive a = {.fd = fd, .record = calloc((size_t)n + 4, sizeof(*a.record))};
    char *object = pickle(&size, rows, n);
    int rc = a.record && object ? 0 : err_set(err, ERR_MEMORY, "no memory to write %d tensors", n);
    if (rc == 0) {
        add(&a, "data.pkl", object, size);
        add(&a, "byteorder", "little", 6);
        for (int i = 0; i < n; i++) {
            snprintf(name, sizeof(name), "data/%d", i);
            add(&a, name, rows[i].data, rows[i].count * sizeof(float));
        }
        add(&a, "version", "3\n", 2);
        finish(&a);
        if (a.failed)
            rc = err_set_errno(err, errno, "cannot write a .pth file");
    }
    free(object);
    free(a.record);
    return rc;
}

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
        return err_set(err, ERR_USAGE, "the authors' programs have no adapters: add --merged, or use --format "
                       "diffusers");
    if (a->format == EXPORT_DIFFUSERS && a->cfg->family != MODEL_SANA)
        return err_set(err, ERR_USAGE, "--format diffusers writes Sana only; use authors or safetensors for "
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
