/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_fallback.c - see nccl_fallback.h */
#include "agent/core/nccl_fallback.h"

#include <stdio.h>

#include "engine/base/field.h"

void nccl_fallback_init(struct nccl_fallback *r, const json_t *list, int used)
{
    const int n = (int)json_array_size(list);
    *r = (struct nccl_fallback){.list = n ? json_deep_copy(list) : NULL,
                                .used = used < 0 ? 0 : used < n ? used : n};
}

void nccl_fallback_fini(struct nccl_fallback *r)
{
    json_decref(r->list);
    *r = (struct nccl_fallback){0};
}

bool nccl_fallback_left(const struct nccl_fallback *r)
{
    return (size_t)r->used < json_array_size(r->list);
}

const char *nccl_fallback_next(struct nccl_fallback *r, char *words, size_t size)
{
    const json_t *row = json_array_get(r->list, (size_t)r->used++);
    snprintf(words, size, "%s=%s: %s (%s)", field_text(row, "name"), field_text(row, "value"), field_text(row, "why"),
             field_text(row, "fact"));
    return words;
}
