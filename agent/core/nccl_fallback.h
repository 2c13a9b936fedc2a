/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_fallback.h - after a hang before the first step: retry with one more NCCL variable set
 *
 * Pure: no clock, no I/O.
 * The list comes with the plan (agent/plan/plan_fallback.c), most likely remedy first. Each such
 * hang adds the next variable to those already set; all of them stay set for later starts of the
 * job.
 */
#ifndef AGENT_CORE_NCCL_FALLBACK_H
#define AGENT_CORE_NCCL_FALLBACK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct nccl_fallback {
    json_t *list; /* array of {name, value, why, fact}, or NULL */
    int used;     /* the first `used` entries are set */
};

/* list: the plan's, or NULL; used: number set by an earlier attempt. */
void nccl_fallback_init(struct nccl_fallback *r, const json_t *list, int used);
void nccl_fallback_fini(struct nccl_fallback *r);

bool nccl_fallback_left(const struct nccl_fallback *r);
/* Sets one more variable; requires nccl_fallback_left(). Returns `words`, a sentence for the
 * user. */
const char *nccl_fallback_next(struct nccl_fallback *r, char *words, size_t size);

#endif
