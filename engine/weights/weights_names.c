/* SPDX-License-Identifier: Apache-2.0 */
/* weights_names.c - see weights_names.h */
#include "engine/weights/weights_names.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_source.h"

/* '#' is the number of a block; what follows a name that ends in '.' is the same in both: weight or bias. */
struct row {
    const char *authors, *diffusers;
    int         part, parts;
};

static const struct row sana[] = {
    {"x_embedder.proj.", "patch_embed.proj.", 0, 1},
    {"y_embedder.y_proj.fc1.", "caption_projection.linear_1.", 0, 1},
    {"y_embedder.y_proj.fc2.", "caption_projection.linear_2.", 0, 1},
    {"t_embedder.mlp.0.", "time_embed.emb.timestep_embedder.linear_1.", 0, 1},
    {"t_embedder.mlp.2.", "time_embed.emb.timestep_embedder.linear_2.", 0, 1},
    {"t_block.1.", "time_embed.linear.", 0, 1},
    {"attention_y_norm.", "caption_norm.", 0, 1},
    {"blocks.#.scale_shift_table", "transformer_blocks.#.scale_shift_table", 0, 1},
    {"blocks.#.attn.qkv.", "transformer_blocks.#.attn1.to_q.", 0, 3},
    {"blocks.#.attn.qkv.", "transformer_blocks.#.attn1.to_k.", 1, 3},
    {"blocks.#.attn.qkv.", "transformer_blocks.#.attn1.to_v.", 2, 3},
    {"blocks.#.attn.q_norm.", "transformer_blocks.#.attn1.norm_q.", 0, 1},
    {"blocks.#.attn.k_norm.", "transformer_blocks.#.attn1.norm_k.", 0, 1},
    {"blocks.#.attn.proj.", "transformer_blocks.#.attn1.to_out.0.", 0, 1},
    {"blocks.#.cross_attn.q_linear.", "transformer_blocks.#.attn2.to_q.", 0, 1},
    {"blocks.#.cross_attn.kv_linear.", "transformer_blocks.#.attn2.to_k.", 0, 2},
    {"blocks.#.cross_attn.kv_linear.", "transformer_blocks.#.attn2.to_v.", 1, 2},
    {"blocks.#.cross_attn.q_norm.", "transformer_blocks.#.attn2.norm_q.", 0, 1},
    {"blocks.#.cross_attn.k_norm.", "transformer_blocks.#.attn2.norm_k.", 0, 1},
    {"blocks.#.cross_attn.proj.", "transformer_blocks.#.attn2.to_out.0.", 0, 1},
    {"blocks.#.mlp.inverted_conv.conv.", "transformer_blocks.#.ff.conv_inverted.", 0, 1},
    {"blocks.#.mlp.depth_conv.conv.", "transformer_blocks.#.ff.conv_depth.", 0, 1},
    {"blocks.#.mlp.point_conv.conv.", "transformer_blocks.#.ff.conv_point.", 0, 1},
    {"final_layer.linear.", "proj_out.", 0, 1},
    {"final_layer.scale_shift_table", "scale_shift_table", 0, 1},
    {NULL, NULL, 0, 0},
};

static const struct row lumina[] = {
    {"pad_token", "pad_token", 0, 1},
    {"x_embedder.", "patch_embedder.proj.", 0, 1},
    {"t_embedder.mlp.0.", "time_caption_embed.timestep_embedder.linear_1.", 0, 1},
    {"t_embedder.mlp.2.", "time_caption_embed.timestep_embedder.linear_2.", 0, 1},
    {"cap_embedder.0.", "time_caption_embed.caption_embedder.0.", 0, 1},
    {"cap_embedder.1.", "time_caption_embed.caption_embedder.1.", 0, 1},
    {"layers.#.attention.gate", "layers.#.gate", 0, 1},
    {"layers.#.adaLN_modulation.1.", "layers.#.norm1.linear.", 0, 1},
    {"layers.#.attention.wq.", "layers.#.attn1.to_q.", 0, 1},
    {"layers.#.attention.wk.", "layers.#.attn1.to_k.", 0, 1},
    {"layers.#.attention.wv.", "layers.#.attn1.to_v.", 0, 1},
    {"layers.#.attention.wq.", "layers.#.attn2.to_q.", 0, 1},
    {"layers.#.attention.wk_y.", "layers.#.attn2.to_k.", 0, 1},
    {"layers.#.attention.wv_y.", "layers.#.attn2.to_v.", 0, 1},
    {"layers.#.attention.wo.", "layers.#.attn2.to_out.0.", 0, 1},
    {"layers.#.attention.q_norm.", "layers.#.attn1.norm_q.", 0, 1},
    {"layers.#.attention.k_norm.", "layers.#.attn1.norm_k.", 0, 1},
    {"layers.#.attention.q_norm.", "layers.#.attn2.norm_q.", 0, 1},
    {"layers.#.attention.ky_norm.", "layers.#.attn2.norm_k.", 0, 1},
    {"layers.#.attention_norm1.", "layers.#.norm1.norm.", 0, 1},
    {"layers.#.attention_norm2.", "layers.#.norm2.", 0, 1},
    {"layers.#.attention_y_norm.", "layers.#.norm1_context.", 0, 1},
    {"layers.#.feed_forward.w1.", "layers.#.feed_forward.linear_1.", 0, 1},
    {"layers.#.feed_forward.w2.", "layers.#.feed_forward.linear_2.", 0, 1},
    {"layers.#.feed_forward.w3.", "layers.#.feed_forward.linear_3.", 0, 1},
    {"layers.#.ffn_norm1.", "layers.#.ffn_norm1.", 0, 1},
    {"layers.#.ffn_norm2.", "layers.#.ffn_norm2.", 0, 1},
    {"final_layer.linear.", "norm_out.linear_2.", 0, 1},
    {"final_layer.adaLN_modulation.1.", "norm_out.linear_1.", 0, 1},
    {NULL, NULL, 0, 0},
};

