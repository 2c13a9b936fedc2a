/* SPDX-License-Identifier: Apache-2.0 */
/* recipe.c - see recipe.h */
#include "controller/spec/recipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "controller/base/yaml.h"
#include "controller/spec/recipe_rows.h"
#include "controller/spec/spec_rows.h"
#include "controller/spec/spec_set.h"
#include "engine/base/err.h"
#include "engine/base/text_append.h"

#define BASE_BATCH 256.0 /* of their learning rates */

struct recipe {
    struct yaml_doc  *doc;
    struct yaml_node *root;    /* of the job */
    struct yaml_node *theirs;  /* of their file */
    const char       *name;
    struct err       *err;
};

static int refuse(const struct recipe *r, const struct yaml_node *n, const char *path, const char *why)
{
    return err_set(r->err, ERR_USAGE, "train.config: %s:%d: %s: %s", r->name, n->key_at.line, path, why);
}

/* --- the job's tree ------------------------------------------------------------------------ */

static bool has(const struct recipe *r, const char *path)
{
    char part[SPEC_PATH];
    const struct yaml_node *at = yaml_get(r->root, "train");
    for (const char *p = path; at && *p; p += strcspn(p, "."), p += *p == '.') {
        snprintf(part, sizeof(part), "%.*s", (int)strcspn(p, "."), p);
        at = at->kind == YAML_MAP ? yaml_get(at, part) : NULL;
    }
    return at != NULL;
}

/* Unless the job's own file has the key. */
static int put(const struct recipe *r, const char *path, const char *value)
{
    char assignment[SPEC_PATH + 1100], origin[200];
    if (has(r, path))
        return 0;
    snprintf(assignment, sizeof(assignment), "train.%s=%s", path, value);
    snprintf(origin, sizeof(origin), "train.config (%.100s)", r->name);
    return spec_set_as(r->doc, r->root, assignment, origin, r->err);
}

static int put_number(const struct recipe *r, const char *path, double value)
{
    char text[40];
    snprintf(text, sizeof(text), "%.17g", value);
    return put(r, path, text);
}

/* --- their tree ---------------------------------------------------------------------------- */

/* A scalar, "" for nothing, or a list as "[a, b]". */
static void text_of(char *text, size_t size, const struct yaml_node *n)
{
    text[0] = '\0';
    if (n->kind == YAML_SCALAR) {
        text_append(text, size, "%s", yaml_is_null(n) ? "" : n->text);
        return;
    }
    text_append(text, size, "[");
    for (const struct yaml_node *i = n->first; i; i = i->next)
        text_append(text, size, "%s%s", i == n->first ? "" : ", ",
                    i->kind == YAML_SCALAR && !yaml_is_null(i) ? i->text : "");
    text_append(text, size, "]");
}

static const struct yaml_node *their(const struct recipe *r, const char *path)
{
    char part[SPEC_PATH];
    const struct yaml_node *at = r->theirs;
    for (const char *p = path; at && *p; p += strcspn(p, "."), p += *p == '.') {
        snprintf(part, sizeof(part), "%.*s", (int)strcspn(p, "."), p);
        at = at->kind == YAML_MAP ? yaml_get(at, part) : NULL;
    }
    return at;
}

static double their_number(const struct recipe *r, const char *path, double otherwise)
{
    char *end;
    const struct yaml_node *n = their(r, path);
    const double x = n && n->kind == YAML_SCALAR && !yaml_is_null(n) ? strtod(n->text, &end) : NAN;
    return isfinite(x) && end != n->text && !*end ? x : otherwise;
}

/* --- keys that are translated --------------------------------------------------------------- */

static double batch_of(const struct recipe *r)
{
    const struct yaml_node *train = yaml_get(r->root, "train"), *batch = yaml_get(train, "batch");
    const struct yaml_node *all = batch && batch->kind == YAML_MAP ? yaml_get(batch, "global") : NULL;
    const double own = all && all->kind == YAML_SCALAR ? strtod(all->text, NULL) : 0;
    return own > 0 ? own
                   : their_number(r, "train.train_batch_size", 32) *
                         their_number(r, "train.gradient_accumulation_steps", 1);
}

