/* SPDX-License-Identifier: Apache-2.0 */
/* weights_summary.c - see weights_summary.h */
#include "engine/weights/weights_summary.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/train_config.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_source.h"

/* The released models, by their sizes. */
static const struct released {
    bool        sana;
    int         depth, hidden, heads;
    int         kv;    /* heads of keys; 0: of Sana */
    bool        norms; /* of queries and keys, in both attentions */
    const char *model, *preset;
} released[] = {
    {true, 28, 1152, 16, 0, false, "Sana 0.6B", "sana-600m"},
    {true, 20, 2240, 20, 0, false, "Sana 1.6B", "sana-1600m"},
    {true, 20, 2240, 20, 0, true, "Sana-1.5 1.6B", "sana-1.5-1600m"},
    {true, 60, 2240, 20, 0, true, "Sana-1.5 4.8B", "sana-1.5-4800m"},
    {false, 24, 2304, 32, 32, true, "Lumina-Next 2B", "lumina-2b"},
    {false, 24, 2304, 32, 8, true, "Lumina-Next 2B GQA", "lumina-2b-gqa"},
};

enum { RELEASED = sizeof(released) / sizeof(*released) };

static const struct released *find_released(const struct weights_summary *s)
{
    for (const struct released *r = released; r < released + RELEASED; r++)
        if (r->sana == weights_summary_is_sana(s) && r->depth == s->depth && r->hidden == s->hidden &&
            r->norms == s->qk_norm && (r->sana ? r->norms == s->cross_norm : r->hidden / r->heads * r->kv == s->kv))
            return r;
    return NULL;
}

static void find_model(struct weights_summary *s)
{
    const struct released *r = find_released(s);
    s->model = r ? r->model : NULL;
    s->preset = r ? r->preset : NULL;
}

static int dim_of(const struct tensor_view *v, int i)
{
    return v->ndim > i && v->dim[i] < INT32_MAX ? (int)v->dim[i] : 0;
}

static void note_size(struct weights_summary *s, const char *name, const struct tensor_view *v)
{
    const bool block = strncmp(name, "blocks.", 7) == 0 || strncmp(name, "layers.", 7) == 0;
    if (block && atoi(name + 7) >= s->depth)
        s->depth = atoi(name + 7) + 1;
    if (strcmp(name, "x_embedder.proj.bias") == 0 || strcmp(name, "x_embedder.bias") == 0)
        s->hidden = dim_of(v, 0);
    if (strcmp(name, "x_embedder.proj.weight") == 0 || strcmp(name, "x_embedder.weight") == 0)
        s->inputs = dim_of(v, 1);
    if (strcmp(name, "y_embedder.y_proj.fc1.weight") == 0 || strcmp(name, "cap_embedder.1.weight") == 0)
        s->captions = dim_of(v, 1);
    if (strcmp(name, "layers.0.attention.wk.weight") == 0)
        s->kv = dim_of(v, 0);
    s->qk_norm |= strstr(name, ".attn.q_norm.") != NULL || strstr(name, ".attention.q_norm.") != NULL;
    s->cross_norm |= strstr(name, ".cross_attn.q_norm.") != NULL;
}

/* diffusers writes Lumina-Next's queries twice. */
static bool is_copy(enum weights_naming naming, const char *name)
{
    return naming == WEIGHTS_LUMINA_DIFFUSERS && (strstr(name, ".attn2.to_q.") || strstr(name, ".attn2.norm_q."));
}

static void add_tensor(struct weights_summary *s, const struct tensor_view *v)
{
    struct weights_place place;
    if (s->naming < WEIGHTS_NAMINGS && weights_names_map(&place, s->naming, v->name)) {
        s->taken++;
        s->numbers += is_copy(s->naming, v->name) ? 0 : (int64_t)v->count;
        s->of_type[v->dtype]++;
        note_size(s, place.name, v);
    } else if (weights_names_optional(v->name)) {
        s->optional++;
    } else {
        s->dropped++;
    }
}

void weights_summary_make(struct weights_summary *s, const struct weights_source *w)
{
    *s = (struct weights_summary){.naming = weights_names_tell(w)};
    for (int i = 0; i < weights_source_len(w); i++)
        add_tensor(s, weights_source_at(w, i));
    if (s->naming < WEIGHTS_NAMINGS)
        find_model(s);
}

void weights_summary_of_config(struct weights_summary *s, const struct model_config *cfg)
{
    const bool sana = cfg->family == MODEL_SANA;
    *s = (struct weights_summary){.naming = sana ? WEIGHTS_SANA : WEIGHTS_LUMINA, .depth = cfg->depth,
                                  .hidden = cfg->hidden, .qk_norm = cfg->qk_norm,
                                  .cross_norm = sana && cfg->cross_norm, .captions = cfg->caption_channels};
    s->kv = sana ? 0 : cfg->hidden / cfg->heads * cfg->kv_heads;
    find_model(s);
}

bool weights_summary_is_sana(const struct weights_summary *s)
{
    return s->naming == WEIGHTS_SANA || s->naming == WEIGHTS_SANA_DIFFUSERS;
}

int weights_summary_heads(const struct weights_summary *s)
{
    const struct released *r = find_released(s);
    return r ? r->heads : 0;
}

void weights_summary_text(char text[WEIGHTS_SUMMARY_TEXT], const struct weights_summary *s)
{
    const char *family = weights_summary_is_sana(s) ? "Sana" : "Lumina-Next";
    snprintf(text, WEIGHTS_SUMMARY_TEXT, "%s (%s%sdepth %d, %d channels%s%s)", s->model ? s->model : family,
             s->preset ? s->preset : "", s->preset ? ": " : "", s->depth, s->hidden,
             s->qk_norm && !s->preset ? ", qk_norm" : "", s->cross_norm && !s->preset ? ", cross_norm" : "");
}
