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
    json_t *evidence;           /* the last output lines, or where ranks of a Python program hang; an array, or NULL */
    char printed[160];          /* "rank 0 had printed train.py:9: RuntimeError: ..." before its stacks, "" = nothing */
    json_t *stands;             /* of those: [{"rank":1, "waits":false, "place":"train.py:13", "call":""}], or NULL */
};

void root_cause_clear(struct root_cause *b);
void root_cause_set(struct root_cause *b, const struct agent_exit *e, const struct verdict *v, int64_t now_ms);
/* Replaces the root cause if this failure takes precedence. */
void root_cause_consider(struct root_cause *b, const struct agent_exit *e, const struct verdict *v, int64_t now_ms);
/* Was it a hang, not an exit? */
bool root_cause_hangs(const struct root_cause *b);
/* A hung rank that was asked for its stacks has ended: keeps where it stood (agent/printed/python_stack.h). */
void root_cause_stack(struct root_cause *b, const struct agent_exit *e);
/* All have ended: where they stood becomes the evidence and a part of the verdict's text. Those that wait for others
 * come last: the first one is behind. */
void root_cause_places(struct root_cause *b);

#endif
