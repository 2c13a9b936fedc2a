/* SPDX-License-Identifier: Apache-2.0 */
/* output_progress.c - see output_progress.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/monitor/output_progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/flight.h"
#include "engine/base/json_make.h"

void output_progress_init(struct output_progress *o, const char *rule)
{
    const bool pattern = rule && strcmp(rule, "auto") != 0 && strcmp(rule, "off") != 0;
    *o = (struct output_progress){.off = rule && strcmp(rule, "off") == 0, .pattern = pattern ? strdup(rule) : NULL};
    output_progress_begin(o);
}

void output_progress_fini(struct output_progress *o)
{
    free(o->pattern);
    o->pattern = NULL;
}

void output_progress_begin(struct output_progress *o)
{
    progress_reader_init(&o->reader, o->pattern);
    o->seen = o->reader.seen;
    o->page_step = -1;
}

void output_progress_feed(struct output_progress *o, const char *bytes, size_t size)
{
    if (!o->off)
        progress_reader_feed(&o->reader, bytes, size);
}

static void put_number(json_t *line, const char *key, double value)
{
    if (isfinite(value))
        json_object_set_new(line, key, json_real(value));
}

static void put_count(json_t *line, const char *key, int64_t value)
{
    if (value >= 0)
        json_object_set_new(line, key, json_integer((json_int_t)value));
}

static json_t *line_of(const struct progress_seen *s)
{
    json_t *line = json_make("{s:s}", "ev", "step");
    put_count(line, "step", s->step);
    put_count(line, "steps", s->steps);
    put_number(line, "epoch", s->epoch);
    put_number(line, "epochs", s->epochs);
    put_number(line, "loss", s->loss);
    put_number(line, "lr", s->lr);
    put_number(line, "step_ms", s->step_ms);
    put_number(line, "samples_per_s", s->samples_per_s);
    put_number(line, "tokens_per_s", s->tokens_per_s);
    put_number(line, "eta_s", s->eta_s);
    return line;
}

json_t *output_progress_line(struct output_progress *o, const struct flight_page *page)
{
    const int64_t step = page && page->pid ? (int64_t)flight_step(page) : -1;
    const bool printed = !o->off && progress_reader_take(&o->reader, &o->seen);
    if (!printed && step == o->page_step)
        return NULL;
    o->page_step = step;
    struct progress_seen seen = o->seen;
    if (step >= 0)
        seen.step = step;
    if (seen.step < 0) { /* only epochs were printed: they are the steps */
        seen.step = (int64_t)seen.epoch;
        seen.steps = isnan(seen.epochs) ? -1 : (int64_t)seen.epochs;
    }
    return seen.step > 0 ? line_of(&seen) : NULL; /* no work is done before the first step */
}
