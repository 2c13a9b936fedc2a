/* SPDX-License-Identifier: Apache-2.0 */
/* verify_names.c - kinds "names" and "names-table": diffusers' names as the authors', and the rows of each
 *
 * "map" has pairs of names, and "op" where rows are taken: "rows 64..127 of 192".  Where CASE.authors.safetensors and
 * CASE.diffusers.safetensors are next to the JSON, the rows must be the same bytes, and a model of either gives the
 * authors' output where that has one.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "tests/verify/verify_internal.h"
#include "engine/weights/pretrained.h"
#include "engine/weights/weights_names.h"

struct names_case {
    struct verify_result           *result;
    const struct verify_case_files *files;
    struct st_file                 *authors, *theirs; /* or NULL */
    enum weights_naming             naming, own;
};

static void tell(struct names_case *c, const char *name, bool same)
{
    const float ours = !same;
    const double want = 0;
    verify_compare(c->result, c->files, &(struct verify_row){name, VERIFY_EXACT, &ours, &want, 1, 0});
}

/* The rows that "op" names, against a place in the authors' tensor. */
static bool same_rows(const char *op, const struct weights_place *p)
{
    long first, last, all;
    if (!op || strcmp(op, "same") == 0)
        return p->parts == 1;
    if (sscanf(op, "rows %ld..%ld of %ld", &first, &last, &all) != 3 || all % p->parts != 0)
        return false;
    return first == all / p->parts * p->part && last == first + all / p->parts - 1;
}

static bool same_bytes(const struct names_case *c, const char *name, const struct weights_place *p)
{
    const struct st_tensor *t = st_find(c->theirs, name), *a = st_find(c->authors, p->name);
    if (!t || !a || a->dtype != t->dtype || a->bytes != t->bytes * (size_t)p->parts)
        return false;
    return memcmp((const char *)a->data + (size_t)p->part * t->bytes, t->data, t->bytes) == 0;
}

/* The same table in the other direction: the authors' tensor is saved under that name, with these rows. */
static bool is_written(const struct names_case *c, const char *theirs, const char *authors)
{
    struct weights_place place[WEIGHTS_NAMES_MOST], from;
    const int n = weights_names_split(place, c->naming, authors);
    for (int i = 0; i < n; i++)
        if (strcmp(place[i].name, theirs) == 0 && weights_names_map(&from, c->naming, theirs))
            return from.part == place[i].part && from.parts == place[i].parts;
    return false;
}

/* Names that another version has are read, but not written. */
static bool same_row(const struct names_case *c, const json_t *row, const char *theirs, const char *authors)
{
    struct weights_place p;
    const struct st_tensor *t = c->theirs ? st_find(c->theirs, theirs) : NULL;
    if (!weights_names_map(&p, c->naming, theirs) || strcmp(p.name, authors) != 0 ||
        !same_rows(json_string_value(json_object_get(row, "op")), &p) || (c->theirs && !t))
        return false;
    if (c->theirs && c->authors && !same_bytes(c, theirs, &p))
        return false;
    return weights_names_map(&p, c->own, authors) && strcmp(p.name, authors) == 0 && is_written(c, theirs, authors);
}

static int check_map(struct names_case *c, const json_t *map, struct err *err)
{
    size_t i;
    json_t *row;
    json_array_foreach(map, i, row) {
        const char *theirs = json_string_value(json_object_get(row, "diffusers"));
        const char *authors = json_string_value(json_object_get(row, "authors"));
        if (!theirs || !authors)
            return err_set(err, ERR_DATA, "map[%zu] has no \"diffusers\" and \"authors\"", i);
        tell(c, theirs, same_row(c, row, theirs, authors));
    }
    return i ? 0 : err_set(err, ERR_DATA, "there is nothing to check: no \"map\"");
}

/* What only the authors have may be missing. */
static void check_optional(struct names_case *c)
{
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(c->files->config, "authors_only"), i, name)
        if (json_is_string(name))
            tell(c, json_string_value(name), weights_names_optional(json_string_value(name)));
}

/* --- the output of a model of each file ---------------------------------------------------- */

struct forward {
    struct verify_case_files files; /* of which `golden` has inputs and output */
    struct model_config      cfg;
    struct model_limits      limits;
    float                   *x, *t, *y, *mask, *out;
    size_t                   numbers; /* of x and out */
};

static bool true_of(const json_t *config, const char *key)
{
    return json_is_true(json_object_get(config, key));
}

static int int_of(const json_t *config, const char *key)
{
    return (int)json_integer_value(json_object_get(config, key));
}

/* What these cases leave out is as in all released models. */
void verify_flat_config(struct model_config *c, const json_t *config, int channels)
{
    const int hidden = int_of(config, "hidden_size");
    *c = (struct model_config){
        .family = MODEL_SANA, .depth = int_of(config, "depth"), .hidden = hidden, .heads = int_of(config, "num_heads"),
        .patch = 1, .mlp_hidden = hidden * 5 / 2, .qk_norm = true_of(config, "qk_norm"),
        .cross_norm = true_of(config, "qk_norm"), .latent_channels = channels, .linear_head_dim = 32,
        .caption_channels = int_of(config, "caption_channels"), .caption_len = int_of(config, "model_max_length"),
        .y_norm = true, .y_norm_scale = 0.01f, .y_norm_eps = 1e-5f,
    };
}

