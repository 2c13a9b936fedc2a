/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_fallback.h - after a hang before the first step: the same again, but for one variable
 *
 * Pure: no clock, no I/O.
 * The list comes with the plan (agent/plan/plan_fallback.c), the likeliest first.  Each such hang
 * puts the next one to those before; what helped stays, for all starts of the job.
 */
#ifndef AGENT_CORE_NCCL_FALLBACK_H
#define AGENT_CORE_NCCL_FALLBACK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct nccl_fallback {
    json_t *list; /* of {name, value, why, fact}, or NULL */
    int     used; /* so many of them are set, from the first on */
};

/* list: of the plan, or NULL; used: by an earlier attempt. */
void nccl_fallback_init(struct nccl_fallback *r, const json_t *list, int used);
void nccl_fallback_fini(struct nccl_fallback *r);

bool nccl_fallback_left(const struct nccl_fallback *r);
/* One more from now on, which must be left; returns `words`, for a person. */
const char *nccl_fallback_next(struct nccl_fallback *r, char *words, size_t size);

#endif
