/* SPDX-License-Identifier: Apache-2.0 */
/* lora_config.c - see lora_config.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/contract/lora_config.h"

#include <math.h>
#include <string.h>

#include "engine/base/text_append.h"

static const char *const names[LORA_MODULES] = {
    [LORA_SELF_Q] = "attn1.to_q",   [LORA_SELF_K] = "attn1.to_k",   [LORA_SELF_V] = "attn1.to_v",
    [LORA_SELF_OUT] = "attn1.to_out.0",
    [LORA_CROSS_Q] = "attn2.to_q",  [LORA_CROSS_K] = "attn2.to_k",  [LORA_CROSS_V] = "attn2.to_v",
    [LORA_CROSS_OUT] = "attn2.to_out.0",
    [LORA_MLP_IN] = "ff.conv_inverted", [LORA_MLP_OUT] = "ff.conv_point",
};

const char *lora_config_name(enum lora_module module)
{
    return names[module];
}

enum lora_module lora_config_module(const char *name)
{
    int m = 0;
    while (m < LORA_MODULES && strcmp(names[m], name) != 0)
        m++;
    return (enum lora_module)m;
}

static bool ends_with(const char *name, const char *target)
{
    const size_t n = strlen(name), t = strlen(target);
    return t > 0 && n >= t && strcmp(name + n - t, target) == 0 && (n == t || name[n - t - 1] == '.');
}

unsigned lora_config_targets(const char *target)
{
    unsigned bits = 0;
    for (int m = 0; m < LORA_MODULES; m++)
        bits |= (unsigned)ends_with(names[m], target) << m;
    return bits;
}

unsigned lora_config_default(void)
{
    return lora_config_targets("to_q") | lora_config_targets("to_k") | lora_config_targets("to_v");
}

void lora_config_list(char *text, size_t room)
{
    text[0] = '\0';
    for (int m = 0; m < LORA_MODULES; m++)
        text_append(text, room, "%s%s", m ? ", " : "", names[m]);
}

static const struct lora_exception *exception_of(const struct lora_config *c, int block, enum lora_module module)
{
    for (int i = c->exceptions - 1; i >= 0; i--) {
        const struct lora_exception *e = &c->exception[i];
        if (e->module == module && (e->block < 0 || e->block == block))
            return e;
    }
    return NULL;
}

int lora_config_rank(const struct lora_config *c, int block, enum lora_module module)
{
    const struct lora_exception *e = exception_of(c, block, module);
    if (e)
        return e->rank;
    return c->targets & 1u << module ? c->rank : 0;
}

double lora_config_alpha(const struct lora_config *c, int block, enum lora_module module)
{
    const struct lora_exception *e = exception_of(c, block, module);
    return e ? e->alpha : c->alpha;
}

double lora_config_scale(const struct lora_config *c, int block, enum lora_module module)
{
    const int rank = lora_config_rank(c, block, module);
    const double alpha = lora_config_alpha(c, block, module);
    return rank == 0 ? 0 : alpha / (c->rslora ? sqrt(rank) : rank);
}
