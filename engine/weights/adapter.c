/* SPDX-License-Identifier: Apache-2.0 */
/* adapter.c - the tensors of an adapter file; see adapter.h */
#include "engine/weights/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/lora_config.h"
#include "engine/data/safetensors.h"
#include "engine/model/layout.h"
#include "engine/weights/adapter_internal.h"

#define PEFT_FILE  "adapter_model.safetensors"
#define PEFT_NOTES "adapter_config.json"
#define META       "lora_adapter_metadata"

/* --- names --------------------------------------------------------------------------------- */

enum part { PART_A, PART_B, PART_ALPHA };

static const struct {
    const char *end;
    enum part   part;
} ends[] = {
    {".lora_A.weight", PART_A},          {".lora_B.weight", PART_B},
    {".lora_A.default.weight", PART_A},  {".lora_B.default.weight", PART_B},
    {".lora.down.weight", PART_A},       {".lora.up.weight", PART_B},
    {".lora_down.weight", PART_A},       {".lora_up.weight", PART_B},
    {".alpha", PART_ALPHA},
};

static const char *const prefixes[] = {"transformer.", "base_model.model.transformer.", "base_model.model."};

struct place {
    int              block;
    enum lora_module module;
    enum part        part;
};

static const char *without_prefix(const char *name)
{
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return name + strlen(prefixes[i]);
    return name;
}

/* false: no adapter of a layer of Sana. */
static bool find_place(struct place *p, const char *full)
{
    int at = 0;
    char layer[ST_NAME];
    const char *name = without_prefix(full);
    if (sscanf(name, "transformer_blocks.%d.%n", &p->block, &at) != 1 || at == 0 || p->block < 0)
        return false;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        const size_t all = strlen(name), end = strlen(ends[i].end);
        if (all < end + (size_t)at || strcmp(name + all - end, ends[i].end) != 0)
            continue;
        snprintf(layer, sizeof(layer), "%.*s", (int)(all - end) - at, name + at);
        p->part = ends[i].part;
        p->module = lora_config_module(layer);
        return p->module < LORA_MODULES;
    }
    return false;
}

static int refuse_name(const struct adapter *a, const char *name, struct err *err)
{
    char list[400];
    lora_config_list(list, sizeof(list));
    if (strstr(name, "lora_magnitude_vector"))
        return err_set(err, ERR_DATA, "%s: %s is of DoRA, which is not supported", a->path, name);
    return err_set(err, ERR_DATA, "%s: %s is not a low-rank adapter of a supported layer: %s of transformer_blocks.N",
                   a->path, name, list);
}

static int take(struct adapter *a, const struct st_tensor *t, struct err *err)
{
    struct place p;
    if (!find_place(&p, t->name))
        return refuse_name(a, t->name, err);
    if (p.block >= a->depth)
        return err_set(err, ERR_USAGE, "%s: %s is of block %d, but the model has %d", a->path, t->name, p.block,
                       a->depth);
    struct adapter_layer *l = &a->layer[p.block * LORA_MODULES + (int)p.module];
    const struct st_tensor **to = p.part == PART_A ? &l->a : p.part == PART_B ? &l->b : &l->alpha;
    if (*to)
        return err_set(err, ERR_DATA, "%s: %s and %s are the same tensor", a->path, (*to)->name, t->name);
    *to = t;
    return 0;
}

/* A is [r, in], B [out, r]; both may end with dimensions of 1. */
static int pair(struct adapter *a, struct adapter_layer *l, struct err *err)
{
    const struct st_tensor *A = l->a, *B = l->b;
    if (!A && !B && !l->alpha)
        return 0;
    if (!A || !B)
        return err_set(err, ERR_DATA, "%s: %s has no counterpart (lora_A and lora_B come in pairs)",
                       a->path, (A ? A : B ? B : l->alpha)->name);
    if (A->ndim < 2 || B->ndim < 2 || A->dim[0] != B->dim[1] || A->dim[0] > 1 << 16)
        return err_set(err, ERR_DATA, "%s: %s and %s do not have shapes [r, in] and [out, r]", a->path, A->name,
                       B->name);
    l->rank = (int)A->dim[0];
    return 0;
}

static int sort_tensors(struct adapter *a, struct err *err)
{
    for (int i = 0; i < st_len(a->file); i++)
        if (take(a, st_at(a->file, i), err) < 0)
            return -1;
    for (int i = 0; i < a->depth * LORA_MODULES; i++)
        if (pair(a, &a->layer[i], err) < 0)
            return -1;
    return st_len(a->file) ? 0 : err_set(err, ERR_DATA, "%s: the file has no tensors", a->path);
}

/* --- opening ------------------------------------------------------------------------------- */

static bool is_there(char path[ADAPTER_PATH], const char *dir, const char *name)
{
    return snprintf(path, ADAPTER_PATH, "%s/%s", dir, name) < ADAPTER_PATH && access(path, F_OK) == 0;
}

