/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_view.c - state of an agent's core, for a heartbeat; see agent_core.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/core/agent_core_internal.h"

void agent_core_view(const struct agent_core *c, struct agent_view *out)
{
    *out = (struct agent_view){
        .phase = c->phase,
        .generation = c->generation,
        .ranks_alive = c->alive,
        .step = c->tracker.step,
        .steps = c->tracker.steps,
        .loss = c->tracker.loss,
        .lr = c->tracker.lr,
        .samples_per_s = c->tracker.samples_per_s,
        .step_ms = c->tracker.step_ms,
    };
}

const char *agent_phase_name(enum agent_phase phase)
{
    static const char *const names[AGENT_PHASES] = {
        [AGENT_IDLE] = "idle",       [AGENT_SETUP] = "setup",   [AGENT_SPAWNING] = "spawning",
        [AGENT_RUNNING] = "running", [AGENT_ENDING] = "ending", [AGENT_BACKOFF] = "backoff",
        [AGENT_CLOSING] = "closing", [AGENT_OVER] = "over",
    };
    return (unsigned)phase < AGENT_PHASES ? names[phase] : "?";
}
