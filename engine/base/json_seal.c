/* SPDX-License-Identifier: Apache-2.0 */
/* json_seal.c - see json_seal.h */
#include "engine/base/json_seal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

enum { SUM = 24 };

static int sum_of(char out[SUM], const json_t *object)
{
    json_t *bare = json_copy((json_t *)(uintptr_t)object);      /* shallow: the object is not changed */
    json_object_del(bare, "sum");
    char *text = bare ? json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (text)
        snprintf(out, SUM, "%016llx", (unsigned long long)digest_word(text, strlen(text), 0));
    free(text);
    json_decref(bare);
    return text ? 0 : -1;
}

int json_seal(json_t *object)
{
    char sum[SUM];
    return sum_of(sum, object) == 0 ? json_object_set_new(object, "sum", json_text(sum)) : -1;
}

bool json_seal_broken(const json_t *object)
{
    char sum[SUM];
    const char *have = field_text(object, "sum");
    return have[0] && (sum_of(sum, object) < 0 || strcmp(sum, have) != 0);
}
