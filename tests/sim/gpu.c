/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - see world.h: the GPUs of a job, one for each rank, of which one may be broken */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

int gpu_number(const char *uuid)
{
    return strncmp(uuid, "GPU-", 4) == 0 ? atoi(uuid + 4) : -1;
}

void gpu_assign(struct world *w, int job, struct agent *a, json_t **plan, json_t **facts)
{
    const struct truth *t = &w->truth[job];
    const unsigned all = (1U << t->np) - 1;
    const unsigned out = (a->excluded & all) == all ? 0 : a->excluded;
    json_t *ranks = json_array(), *gpus = json_array(), *excluded = json_object();
    char uuid[16], pci[32];
    a->np = 0;
    for (int g = 0; g < t->np; g++) {
        snprintf(uuid, sizeof(uuid), "GPU-%d", g);
        snprintf(pci, sizeof(pci), "0000:%02x:00.0", g + 1);
        if (a->excluded & (1U << g))
            json_object_set_new(excluded, uuid, json_string("it failed"));
        json_array_append_new(gpus, json_pack("{s:s, s:s}", "uuid", uuid, "pci", pci));
        if (t->gpus && (out & (1U << g)))
            continue;
        a->gpu[a->np++] = t->gpus ? g : -1;
        json_array_append_new(ranks, t->gpus ? json_pack("{s:s}", "gpu", uuid)
                                             : json_pack("{s:n}", "gpu"));
    }
    *plan = json_pack("{s:o}", "ranks", ranks);
    *facts = json_pack("{s:o, s:o}", "gpus", gpus, "excluded", excluded);
}

int gpu_fails(struct world *w, int job, const struct agent *a)
{
    const int bad = w->truth[job].bad_gpu;
    for (int r = 0; r < a->np; r++)
        if (bad >= 0 && a->gpu[r] == bad && fault(w, 15, HARM_GPU))
            return r;
    return -1;
}