static int read_inputs(struct forward *f, struct err *err)
{
    const struct model_limits *z = &f->limits;
    if (verify_limits(&f->limits, &f->files, "in.x_t", "in.y", &f->cfg, err) < 0)
        return -1;
    const size_t batch = (size_t)z->batch, text = batch * (size_t)z->text;
    f->numbers = batch * (size_t)f->cfg.latent_channels * (size_t)z->height * (size_t)z->width;
    if (!(f->x = verify_floats(&f->files, "in.x_t", f->numbers, err)) ||
        !(f->t = verify_floats(&f->files, "in.timestep", batch, err)) ||
        !(f->y = verify_floats(&f->files, "in.y", text * (size_t)f->cfg.caption_channels, err)) ||
        !(f->mask = verify_floats(&f->files, "in.mask", text, err)))
        return -1;
    f->out = calloc(f->numbers, sizeof(*f->out));
    return f->out ? 0 : err_set(err, ERR_MEMORY, "no memory for an output of %zu numbers", f->numbers);
}

static void load(struct model *m, const struct pretrained *p)
{
    const struct layout *l = model_layout(m);
    for (int i = 0; i < layout_len(l); i++)
        pretrained_read(p, i, 0, layout_at(l, i)->count, model_weights(m) + layout_at(l, i)->offset);
}

static int run(struct forward *f, const struct pretrained *p, struct err *err)
{
    struct model *m;
    const struct model_limits *z = &f->limits;
    const struct model_input in = {.batch = z->batch, .height = z->height, .width = z->width, .text = z->text,
                                   .x = f->x, .timestep = f->t, .y = f->y, .mask = f->mask};
    if (model_create(&m, &f->cfg, z, false, err) < 0)
        return -1;
    load(m, p);
    const int rc = model_push(m, err) < 0 ? -1 : model_forward_host(m, &in, f->out, err);
    model_destroy(m);
    return rc;
}

/* The authors' file has inputs and outputs too, which no model takes. */
static int check_file(struct names_case *c, struct forward *f, const char *suffix, struct err *err)
{
    char path[PATH_MAX];
    struct pretrained *p = NULL;
    snprintf(path, sizeof(path), "%.*s.%s", (int)(strlen(f->files.path) - strlen(".json")), f->files.path, suffix);
    int rc = pretrained_open(&p, path, err);
    if (rc == 0)
        rc = pretrained_match(p, &f->cfg, false, err);
    if (rc == 0)
        rc = run(f, p, err);
    if (rc == 0) {
        tell(c, suffix, pretrained_found(p)->missing == 0);
        rc = verify_check(c->result, &f->files, "out.model", VERIFY_OUTPUT, f->out, f->numbers, 0, err);
    }
    pretrained_close(p);
    return rc;
}

static int check_output(struct names_case *c, struct err *err)
{
    struct forward f = {.files = *c->files};
    const struct st_tensor *x = c->authors ? st_find(c->authors, "in.x_t") : NULL;
    if (!x || !c->theirs || !st_find(c->authors, "out.model") || x->ndim != 4)
        return 0;
    f.files.golden = c->authors;
    verify_flat_config(&f.cfg, json_object_get(c->files->config, "config"), (int)x->dim[1]);
    int rc = model_config_check(&f.cfg, err);
    if (rc == 0)
        rc = read_inputs(&f, err);
    if (rc == 0)
        rc = check_file(c, &f, "authors.safetensors", err);
    float *authors = f.out;
    f.out = rc == 0 ? calloc(f.numbers, sizeof(*f.out)) : NULL;
    if (rc == 0 && f.out && (rc = check_file(c, &f, "diffusers.safetensors", err)) == 0)
        tell(c, "output of both", memcmp(authors, f.out, f.numbers * sizeof(*f.out)) == 0);
    free(f.x);
    free(f.t);
    free(f.y);
    free(f.mask);
    free(f.out);
    free(authors);
    return rc;
}

/* The family, by the names: Lumina-Next's blocks are "layers". */
static void choose_naming(struct names_case *c, const json_t *map)
{
    size_t i;
    json_t *row;
    c->naming = WEIGHTS_SANA_DIFFUSERS;
    c->own = WEIGHTS_SANA;
    json_array_foreach(map, i, row) {
        const char *name = json_string_value(json_object_get(row, "diffusers"));
        if (name && strncmp(name, "layers.", 7) == 0) {
            c->naming = WEIGHTS_LUMINA_DIFFUSERS;
            c->own = WEIGHTS_LUMINA;
        }
    }
}

int verify_names(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    struct names_case c = {.result = result, .files = files};
    const json_t *map = json_object_get(files->config, "map");
    choose_naming(&c, map);
    int rc = verify_open_beside(&c.authors, files->path, "authors.safetensors", false, err);
    if (rc == 0)
        rc = verify_open_beside(&c.theirs, files->path, "diffusers.safetensors", false, err);
    if (rc == 0)
        rc = check_map(&c, map, err);
    if (rc == 0)
        check_optional(&c);
    if (rc == 0)
        rc = check_output(&c, err);
    st_close(c.authors);
    st_close(c.theirs);
    return rc;
}