static const char *const optional[] = {"pos_embed", "y_embedder.y_embedding", "lm_head.weight"};

static const struct row *rows_of(enum weights_naming n)
{
    return n == WEIGHTS_SANA || n == WEIGHTS_SANA_DIFFUSERS ? sana : lumina;
}

static bool is_authors(enum weights_naming n)
{
    return n == WEIGHTS_SANA || n == WEIGHTS_LUMINA;
}

/* What a name has beyond a pattern; `number` gets the block's digits. NULL: it is another name. */
static const char *match(const char *pattern, const char *name, char number[8])
{
    number[0] = '\0';
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*pattern != *name++)
                return NULL;
            continue;
        }
        size_t n = 0;
        while (isdigit((unsigned char)*name) && n < 6)
            number[n++] = *name++;
        number[n] = '\0';
        if (n == 0)
            return NULL;
    }
    return name;
}

/* A pattern that ends in '.' needs weight or bias, another one nothing. */
static bool is_rest(const char *pattern, const char *rest)
{
    if (pattern[strlen(pattern) - 1] != '.')
        return rest[0] == '\0';
    return strcmp(rest, "weight") == 0 || strcmp(rest, "bias") == 0;
}

static void expand(char out[WEIGHTS_NAME], const char *pattern, const char *number, const char *rest)
{
    const char *hash = strchr(pattern, '#');
    if (hash)
        snprintf(out, WEIGHTS_NAME, "%.*s%s%s%s", (int)(hash - pattern), pattern, number, hash + 1, rest);
    else
        snprintf(out, WEIGHTS_NAME, "%s%s", pattern, rest);
}

bool weights_names_map(struct weights_place *out, enum weights_naming naming, const char *name)
{
    for (const struct row *r = rows_of(naming); r->authors; r++) {
        char number[8];
        const char *pattern = is_authors(naming) ? r->authors : r->diffusers, *rest = match(pattern, name, number);
        if (!rest || !is_rest(pattern, rest))
            continue;
        expand(out->name, r->authors, number, rest);
        out->part = is_authors(naming) ? 0 : r->part;
        out->parts = is_authors(naming) ? 1 : r->parts;
        return true;
    }
    return false;
}

int weights_names_split(struct weights_place out[WEIGHTS_NAMES_MOST], enum weights_naming naming, const char *authors)
{
    int n = 0;
    for (const struct row *r = rows_of(naming); r->authors; r++) {
        char number[8];
        const char *rest = match(r->authors, authors, number);
        if (!rest || !is_rest(r->authors, rest) || (is_authors(naming) && n == 1))
            continue;
        expand(out[n].name, is_authors(naming) ? r->authors : r->diffusers, number, rest);
        out[n].part = is_authors(naming) ? 0 : r->part;
        out[n++].parts = is_authors(naming) ? 1 : r->parts;
    }
    return n;
}

bool weights_names_optional(const char *name)
{
    for (size_t i = 0; i < sizeof(optional) / sizeof(*optional); i++)
        if (strcmp(name, optional[i]) == 0)
            return true;
    return false;
}

enum weights_naming weights_names_tell(const struct weights_source *w)
{
    int best = 0;
    enum weights_naming is = WEIGHTS_NAMINGS;
    for (enum weights_naming n = WEIGHTS_SANA; n < WEIGHTS_NAMINGS; n++) {
        struct weights_place place;
        int known = 0;
        for (int i = 0; i < weights_source_len(w); i++)
            known += weights_names_map(&place, n, weights_source_at(w, i)->name);
        if (known > best) {
            best = known;
            is = n;
        }
    }
    return is;
}

const char *weights_names_text(enum weights_naming naming)
{
    static const char *const text[] = {"Sana, the authors' names", "Sana, diffusers' names",
                                       "Lumina-Next, the authors' names", "Lumina-Next, diffusers' names", "unknown"};
    return text[naming];
}
