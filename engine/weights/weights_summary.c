/* SPDX-License-Identifier: Apache-2.0 */
/* weights_summary.c - see weights_summary.h */
#include "engine/weights/weights_summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_source.h"

/* The released models, by their sizes. */
static const struct {
    bool        sana;
    int         depth, hidden;
    bool        norms; /* of queries and keys, in both attentions */
    const char *model, *preset;
} released[] = {
    {true, 28, 1152, false, "Sana 0.6B", "sana-600m"},
    {true, 20, 2240, false, "Sana 1.6B", "sana-1600m"},
    {true, 20, 2240, true, "Sana-1.5 1.6B", "sana-1600m"},
    {true, 60, 2240, true, "Sana-1.5 4.8B", "sana-4800m"},
    {false, 24, 2304, false, "Lumina-Next 2B", NULL}, /* lumina-2b or lumina-2b-gqa */
};

static void note_size(struct weights_summary *s, const char *name, const struct tensor_view *v)
{
    const bool block = strncmp(name, "blocks.", 7) == 0 || strncmp(name, "layers.", 7) == 0;
    if (block && atoi(name + 7) >= s->depth)
        s->depth = atoi(name + 7) + 1;
    if (strcmp(name, "x_embedder.proj.bias") == 0 || strcmp(name, "x_embedder.bias") == 0)
        s->hidden = v->ndim ? (int)v->dim[0] : 0;
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

static void find_model(struct weights_summary *s)
{
    const bool sana = s->naming == WEIGHTS_SANA || s->naming == WEIGHTS_SANA_DIFFUSERS;
    for (size_t i = 0; i < sizeof(released) / sizeof(*released); i++)
        if (released[i].sana == sana && released[i].depth == s->depth && released[i].hidden == s->hidden &&
            (!sana || released[i].norms == s->qk_norm)) {
            s->model = released[i].model;
            s->preset = released[i].preset;
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
