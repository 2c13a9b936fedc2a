/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_numbers.c - see gpu_numbers.h */
#include "agent/probe/gpu_numbers.h"

#include <stdio.h>
#include <string.h>

#include "agent/os/sysroot.h"
#include "engine/base/field.h"

#define GPUS "/proc/driver/nvidia/gpus"

struct look {
    const json_t *ranks;
    int64_t       number;
    bool          hold;
};

/* The UUID of a lost GPU is unknown: CUDA may leave it out. */
static bool compare(void *arg, const char *name)
{
    struct look *l = arg;
    char path[160], uuid[96];
    size_t i;
    const json_t *rank;
    snprintf(path, sizeof(path), GPUS "/%.80s/information", name);
    const bool lost = strchr(sysroot_value(uuid, sizeof(uuid), path, "GPU UUID"), '?') != NULL;
    json_array_foreach(l->ranks, i, rank)
    {
        const int64_t planned = field_int(rank, "index", -1);
        if (planned >= 0 && (lost ? planned > l->number
                                  : planned != l->number && strcmp(field_text(rank, "gpu"), uuid) == 0))
            l->hold = false;
    }
    l->number++;
    return l->hold;
}

bool gpu_numbers_hold(const json_t *ranks)
{
    struct look l = {.ranks = ranks, .hold = true};
    sysroot_each(GPUS, compare, &l);
    return l.hold;
}
