/* SPDX-License-Identifier: Apache-2.0 */
/* agent_event.c - see agent_event.h */
#include "agent/core/agent_event.h"

#include "agent/core/agent_core.h"
#include "agent/core/cause.h"
#include "agent/core/progress_tracker.h"
#include "agent/core/restart_policy.h"
#include "agent/core/root_cause.h"
#include "engine/base/json_make.h"

const char *const agent_event_kinds[] = {
    "facts", "lease", "preflight", "plan", "nodes", "node_lost", "deadline", "pull_started", "pull_done",
    "fetch_started", "fetch_progress", "fetch_done", "setup_started", "setup_done",
    "generation_started", "rank_started", "step", "learned", "straggler", "gpu_event", "nccl", "hang",
    "gpu_fault", "incident", "excluded", "rank_exited", "generation_ended", "restart_scheduled",
    "checkpoint", "mirrored", "restored", "no_room", "encoding", "snapshots", "quarantined", "sample", "warning",
    "stop_asked", "attempt_ended", NULL
};

void agent_event_add_exit(json_t *body, const struct agent_exit *e)
{
    if (!body || e->none)
        return;
    if (e->signalled)
        json_object_set_new(body, "signal", json_integer(e->signo));
    else
        json_object_set_new(body, "exit_code", json_integer(e->exit_code));
}

json_t *agent_event_generation_ended(int generation, const struct root_cause *blame,
                                     const struct progress_tracker *tracker,
                                     const struct restart_policy *restart_policy, const char *otherwise)
{
    bool failed = blame->failed;
    json_t *body = json_make("{s:i, s:s, s:s, s:o, s:o, s:I, s:s, s:O?}", "generation", generation,
                             "cause", cause_name(blame->verdict.cause), "text",
                             failed ? blame->verdict.text : otherwise, "rank",
                             failed && blame->exit.rank >= 0 ? json_integer(blame->exit.rank)
                                                             : json_null(), "step",
                             tracker->step >= 0 ? json_integer(tracker->step) : json_null(), "gained",
                             (json_int_t)progress_tracker_gained(tracker), "fingerprint",
                             failed ? restart_policy->fingerprint : "", "evidence", blame->evidence);
    agent_event_add_exit(body, &blame->exit);
    if (body && blame->verdict.advice)
        json_object_set_new(body, "advice", json_text(blame->verdict.advice));
    return body;
}

json_t *agent_event_totals(const struct root_cause *blame, const struct progress_tracker *tracker,
                           const struct restart_policy *restart_policy)
{
    bool code = blame->failed && !blame->exit.signalled && !blame->exit.none;
    return json_make(
        "{s:s, s:o, s:o, s:I, s:s, s:I, s:I}", "cause", cause_name(blame->verdict.cause), "step",
        tracker->best > 0 ? json_integer(tracker->best) : json_null(), "exit_code",
        code ? json_integer(blame->exit.exit_code) : json_null(), "productive_ms",
        (json_int_t)tracker->productive_ms, "fingerprint", restart_policy->fingerprint, "same_fingerprint",
        (json_int_t)restart_policy->same, "failures_without_progress", (json_int_t)restart_policy->failures);
}