static int find_file(struct adapter *a, const char *path, struct err *err)
{
    struct stat st;
    if (strlen(path) >= ADAPTER_PATH - 64)
        return err_set(err, ERR_USAGE, "%.80s...: the path is too long", path);
    if (stat(path, &st) < 0)
        return err_set(err, ERR_USAGE, "%s does not exist", path);
    if (!S_ISDIR(st.st_mode)) {
        snprintf(a->path, sizeof(a->path), "%s", path);
        return 0;
    }
    if (is_there(a->path, path, ADAPTER_FILE) || is_there(a->path, path, PEFT_FILE))
        return 0;
    return err_set(err, ERR_USAGE, "%s has neither " ADAPTER_FILE " nor " PEFT_FILE, path);
}

static int parse_notes(struct adapter *a, const char *text, struct err *err)
{
    json_error_t why;
    a->prefix = "transformer.";
    a->notes = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(a->notes))
        return err_set(err, ERR_DATA, "%s: " META " is not a JSON object: %s", a->path, why.text);
    return 0;
}

/* peft's, beside the file. */
static int read_notes_beside(struct adapter *a, struct err *err)
{
    json_error_t why;
    char path[ADAPTER_PATH];
    const char *slash = strrchr(a->path, '/');
    const int dir = slash ? (int)(slash - a->path) : 0;
    if (snprintf(path, sizeof(path), "%.*s%s" PEFT_NOTES, dir, a->path, slash ? "/" : "") >= ADAPTER_PATH ||
        access(path, F_OK) < 0 || strcmp(slash ? slash + 1 : a->path, PEFT_FILE) != 0)
        return 0;
    a->prefix = "";
    a->notes = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    return json_is_object(a->notes) ? 0 : err_set(err, ERR_DATA, "%s: not a JSON object: %s", path, why.text);
}

static int read_notes(struct adapter *a, struct err *err)
{
    const char *text = st_meta(a->file, META);
    return text ? parse_notes(a, text, err) : read_notes_beside(a, err);
}

int adapter_open(struct adapter **out, const char *path, int depth, struct err *err)
{
    struct adapter *a = calloc(1, sizeof(*a));
    struct adapter_layer *layers = calloc((size_t)depth * LORA_MODULES, sizeof(*layers));
    if (!a || !layers) {
        free(a);
        free(layers);
        return err_set(err, ERR_MEMORY, "no memory for the adapters of %d blocks", depth);
    }
    *a = (struct adapter){.depth = depth, .layer = layers, .prefix = ""};
    if (find_file(a, path, err) < 0 || st_open(&a->file, a->path, err) < 0 || read_notes(a, err) < 0 ||
        sort_tensors(a, err) < 0 || adapter_configure(a, err) < 0) {
        adapter_close(a);
        return -1;
    }
    *out = a;
    return 0;
}

void adapter_close(struct adapter *a)
{
    if (!a)
        return;
    json_decref(a->notes);
    st_close(a->file);
    free(a->layer);
    free(a);
}

const struct lora_config *adapter_config(const struct adapter *a)
{
    return &a->config;
}

bool adapter_has_alpha(const struct adapter *a)
{
    return a->has_alpha;
}

/* --- numbers ------------------------------------------------------------------------------- */

/* Shapes may differ in dimensions of 1. */
static bool same_shape(const struct tensor *t, const struct st_tensor *s)
{
    int d = 0;
    for (int i = 0; i < s->ndim; i++) {
        if (s->dim[i] == 1 && (d >= t->ndim || t->dim[d] != 1))
            continue;
        if (d >= t->ndim || t->dim[d++] != s->dim[i])
            return false;
    }
    for (; d < t->ndim; d++)
        if (t->dim[d] != 1)
            return false;
    return s->count == t->count;
}

int adapter_read(const struct adapter *a, const struct layout *l, float *weights, struct err *err)
{
    for (int i = 0; i < layout_len(l); i++) {
        struct place p;
        const struct tensor *t = layout_at(l, i);
        if (!find_place(&p, t->name))
            return err_set(err, ERR_BUG, "%s is not a tensor of an adapter", t->name);
        const struct adapter_layer *layer = &a->layer[p.block * LORA_MODULES + (int)p.module];
        const struct st_tensor *s = p.part == PART_A ? layer->a : layer->b;
        if (!s || !same_shape(t, s))
            return err_set(err, ERR_USAGE, "%s: %s is %s", a->path, t->name,
                           s ? "of another shape than the model's layer and rank need" : "missing");
        if (st_to_float(weights + t->offset, s, t->count, err) < 0)
            return -1;
    }
    return 0;
}

int adapter_write(int fd, const struct lora_config *c, int depth, const struct layout *l, const float *weights,
                  struct err *err)
{
    struct st_writer *w = NULL;
    int64_t bytes;
    char *notes = adapter_notes(c, depth, err);
    int rc = notes ? st_writer_create(&w, err) : -1;
    if (rc == 0 && (rc = st_writer_meta(w, "format", "pt", err)) == 0)
        rc = st_writer_meta(w, META, notes, err);
    for (int i = 0; rc == 0 && i < layout_len(l); i++) {
        const struct tensor *t = layout_at(l, i);
        rc = st_writer_add(w, t->name, ST_F32, t->ndim, t->dim, weights + t->offset, err);
    }
    if (rc == 0)
        rc = st_writer_write(w, fd, &bytes, err);
    st_writer_destroy(w);
    free(notes);
    return rc;
}
