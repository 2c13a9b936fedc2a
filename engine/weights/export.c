/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - see export.h */
#include "engine/weights/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/contract/err.h"
#include "engine/contract/scratch.h"
#include "engine/data/safetensors.h"
#include "engine/model/layout.h"
#include "engine/weights/adapter.h"
#include "engine/weights/export_internal.h"
#include "engine/weights/pth_save.h"
#include "engine/weights/weights_names.h"

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