static int make_rate(const struct recipe *r, const struct yaml_node *n, const char *path)
{
    const double lr = their_number(r, path, 0);
    if (!(lr > 0))
        return refuse(r, n, path, "expected a number above 0");
    return put_number(r, "optimizer.lr", lr * sqrt(batch_of(r) / BASE_BATCH));
}

/* One number of AdamW, two of CAME. */
static int make_eps(const struct recipe *r, const struct yaml_node *n, const char *path)
{
    if (n->kind == YAML_SCALAR)
        return put(r, "optimizer.eps", n->text);
    if (n->kind != YAML_LIST || n->count != 2 || n->first->kind != YAML_SCALAR || n->last->kind != YAML_SCALAR)
        return refuse(r, n, path, "expected a number, or two for CAMEWrapper");
    return put(r, "optimizer.eps", n->first->text) < 0 ? -1 : put(r, "optimizer.eps_2", n->last->text);
}

static int make_optimizer(const struct recipe *r, const struct yaml_node *n, const char *path, const char *text)
{
    const char *ours = recipe_optimizer(text);
    if (!ours)
        return refuse(r, n, path, strstr(text, "8Bit") ? "8-bit state is not supported; CAMEWrapper computes the "
                                                         "same with 32" : "supported are CAMEWrapper and AdamW");
    if (strcmp(ours, "adamw") == 0 && /* what their program takes where a file has none */
        ((!their(r, "train.optimizer.eps") && put(r, "optimizer.eps", "1.0e-10") < 0) ||
         (!their(r, "train.optimizer.weight_decay") && put(r, "optimizer.weight_decay", "0.03") < 0)))
        return -1;
    return put(r, "optimizer.type", ours);
}

static int make_model(const struct recipe *r, const struct yaml_node *n, const char *path, const char *text)
{
    const char *preset = recipe_preset(text);
    if (preset)
        return put(r, "model.preset", preset);
    return refuse(r, n, path, "supported are SanaMS_600M_P1_D28, SanaMS_1600M_P1_D20, SanaMS_2400M_P1_D30, "
                  "SanaMS_3200M_P1_D40 and SanaMS_4800M_P1_D60");
}

/* fp16 and bf16 are `auto`: bf16 where there is a GPU that has it. */
static int make_precision(const struct recipe *r, const struct yaml_node *n, const char *path, const char *text)
{
    if (strcmp(text, "fp32") == 0 || strcmp(text, "no") == 0)
        return put(r, "precision", "fp32");
    if (strcmp(text, "fp16") == 0 || strcmp(text, "bf16") == 0)
        return 0;
    return refuse(r, n, path, "supported are fp16, bf16 and fp32");
}

static int make_ema(const struct recipe *r)
{
    char text[16];
    const struct yaml_node *on = their(r, "train.ema_update");
    text_of(text, sizeof(text), on ? on : r->theirs);
    if (!on || strcasecmp(text, "true") != 0)
        return 0;
    return put_number(r, "ema", their_number(r, "train.ema_rate", 0.9999));
}

/* Features have their rows and their instruction already; captions that the job encodes do not. */
static int make_text(const struct recipe *r, const struct yaml_node *n, const char *path, const char *text)
{
    const struct yaml_node *data = yaml_get(yaml_get(r->root, "train"), "data");
    const struct yaml_node *encoders = data && data->kind == YAML_MAP ? yaml_get(data, "encoders") : NULL;
    if (!encoders || encoders->kind != YAML_SCALAR || strcmp(encoders->text, "sana") != 0)
        return 0;
    if (strcmp(path, "text_encoder.model_max_length") == 0)
        return text[0] ? put(r, "data.text_rows", text) : 0;
    if (!text[0] || strcmp(text, "[]") == 0 || has(r, "data.instruction"))
        return 0;
    return refuse(r, n, path, "the instruction is read from a file: write these lines to one, without a line end after "
                  "the last, and name the file in train.data.instruction; null means no instruction");
}

