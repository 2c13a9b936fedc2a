/* SPDX-License-Identifier: Apache-2.0 */
/* progress_reader.c - see progress_reader.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/progress_reader.h"

#include <math.h>
#include <string.h>

#include "agent/printed/progress_pattern.h"
#include "agent/printed/text_line.h"

void progress_reader_init(struct progress_reader *r, const char *pattern)
{
    *r = (struct progress_reader){.pattern = pattern, .per_epoch = -1, .in_epoch = -1, .first_epoch = -1};
    r->seen = (struct progress_seen){.step = -1, .steps = -1, .epoch = NAN, .epochs = NAN, .loss = NAN, .lr = NAN,
                                     .step_ms = NAN, .eta_s = NAN, .samples_per_s = NAN, .tokens_per_s = NAN};
}

static bool has(const struct printed_progress *p, enum printed_field f)
{
    return printed_progress_has(p, f);
}

/* NAN: not told. */
static double value(const struct printed_progress *p, enum printed_field f)
{
    return has(p, f) ? p->value[f] : NAN;
}

/* -1: not told. */
static int64_t whole(const struct printed_progress *p, enum printed_field f)
{
    const double v = value(p, f);
    return v >= 0 && v < 9e15 ? (int64_t)v : -1;
}

/* A bar that is not this run's: it has a total of its own, below that of the run, and is not of an epoch. */
static bool foreign(const struct progress_reader *r, const struct printed_progress *p)
{
    const int64_t total = whole(p, PRINTED_STEPS);
    if (total < 0 || p->counts == COUNT_EPOCHS)
        return false;
    if (r->run_total && !p->of_epoch)
        return whole(p, PRINTED_STEP) < r->seen.step && total < r->seen.steps;
    return total < r->per_epoch && !has(p, PRINTED_EPOCH) && !has(p, PRINTED_LOSS);
}

static void hear_epoch(struct progress_reader *r, double epoch, double epochs)
{
    if (r->first_epoch < 0 || epoch == 0)
        r->first_epoch = epoch >= 1;
    if (floor(epoch) > floor(r->seen.epoch) && r->in_epoch >= 0)
        r->in_epoch = 0;
    r->seen.epoch = epoch;
    r->seen.epochs = isnan(epochs) ? r->seen.epochs : epochs;
}

/* The steps of the whole epochs before the present one. */
static int64_t before_epoch(const struct progress_reader *r)
{
    const int64_t done = isnan(r->seen.epoch) ? r->turns : (int64_t)floor(r->seen.epoch) - r->first_epoch;
    return done > 0 && r->per_epoch > 0 ? done * r->per_epoch : 0;
}

/* A counter that starts again with each epoch. */
static void hear_step_of_epoch(struct progress_reader *r, int64_t step, int64_t steps)
{
    if (isnan(r->seen.epoch) && steps == r->per_epoch && step < r->in_epoch)
        r->turns++;
    r->in_epoch = step;
    r->per_epoch = steps > 0 ? steps : r->per_epoch;
    r->seen.step = before_epoch(r) + step;
    if (!r->run_total && r->per_epoch > 0 && !isnan(r->seen.epochs))
        r->seen.steps = r->per_epoch * (int64_t)r->seen.epochs;
}

static void hear_step(struct progress_reader *r, const struct printed_progress *p)
{
    const int64_t step = whole(p, PRINTED_STEP), steps = whole(p, PRINTED_STEPS);
    const bool again = steps > 0 && steps == r->per_epoch;
    if (p->of_epoch || (again && step < r->seen.step) || (r->turns > 0 && steps == r->per_epoch)) {
        hear_step_of_epoch(r, step, steps);
        return;
    }
    r->seen.step = step;
    if (steps > 0) {
        r->seen.steps = r->per_epoch = steps; /* should the bar start again */
        r->in_epoch = step;
        r->run_total = true;
    }
}

static void hear_rate(struct progress_reader *r, const struct printed_progress *p)
{
    const double rate = value(p, PRINTED_PER_S);
    if (has(p, PRINTED_S_PER_STEP) && p->rate_counts == COUNT_STEPS)
        r->seen.step_ms = p->value[PRINTED_S_PER_STEP] * 1000;
    else if (rate > 0 && p->rate_counts == COUNT_STEPS)
        r->seen.step_ms = 1000 / rate;
    else if (rate > 0 && p->rate_counts == COUNT_SAMPLES)
        r->seen.samples_per_s = rate;
    else if (rate > 0 && p->rate_counts == COUNT_TOKENS)
        r->seen.tokens_per_s = rate;
}

static void hear(struct progress_reader *r, const struct printed_progress *p)
{
    const bool bar_of_epochs = has(p, PRINTED_STEP) && p->counts == COUNT_EPOCHS;
    if (!p->told || foreign(r, p))
        return;
    r->changed = true;
    if (has(p, PRINTED_EPOCH))
        hear_epoch(r, p->value[PRINTED_EPOCH], value(p, PRINTED_EPOCHS));
    else if (has(p, PRINTED_EPOCHS))
        r->seen.epochs = p->value[PRINTED_EPOCHS];
    if (bar_of_epochs) {
        hear_epoch(r, p->value[PRINTED_STEP], value(p, PRINTED_STEPS));
    } else if (has(p, PRINTED_STEP)) {
        hear_step(r, p);
    } else if (has(p, PRINTED_STEPS)) {
        r->seen.steps = whole(p, PRINTED_STEPS);
        r->run_total = r->seen.steps > 0;
    }
    if (has(p, PRINTED_LOSS))
        r->seen.loss = p->value[PRINTED_LOSS];
    if (has(p, PRINTED_LR))
        r->seen.lr = p->value[PRINTED_LR];
    if (has(p, PRINTED_ETA_S)) /* what is left of an epoch is not what is left of the run */
        r->seen.eta_s = p->of_epoch || r->turns > 0 ? NAN : p->value[PRINTED_ETA_S];
    hear_rate(r, p);
}

/* The line so far: a bar without an end of line shows its newest frame until the next one begins. */
static void take_line(struct progress_reader *r)
{
    char line[PROGRESS_READER_LINE];
    struct printed_progress p = {.rank = -1};
    if (r->skip || r->size == 0 || memchr(r->line, '\0', r->size))
        return;
    memcpy(line, r->line, r->size);
    line[r->size] = '\0';
    if (!r->pattern) {
        printed_progress_line(&p, line, &r->table);
    } else {
        text_line_screen(line);
        progress_pattern_read(r->pattern, line, &p);
    }
    if (p.rank <= 0)
        hear(r, &p);
}

void progress_reader_feed(struct progress_reader *r, const char *bytes, size_t size)
{
    for (; size; bytes++, size--) {
        if (*bytes == '\n' || *bytes == '\r') {
            take_line(r);
            r->size = 0;
            r->skip = false;
        } else if (r->size + 1 < sizeof(r->line)) {
            r->line[r->size++] = *bytes;
        } else {
            r->skip = true;
        }
    }
}

bool progress_reader_take(struct progress_reader *r, struct progress_seen *out)
{
    take_line(r);
    if (!r->changed || (r->seen.step < 0 && isnan(r->seen.epoch)))
        return false;
    r->changed = false;
    *out = r->seen;
    return true;
}
