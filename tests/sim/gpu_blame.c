/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_blame.c - see world.h: when a GPU may be left out, and that it is
 *
 * Written from agent/core/gpu_blame.h, not from its code.
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/world.h"

static const char *text_of(const json_t *body, const char *key)
{
    const char *text = json_string_value(json_object_get(body, key));
    return text ? text : "";
}

/* What a broken GPU looks like, and much else. */
static bool could_be_a_gpu(const char *cause, const json_t *body)
{
    if (strcmp(cause, "rank_crash") == 0)
        return json_is_integer(json_object_get(body, "signal")) &&
               json_integer_value(json_object_get(body, "signal")) != 9;
    return strcmp(cause, "hang_step") == 0 || strcmp(cause, "hang_init") == 0 ||
           strcmp(cause, "nccl_error") == 0;
}

void suspicion_failed(struct agent *a, const json_t *body)
{
    struct patience_rule *r = &a->rule;
    const json_t *rank = json_object_get(body, "rank");
    const int who = json_is_integer(rank) ? (int)json_integer_value(rank) : -1;
    snprintf(r->cause, sizeof(r->cause), "%s", text_of(body, "cause"));
    if (who < 0 || json_integer_value(json_object_get(body, "gained")) > 0 ||
        !could_be_a_gpu(r->cause, body))
        r->times = 0;
    else
        r->times = r->times && r->rank == who ? r->times + 1 : 1;
    r->rank = who;
}

void suspicion_excluded(struct world *w, int job, int attempt, const json_t *body)
{
    const struct agent *a = &w->agents[job][attempt];
    const struct patience_rule *r = &a->rule;
    const int gpu = gpu_number(text_of(body, "gpu"));
    const bool proof = strcmp(r->cause, "gpu_fault") == 0;
    if (r->rank < 0 || r->rank >= a->np || gpu < 0 || a->gpu[r->rank] != gpu)
        broke(w, "agent %d.%d leaves GPU %d out, and rank %d was to blame", job, attempt, gpu, r->rank);
    if (!proof && (a->excluded || a->np < 2 || r->times < 2))
        broke(w, "agent %d.%d leaves GPU %d out on the suspicion of %d failures (%s)", job, attempt,
              gpu, r->times, r->cause);
}

/* Nobody starts on a GPU that was left out, unless there is no other. */
void suspicion_spawn(struct world *w, int job, int attempt)
{
    const struct agent *a = &w->agents[job][attempt];
    const unsigned all = (1U << w->truth[job].np) - 1, out = w->store[job].excluded & all;
    for (int r = 0; r < a->np; r++)
        if (out != all && a->gpu[r] >= 0 && (out & (1U << a->gpu[r])))
            broke(w, "job %d.%d starts rank %d on GPU %d, which was left out", job, attempt, r, a->gpu[r]);
    if (a->np < 1 || (!out && a->np != w->truth[job].np))
        broke(w, "job %d.%d starts %d ranks of %d, and nothing is left out", job, attempt, a->np, w->truth[job].np);
}
