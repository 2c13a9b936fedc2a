/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeat.c - see heartbeat.h */
#include "agent/attempt/heartbeat.h"

#include <math.h>

#include "agent/core/agent_core.h"
#include "agent/nodes/leader.h"
#include "engine/base/json_make.h"

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *count(int64_t v)
{
    return v >= 0 ? json_integer(v) : json_null();
}

json_t *heartbeat_body(const struct agent_core *core, const struct leader *leader)
{
    struct agent_view v;
    agent_core_view(core, &v);
    const char *phase = v.ranks_alive ? leader_phase(leader, 0) : NULL;
    return json_make("{s:i, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:i, s:o}", "generation",
                     v.generation, "state", agent_phase_name(v.phase), "step", count(v.step), "steps",
                     count(v.steps), "phase", phase ? phase : "", "loss", number(v.loss), "lr",
                     number(v.lr), "samples_per_s", number(v.samples_per_s), "ranks_alive",
                     v.ranks_alive, "step_ms", number(v.step_ms));
}
