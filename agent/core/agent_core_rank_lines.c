/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_rank_lines.c - handles the progress lines of ranks; see agent_core.h
 *
 * Pure: no clock, no I/O.
 */
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core_internal.h"
#include "agent/core/agent_effects.h"
#include "agent/core/rank_line.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static void on_first_rank(struct agent_core *c, const char *ev, const json_t *line, int64_t now_ms,
                          struct agent_effects *out)
{
    int g = c->generation;
    if (strcmp(ev, "started") == 0) {
        progress_tracker_started(&c->tracker, line, now_ms);
    } else if (strcmp(ev, "step") == 0) {
        json_t *body = progress_tracker_step(&c->tracker, g, line, now_ms);
        if (body)
            agent_effects_step(out, body);
    } else if (strcmp(ev, "checkpoint") == 0) {
        if (progress_tracker_checkpoint(&c->tracker, line, now_ms) == 0)
            agent_effects_event(out, "checkpoint", rank_line_broadcast(g, line, "step path bytes ms stall_ms digest"));
    } else if (strcmp(ev, "quarantined") == 0) {
        agent_effects_event(out, "quarantined", rank_line_broadcast(g, line, "path reason"));
    } else if (strcmp(ev, "no_room") == 0) {
        progress_tracker_disk(&c->tracker, line, now_ms);
        agent_effects_event(out, "no_room", rank_line_broadcast(g, line, "over step bytes free wait_s path text"));
    } else if (strcmp(ev, "encoding") == 0) {
        progress_tracker_encoding(&c->tracker, line);
        agent_effects_event(out, "encoding", rank_line_broadcast(g, line, "over done total saved per_s left_s text"));
    } else if (strcmp(ev, "snapshots") == 0) {
        agent_effects_event(out, "snapshots", rank_line_broadcast(g, line, "every bytes copy_s step_s text"));
    } else if (strcmp(ev, "sample") == 0) {
        agent_effects_event(out, "sample", rank_line_broadcast(g, line, "step path"));
    } else if (strcmp(ev, "done") == 0) {
        progress_tracker_done(&c->tracker, g, line, now_ms);
        c->done_seen = true;
    }
}

void agent_core_hear(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    bool ours = (c->phase == AGENT_RUNNING || c->phase == AGENT_ENDING) &&
                in->progress.generation == c->generation && in->progress.rank >= 0 &&
                in->progress.rank < c->job.np;
    const json_t *line = in->progress.line;
    const char *ev = rank_line_text(line, "ev");
    if (ev && c->phase == AGENT_SETUP && c->fetching && strcmp(ev, "fetch") == 0)
        agent_effects_event(out, "fetch_progress", rank_line_text(line, "text")
                                                       ? json_make("{s:s}", "text", rank_line_text(line, "text")) : NULL);
    if (!ours || !ev)
        return;
    struct rank *r = &c->ranks[in->progress.rank];

    if (strcmp(ev, "failed") == 0) {
        const char *cause = rank_line_text(line, "cause"), *text = rank_line_text(line, "text");
        snprintf(r->reported, sizeof(r->reported), "%s", cause ? cause : "");
        snprintf(r->text, sizeof(r->text), "%s", text ? text : "");
        r->failed_step = field_int(line, "step", -1);
    } else if (strcmp(ev, "detached") == 0) {
        agent_core_hear_detached(c, in, out);
        return;
    } else if (strcmp(ev, "warning") == 0) {
        json_t *body = rank_line_broadcast(c->generation, line, "text");
        if (body)
            json_object_set_new(body, "rank", json_integer(in->progress.rank));
        if (body && field_true(line, "lasts"))
            json_object_set_new(body, "lasts", json_true());
        agent_effects_event(out, "warning", body);
    } else if (strcmp(ev, "started") == 0) {
        json_t *body = rank_line_broadcast(c->generation, line, "resume_step steps backend params");
        if (body) {
            json_object_set_new(body, "rank", json_integer(in->progress.rank));
            json_object_set_new(body, "pid", json_integer(r->pid));
        }
        agent_effects_event(out, "rank_started", body);
    }
    if (in->progress.rank == 0)
        on_first_rank(c, ev, line, in->now_ms, out);
}
