/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_config.c - ranks and alphas of an adapter file, and its metadata; see adapter.h */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/contract/field.h"
#include "engine/contract/json_make.h"
#include "engine/contract/lora_config.h"
#include "engine/data/safetensors.h"
#include "engine/weights/adapter_internal.h"

/* --- reading ------------------------------------------------------------------------------- */

static const json_t *note(const struct adapter *a, const char *key)
{
    char full[96];
    snprintf(full, sizeof(full), "%s%s", a->prefix, key);
    return json_object_get(a->notes, full);
}

/* Whether a key of a pattern, the end of a layer's name, is of this layer. */
static bool is_of(const char *key, int block, enum lora_module module)
{
    char name[96];
    snprintf(name, sizeof(name), "transformer_blocks.%d.%s", block, lora_config_name(module));
    const size_t n = strlen(name), k = strlen(key);
    return k > 0 && k <= n && strcmp(name + n - k, key) == 0 && (k == n || name[n - k - 1] == '.');
}

/* The first key of alpha_pattern that fits, then lora_alpha, then the tensor. NAN: none. */
static double alpha_of(const struct adapter *a, int block, enum lora_module module)
{
    const char *key;
    json_t *value;
    float own;
    const struct st_tensor *t = a->layer[block * LORA_MODULES + (int)module].alpha;
    json_object_foreach((json_t *)(uintptr_t)note(a, "alpha_pattern"), key, value)
        if (json_is_number(value) && is_of(key, block, module))
            return json_number_value(value);
    if (json_is_number(note(a, "lora_alpha")))
        return json_number_value(note(a, "lora_alpha"));
    return t && t->count == 1 && st_to_float(&own, t, 1, NULL) == 0 ? (double)own : NAN;
}

static void fill_layer(struct adapter *a, int block, enum lora_module module)
{
    struct adapter_layer *l = &a->layer[block * LORA_MODULES + (int)module];
    const double alpha = alpha_of(a, block, module);
    if (l->rank == 0)
        return;
    a->has_alpha |= isfinite(alpha);
    l->scale_alpha = isfinite(alpha) ? alpha : l->rank;
}

static bool same_layer(const struct adapter_layer *l, int rank, double alpha)
{
    return l->rank == rank && (rank == 0 || (l->scale_alpha >= alpha && l->scale_alpha <= alpha));
}

/* Rank and alpha that most layers with an adapter have. */
static void choose_usual(struct adapter *a)
{
    int best = 0;
    const int n = a->depth * LORA_MODULES;
    for (int i = 0; i < n; i++) {
        int same = 0;
        for (int k = i; a->layer[i].rank > 0 && k < n; k++)
            same += same_layer(&a->layer[k], a->layer[i].rank, a->layer[i].scale_alpha);
        if (same > best) {
            best = same;
            a->config.rank = a->layer[i].rank;
            a->config.alpha = a->layer[i].scale_alpha;
        }
    }
}

static int except(struct adapter *a, int block, enum lora_module module, const struct adapter_layer *l, struct err *err)
{
    if (a->config.exceptions == LORA_EXCEPTIONS)
        return err_set(err, ERR_DATA, "%s: more than %d layers differ in rank or alpha from the others", a->path,
                       LORA_EXCEPTIONS);
    a->config.exception[a->config.exceptions++] = (struct lora_exception){block, module, l->rank, l->scale_alpha};
    return 0;
}

/* Of one kind of layer: as usual, another in all blocks, or others in some. */
static int configure_module(struct adapter *a, enum lora_module module, struct err *err)
{
    const struct adapter_layer *l = &a->layer[module];
    struct lora_config *c = &a->config;
    bool any = false, same = true;
    for (int b = 0; b < a->depth; b++) {
        any |= l[b * LORA_MODULES].rank > 0;
        same &= same_layer(&l[b * LORA_MODULES], l->rank, l->scale_alpha);
    }
    if (!any)
        return 0;
    c->targets |= 1u << module;
    if (same)
        return same_layer(l, c->rank, c->alpha) ? 0 : except(a, -1, module, l, err);
    for (int b = 0; b < a->depth; b++)
        if (!same_layer(&l[b * LORA_MODULES], c->rank, c->alpha) &&
            except(a, b, module, &l[b * LORA_MODULES], err) < 0)
            return -1;
    return 0;
}

int adapter_configure(struct adapter *a, struct err *err)
{
    if (json_is_true(note(a, "use_dora")))
        return err_set(err, ERR_DATA, "%s: it is of DoRA (use_dora), which is not supported", a->path);
    a->config.rslora = json_is_true(note(a, "use_rslora"));
    for (int b = 0; b < a->depth; b++)
        for (int m = 0; m < LORA_MODULES; m++)
            fill_layer(a, b, (enum lora_module)m);
    choose_usual(a);
    for (int m = 0; m < LORA_MODULES; m++)
        if (configure_module(a, (enum lora_module)m, err) < 0)
            return -1;
    return 0;
}

/* --- writing ------------------------------------------------------------------------------- */

/* A whole number without a point, as diffusers writes it. */
static json_t *number(double x)
{
    return floor(x) >= x && fabs(x) < 1e15 ? json_integer((json_int_t)x) : json_real(x);
}

/* Layers that differ from the rest, by their full names. */
static void patterns(const struct lora_config *c, int depth, json_t *ranks, json_t *alphas)
{
    char name[96];
    for (int b = 0; b < depth; b++)
        for (int m = 0; m < LORA_MODULES; m++) {
            const int rank = lora_config_rank(c, b, (enum lora_module)m);
            const double alpha = lora_config_alpha(c, b, (enum lora_module)m);
            snprintf(name, sizeof(name), "transformer_blocks.%d.%s", b, lora_config_name((enum lora_module)m));
            if (rank > 0 && rank != c->rank)
                json_object_set_new(ranks, name, json_integer(rank));
            if (rank > 0 && (alpha < c->alpha || alpha > c->alpha))
                json_object_set_new(alphas, name, number(alpha));
        }
}

static json_t *targets(const struct lora_config *c)
{
    json_t *list = json_array();
    for (int m = 0; m < LORA_MODULES; m++)
        if (c->targets & 1u << m)
            json_array_append_new(list, json_text(lora_config_name((enum lora_module)m)));
    return list;
}

char *adapter_notes(const struct lora_config *c, int depth, struct err *err)
{
    json_t *ranks = json_object(), *alphas = json_object();
    patterns(c, depth, ranks, alphas);
    json_t *o = json_make("{s:o, s:s, s:n, s:b, s:b, s:s, s:n, s:n, s:o, s:b, s:f, s:n, s:s, s:i, s:o, s:o, s:n, s:b, "
                          "s:b}",
                          "transformer.alpha_pattern", alphas, "transformer.bias", "none",
                          "transformer.exclude_modules", "transformer.fan_in_fan_out", 0,
                          "transformer.inference_mode", 0, "transformer.init_lora_weights", "gaussian",
                          "transformer.layers_pattern", "transformer.layers_to_transform", "transformer.lora_alpha",
                          number(c->alpha), "transformer.lora_bias", 0, "transformer.lora_dropout", 0.0,
                          "transformer.modules_to_save", "transformer.peft_type", "LORA", "transformer.r", c->rank,
                          "transformer.rank_pattern", ranks, "transformer.target_modules", targets(c),
                          "transformer.task_type", "transformer.use_dora", 0, "transformer.use_rslora", c->rslora);
    char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(o);
    if (!text)
        err_set(err, ERR_MEMORY, "no memory for the description of adapters");
    return text;
}
