/* SPDX-License-Identifier: Apache-2.0 */
/* root_cause.h - which rank's failure is the root cause of a failed generation
 *
 * Pure: no clock, no I/O.
 * The first failure counts, later ones are cascade. A rank that only reports a lost peer may be
 * seen before that peer: a more specific cause within a moment replaces it. Likewise, a fault that a GPU reports
 * replaces a CUDA error, because the memory of a dead peer cannot be read.
 */
#ifndef AGENT_CORE_ROOT_CAUSE_H
#define AGENT_CORE_ROOT_CAUSE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/core/agent_core.h"
#include "agent/core/cause.h"

struct root_cause {
    bool              failed;
    int64_t           at_ms;
    struct verdict    verdict;
    struct agent_exit exit;     /* its texts are not kept */
    json_t *evidence;           /* the last output lines, or where a Python program hangs; an array, or NULL */
};

void root_cause_clear(struct root_cause *b);
void root_cause_set(struct root_cause *b, const struct agent_exit *e, const struct verdict *v, int64_t now_ms);
/* Replaces the root cause if this failure takes precedence. */
void root_cause_consider(struct root_cause *b, const struct agent_exit *e, const struct verdict *v, int64_t now_ms);
/* A hung rank that was asked for its stacks has ended: where it hung becomes the evidence. */
void root_cause_stack(struct root_cause *b, const struct agent_exit *e);

#endif
