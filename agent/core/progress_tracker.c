/* SPDX-License-Identifier: Apache-2.0 */
/* progress_tracker.c - see progress_tracker.h */
#include "agent/core/progress_tracker.h"

#include <math.h>

#include "agent/core/rank_line.h"
#include "engine/base/field.h"

enum { STEP_EVENT_MS = 1000 };

void progress_tracker_init(struct progress_tracker *p, int64_t best)
{
    *p = (struct progress_tracker){.steps = -1, .best = best, .checkpoint = -1};
    progress_tracker_begin(p);
}

void progress_tracker_fini(struct progress_tracker *p)
{
    json_decref(p->held);
    p->held = NULL;
}

void progress_tracker_begin(struct progress_tracker *p)
{
    p->step = p->told = -1;
    p->best_before = p->best;
    p->loss = p->lr = p->samples_per_s = p->step_ms = NAN;
    p->last_step_ms = p->event_ms = p->started_ms = p->fresh_ms = 0;
    p->disk_ms = p->disk_since_ms = 0;
    p->encoded = 0;
}

int64_t progress_tracker_gained(const struct progress_tracker *p)
{
    return (p->best > p->best_before ? p->best - p->best_before : 0) + p->encoded;
}

static void reach(struct progress_tracker *p, int64_t step, int64_t now_ms)
{
    if (step > p->best) {
        if (p->last_step_ms)
            p->productive_ms += now_ms - p->last_step_ms;
        p->best = step;
        if (!p->fresh_ms)
            p->fresh_ms = p->last_step_ms ? p->last_step_ms : p->best_before <= 0 ? PROGRESS_ALL_FRESH : now_ms;
    }
    if (step > p->step)
        p->step = step;
    p->last_step_ms = now_ms;
}

void progress_tracker_started(struct progress_tracker *p, const json_t *line, int64_t now_ms)
{
    p->steps = field_int(line, "steps", p->steps);
    p->step = field_int(line, "resume_step", p->step);
    if (p->step > 0 && p->step > p->checkpoint)
        p->checkpoint = p->step;
    p->last_step_ms = p->started_ms = now_ms;
}

/* The time of a step: as given by the line, else as measured, smoothed over some ten lines. */
static void measure(struct progress_tracker *p, const json_t *line, int64_t step, int64_t now_ms)
{
    const double told = field_number(line, "step_ms");
    if (isfinite(told)) {
        p->step_ms = told;
    } else if (step > p->step && p->step >= 0 && p->last_step_ms) {
        const double measured = (double)(now_ms - p->last_step_ms) / (double)(step - p->step);
        p->step_ms = isfinite(p->step_ms) ? 0.9 * p->step_ms + 0.1 * measured : measured;
    }
}

/* For the engine only: null in the events of other programs would be useless. */
static void add_phases(json_t *event, const json_t *line)
{
    static const char *const names[] = {"data_ms", "forward_ms", "backward_ms", "reduce_ms", "optimizer_ms"};
    for (size_t i = 0; event && i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *v = json_object_get(line, names[i]);
        if (json_is_number(v))
            json_object_set(event, names[i], v);
    }
}

json_t *progress_tracker_step(struct progress_tracker *p, int generation, const json_t *line, int64_t now_ms)
{
    int64_t step = field_int(line, "step", -1);
    if (step < 0)
        return NULL;
    measure(p, line, step, now_ms);
    reach(p, step, now_ms);
    p->steps = field_int(line, "steps", p->steps);
    p->told = step;
    p->loss = field_number(line, "loss");
    p->lr = field_number(line, "lr");
    p->samples_per_s = field_number(line, "samples_per_s");
    json_decref(p->held);
    p->held =
        rank_line_broadcast(generation, line, "step steps loss grad_norm lr samples_per_s step_ms "
                                              "epoch epochs tokens_per_s eta_s");
    add_phases(p->held, line);
    if (p->held && isfinite(p->step_ms))
        json_object_set_new(p->held, "step_ms", json_real(p->step_ms));
    if (p->event_ms && now_ms - p->event_ms < STEP_EVENT_MS)
        return NULL;
    p->event_ms = now_ms;
    return progress_tracker_held(p);
}

json_t *progress_tracker_held(struct progress_tracker *p)
{
    json_t *held = p->held;
    p->held = NULL;
    return held;
}

int progress_tracker_checkpoint(struct progress_tracker *p, const json_t *line, int64_t now_ms)
{
    int64_t step = field_int(line, "step", -1);
    if (step < 0)
        return -1;
    const double ms = field_number(line, "ms");
    p->checkpoint_ms = ms > 0 && ms < 1e9 ? (int64_t)ms : 0;
    if (step > p->checkpoint)
        p->checkpoint = step;
    if (step > p->best)
        reach(p, step, now_ms);
    return 0;
}

void progress_tracker_disk(struct progress_tracker *p, const json_t *line, int64_t now_ms)
{
    if (p->disk_since_ms)
        p->disk_ms += now_ms - p->disk_since_ms;
    p->disk_since_ms = json_is_true(json_object_get(line, "over")) ? 0 : now_ms;
}

void progress_tracker_encoding(struct progress_tracker *p, const json_t *line)
{
    const int64_t saved = field_int(line, "saved", 0);
    if (saved > p->encoded)
        p->encoded = saved;
}

/* The line of the last step may be missing: it was dropped, or ranks died after the last checkpoint. */
void progress_tracker_done(struct progress_tracker *p, int generation, const json_t *line, int64_t now_ms)
{
    const int64_t step = field_int(line, "step", p->step);
    if (step >= 0)
        reach(p, step, now_ms);
    if (step > p->told && isfinite(field_number(line, "loss"))) {
        json_decref(p->held);
        p->held = rank_line_broadcast(generation, line, "step loss");
    }
}
