/* SPDX-License-Identifier: Apache-2.0 */
/* vae_names.c - see vae_names.h */
#include "engine/vae/vae_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct pair {
    const char *authors, *diffusers; /* what a name begins with, up to ".weight" or ".bias" */
};

static const struct pair ends[] = {
    {"encoder.project_in.conv", "encoder.conv_in"},
    {"encoder.project_out.main.op_list.0.conv", "encoder.conv_out"},
    {"decoder.project_in.main.conv", "decoder.conv_in"},
    {"decoder.project_out.op_list.0", "decoder.norm_out"},
    {"decoder.project_out.op_list.2.conv", "decoder.conv_out"},
};

static const struct pair parts[] = {
    {"main.conv1.conv", "conv1"},
    {"main.conv2.conv", "conv2"},
    {"main.conv2.norm", "norm"},
    {"main.conv.conv", "conv"},
    {"main.conv", "conv"},
    {"context_module.main.qkv.conv", "attn.to_"},
    {"context_module.main.aggreg.0.0", "attn.to_qkv_multiscale.0.proj_in"},
    {"context_module.main.aggreg.0.1", "attn.to_qkv_multiscale.0.proj_out"},
    {"context_module.main.proj.conv", "attn.to_out"},
    {"context_module.main.proj.norm", "attn.norm_out"},
    {"local_module.main.inverted_conv.conv", "conv_out.conv_inverted"},
    {"local_module.main.depth_conv.conv", "conv_out.conv_depth"},
    {"local_module.main.point_conv.conv", "conv_out.conv_point"},
    {"local_module.main.point_conv.norm", "conv_out.norm"},
};

/* The row for a name without its last word. */
static const char *look_up(const struct pair *table, size_t n, const char *name, size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].authors) == length && strncmp(table[i].authors, name, length) == 0)
            return table[i].diffusers;
    return NULL;
}

static int write_names(char out[VAE_NAME_PARTS][VAE_NAME], const char *at, const char *part, const char *word)
{
    if (strcmp(part, "attn.to_") != 0)
        return snprintf(out[0], VAE_NAME, "%s%s%s", at, part, word) < VAE_NAME;
    for (int i = 0; i < VAE_NAME_PARTS; i++)
        snprintf(out[i], VAE_NAME, "%s%s%c%s", at, part, "qkv"[i], word);
    return VAE_NAME_PARTS;
}

int vae_names_diffusers(char out[VAE_NAME_PARTS][VAE_NAME], const char *authors)
{
    int stage, block, n = 0;
    char at[64];
    const char *word = strrchr(authors, '.');
    if (!word)
        return 0;
    const char *end = look_up(ends, sizeof(ends) / sizeof(*ends), authors, (size_t)(word - authors));
    if (end)
        return write_names(out, "", end, word);
    const bool up = authors[0] == 'd';
    if (sscanf(authors, up ? "decoder.stages.%d.op_list.%d.%n" : "encoder.stages.%d.op_list.%d.%n", &stage, &block,
               &n) < 2 || n == 0)
        return 0;
    const char *part = look_up(parts, sizeof(parts) / sizeof(*parts), authors + n, (size_t)(word - authors - n));
    snprintf(at, sizeof(at), "%s.%d.%d.", up ? "decoder.up_blocks" : "encoder.down_blocks", stage, block);
    return part ? write_names(out, at, part, word) : 0;
}
