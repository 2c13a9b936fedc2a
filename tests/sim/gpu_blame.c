/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_blame.c - see world.h: when a GPU may be excluded, and that it is
 *
 * Written from agent/core/gpu_blame.h, not from its code.
 */
#include <stdio.h>
#include <string.h>

#include "engine/contract/exit_code.h"
#include "tests/sim/world.h"

static const char *text_of(const json_t *body, const char *key)
{
    const char *text = json_string_value(json_object_get(body, key));
    return text ? text : "";
}

/* The hardware's own word. */
static bool is_proof(const json_t *body)
{
    return json_integer_value(json_object_get(body, "exit_code")) == EXIT_GPU_FAULT;
}

/* What a broken GPU looks like, and much else. */
static bool could_be_a_gpu(const char *cause, const json_t *body)
{
    if (strcmp(cause, "rank_crash") == 0)
        return json_is_integer(json_object_get(body, "signal")) &&
               json_integer_value(json_object_get(body, "signal")) != 9;
    return strcmp(cause, "hang_step") == 0 || strcmp(cause, "hang_init") == 0 || strcmp(cause, "cuda_error") == 0;
}

void suspicion_failed(struct agent *a, const json_t *body)
{
    struct patience_rule *r = &a->rule;
    const json_t *rank = json_object_get(body, "rank");
    const int who = json_is_integer(rank) ? (int)json_integer_value(rank) : -1;
    const int gpu = who >= 0 && who < a->np ? a->gpu[who] : -1;
    snprintf(r->cause, sizeof(r->cause), "%s", text_of(body, "cause"));
    r->proof = is_proof(body);
    if (who < 0 || json_integer_value(json_object_get(body, "gained")) > 0 ||
        !could_be_a_gpu(r->cause, body))
        r->times = 0;
    else
        r->times = r->times && r->rank == who ? r->times + 1 : 1;
    r->rank = who;
    const bool new_one = gpu >= 0 && !(a->excluded & (1U << gpu));
    r->due = new_one && r->proof ? 1U << gpu : 0;
}

void suspicion_excluded(struct world *w, int job, int attempt, const json_t *body)
{
    struct agent *a = &w->agents[job][attempt];
    struct patience_rule *r = &a->rule;
    const int gpu = gpu_number(text_of(body, "gpu"));
    if (r->rank < 0 || r->rank >= a->np || gpu < 0 || a->gpu[r->rank] != gpu)
        broke(w, "agent %d.%d leaves GPU %d out, and rank %d was to blame", job, attempt, gpu, r->rank);
    if (!r->proof && (a->excluded || a->np < 2 || r->times < 2))
        broke(w, "agent %d.%d leaves GPU %d out on the suspicion of %d failures (%s)", job, attempt,
              gpu, r->times, r->cause);
    r->due = 0;
}

void suspicion_over(struct world *w, int job, int attempt)
{
    const struct agent *a = &w->agents[job][attempt];
    if (a->rule.due && !a->fallen && !a->lost && !a->asked && !a->preempted)
        broke(w, "agent %d.%d continues with the same GPUs (%#x) after the hardware reported an error", job, attempt,
              a->rule.due);
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
