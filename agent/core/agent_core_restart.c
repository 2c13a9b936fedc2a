/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_restart.c - after a failure: restart, with which changes, or give up; see agent_core.h
 *
 * Pure: no clock, no I/O.
 */
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core_internal.h"
#include "agent/core/agent_effects.h"
#include "agent/core/cause.h"
#include "engine/base/json_make.h"
#include "engine/base/text_append.h"

/* Ranks that never reached a step on these nodes hang: a network path may be broken. */
bool agent_core_has_fallback(const struct agent_core *c)
{
    return c->blame.verdict.cause == CAUSE_HANG_INIT && c->tracker.best <= c->job.history.last_step &&
           nccl_fallback_left(&c->fallback);
}

/* Added to the message if a GPU may be suspected but is not excluded. */
static const char *kept_gpu(const struct agent_core *c)
{
    return c->blame.verdict.cause == CAUSE_CUDA_ERROR && c->gpu_blame.gpus
               ? "; no hardware error was reported: the GPU is kept" : "";
}

static void again(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    int64_t delay = restart_policy_wait_ms(&c->restart_policy, in->jitter);
    char text[CAUSE_TEXT + 600] = "", words[320];
    text_append(text, sizeof(text), "%s", c->blame.verdict.text);
    const char *changes = text + strlen(text);
    text_append(text, sizeof(text), "%s", kept_gpu(c));
    if (c->tracker.checkpoint >= 0)
        text_append(text, sizeof(text), "; resuming at step %lld or later", (long long)c->tracker.checkpoint);
    if (c->nan_policy.back)
        text_append(text, sizeof(text), "; the batch of step %lld will be skipped", (long long)c->nan_policy.step + 1);
    if (agent_core_has_fallback(c))
        text_append(text, sizeof(text), "; the next start sets %s",
            nccl_fallback_next(&c->fallback, words, sizeof(words)));
    if (c->keep)
        text_append(text, sizeof(text), "; %d of %d ranks keep their processes", c->keep, c->job.np);
    if (delay)
        text_append(text, sizeof(text), "; %lld failures without progress", (long long)c->restart_policy.failures);
    agent_effects_event(out, "restart_scheduled",
                        json_make("{s:i, s:I, s:s, s:s}", "generation", c->generation + 1, "delay_ms",
                                  (json_int_t)delay, "text", text, "changes",
                                  *changes ? changes + strlen("; ") : ""));
    if (delay == 0) {
        agent_core_start(c, in, out);
        return;
    }
    c->phase = AGENT_BACKOFF;
    agent_core_timer(c, out, in->now_ms + delay);
}

/* Restart on another GPU, which the controller chooses. */
static void elsewhere(struct agent_core *c, struct agent_effects *out)
{
    char text[CAUSE_TEXT + 180];
    const char *gpu = gpu_blame_guilty(&c->gpu_blame);
    const char *often = c->gpu_blame.proof || !gpu ? "" : "twice in a row, ";
    int n = snprintf(text, sizeof(text), "%s%s", often, c->blame.verdict.text);
    if (gpu) {
        snprintf(text + n, sizeof(text) - (size_t)n, "; this job no longer uses %s", gpu);
        agent_effects_event(out, "excluded",
                            json_make("{s:i, s:s, s:i, s:s, s:o}", "generation", c->generation,
                                      "gpu", gpu, "rank", c->gpu_blame.guilty, "cause",
                                      cause_name(c->blame.verdict.cause), "text",
                                      json_text_f("%s%s", often, c->blame.verdict.text)));
    }
    agent_core_close(c, out, "failed", true, false, text);
}

/* A second NaN of the engine within NAN_POLICY_NEAR steps of the first. */
static bool diverges(struct agent_core *c)
{
    const int rank = c->blame.exit.rank;
    if (c->blame.verdict.cause != CAUSE_NAN_LOSS || !c->job.engine || c->blame.exit.none)
        return false;
    return !nan_policy_decide(&c->nan_policy, c->ranks[rank].failed_step);
}

/* A generation or the setup failed, and none of its processes is left. */
void agent_core_decide(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    char text[CAUSE_TEXT + 320], why[160];
    if (c->lost) {
        c->blame.verdict.cause = c->lost_cause;
        agent_core_close(c, out, "failed", true, false, c->lost_text);
    } else if (!c->blame.verdict.retry_helps) {
        agent_core_close(c, out, "failed", false, false, c->blame.verdict.text);
    } else if (c->blame.verdict.cause == CAUSE_GPU_FAULT || c->not_clean ||
               gpu_blame_guilty(&c->gpu_blame)) {
        elsewhere(c, out);
    } else if (c->blame.verdict.cause == CAUSE_DISK_FULL && c->job.engine) {
        agent_core_close(c, out, "failed", true, false, c->blame.verdict.text); /* it waited, holding its GPUs */
    } else if (c->blame.verdict.cause == CAUSE_DIR_IN_USE) {
        agent_core_close(c, out, "failed", true, false, c->blame.verdict.text); /* another job has the directory */
    } else if (c->restart_policy.early) {
        snprintf(text, sizeof(text), "%.270s; not retried: it failed after %.1f s without a sign of training; set "
                 "retry.max to retry it anyway", c->blame.verdict.text, (double)c->blame.exit.after_ms / 1000);
        agent_core_close(c, out, "failed", false, false, text);
    } else if (restart_policy_decide(&c->restart_policy, why, sizeof(why)) < 0) {
        snprintf(text, sizeof(text), "%s%s%s%s", c->blame.verdict.text, kept_gpu(c), why[0] ? "; not retried: " : "", why);
        agent_core_close(c, out, "failed", false, true, text);
    } else if (diverges(c)) {
        snprintf(text, sizeof(text), "%s; skipping the batch of an earlier NaN did not help", c->blame.verdict.text);
        agent_core_close(c, out, "failed", false, false, text);
    } else {
        again(c, in, out);
    }
}