static int make(const struct recipe *r, const struct yaml_node *n, const char *path, const char *text)
{
    const char *key = strchr(path, '.') + 1;
    if (strncmp(path, "text_encoder.", 13) == 0)
        return make_text(r, n, path, text);
    if (strcmp(path, "model.model") == 0)
        return make_model(r, n, path, text);
    if (strcmp(key, "mixed_precision") == 0)
        return make_precision(r, n, path, text);
    if (strcmp(key, "load_from") == 0)
        return text[0] ? put(r, "model.weights", text) : 0;
    if (strcmp(key, "optimizer.type") == 0)
        return make_optimizer(r, n, path, text);
    if (strcmp(key, "optimizer.lr") == 0)
        return make_rate(r, n, path);
    if (strcmp(key, "optimizer.eps") == 0)
        return make_eps(r, n, path);
    if (strcmp(key, "use_fsdp") == 0)
        return strcasecmp(text, "true") == 0 ? put(r, "parallel", "fsdp") : 0;
    if (strncmp(key, "ema_", 4) == 0)
        return make_ema(r);
    return put_number(r, "batch.global", batch_of(r)); /* train_batch_size, gradient_accumulation_steps */
}

/* --- every key ------------------------------------------------------------------------------ */

static bool is_one_of(const char *values, const char *text)
{
    const size_t n = strlen(text);
    for (const char *p = values; p; p = strchr(p, '|')) {
        p += *p == '|';
        if (strcspn(p, "|") == n && strncasecmp(p, text, n) == 0)
            return true;
    }
    return n == 0 && values[0] == '|';
}

static int must(const struct recipe *r, const struct yaml_node *n, const char *path, const char *values,
                const char *text)
{
    char why[300];
    const char *what = recipe_meaning(path);
    if (is_one_of(values, text))
        return 0;
    snprintf(why, sizeof(why), "\"%.60s\" is not supported%s%s; the engine computes: %s", text,
             what ? ": it would be " : "", what ? what : "", values + (values[0] == '|'));
    return refuse(r, n, path, why);
}

static int apply(const struct recipe *r, const struct yaml_node *n, const char *path, const struct recipe_row *row)
{
    char text[1024];
    text_of(text, sizeof(text), n);
    switch (row->fate) {
    case RECIPE_TAKE:
        return text[0] ? put(r, row->ours, text) : 0;
    case RECIPE_MUST:
        return must(r, n, path, row->ours, text);
    case RECIPE_MAKE:
        return make(r, n, path, text);
    case RECIPE_NOTHING:
        break;
    }
    return 0;
}

static int each(const struct recipe *r, const struct yaml_node *map, const char *prefix)
{
    for (const struct yaml_node *n = map->first; n; n = n->next) {
        char path[SPEC_PATH];
        snprintf(path, sizeof(path), "%s%s%.60s", prefix, *prefix ? "." : "", n->key);
        const struct recipe_row *row = recipe_row_find(path);
        const int rc = row                   ? apply(r, n, path, row)
                       : n->kind == YAML_MAP ? each(r, n, path)
                                             : refuse(r, n, path, "jobctl does not know this key of NVlabs/Sana; "
                                                      "remove it if it changes nothing");
        if (rc < 0)
            return -1;
    }
    return 0;
}

int recipe_apply(struct yaml_doc *doc, struct yaml_node *root, const char *text, const char *name, struct err *err)
{
    struct yaml_doc *own;
    struct yaml_mark at = {0, 0};
    if (yaml_parse(&own, text, &at, err) < 0)
        return err_prefix(err, "train.config: %s:%d: ", name, at.line);
    const struct recipe r = {doc, root, yaml_root(own), name, err};
    const int rc = r.theirs && r.theirs->kind == YAML_MAP
                       ? each(&r, r.theirs, "")
                       : err_set(err, ERR_USAGE, "train.config: %s is not a map of keys", name);
    yaml_destroy(own);
    return rc;
}
