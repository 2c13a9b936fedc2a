/* SPDX-License-Identifier: Apache-2.0 */
/* progress_reader.c - see progress_reader.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/progress_reader.h"

#include <math.h>
#include <string.h>

#include "agent/printed/progress_pattern.h"
#include "agent/printed/screen_line.h"

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

static int64_t whole(double v)
{
    return v >= 0 && v < 9e15 ? (int64_t)v : -1;
}

/* A bar that is not this run's: it has a total of its own, below that of the run, and is not of an epoch. */
static bool foreign(const struct progress_reader *r, const struct printed_progress *p)
{
    const int64_t total = has(p, PRINTED_STEPS) ? whole(p->value[PRINTED_STEPS]) : -1;
    if (total < 0 || p->counts == COUNT_EPOCHS)
        return false;
    if (r->run_total && !p->of_epoch)
        return total != r->seen.steps && whole(p->value[PRINTED_STEP]) < r->seen.step && total < r->seen.steps;
    return r->per_epoch > 0 && total < r->per_epoch && !has(p, PRINTED_EPOCH) && !has(p, PRINTED_LOSS);
}

static void hear_epoch(struct progress_reader *r, double epoch, double epochs)
{
    if (r->first_epoch < 0)
        r->first_epoch = epoch < 1 ? 0 : 1;
    if (r->first_epoch == 1 && epoch == 0)
        r->first_epoch = 0;
    if (!isnan(r->seen.epoch) && floor(epoch) > floor(r->seen.epoch))
        r->in_epoch = r->in_epoch >= 0 ? 0 : -1;
    r->seen.epoch = epoch;
    if (!isnan(epochs))
        r->seen.epochs = epochs;
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
    const int64_t step = whole(p->value[PRINTED_STEP]);
    const int64_t steps = has(p, PRINTED_STEPS) ? whole(p->value[PRINTED_STEPS]) : -1;
    const bool anew = !p->of_epoch && steps > 0 && steps == r->per_epoch && step < r->seen.step;
    if (p->of_epoch || anew || (r->turns > 0 && steps == r->per_epoch)) {
        hear_step_of_epoch(r, step, steps);
        return;
    }
    r->seen.step = step;
    if (steps > 0) {
        r->seen.steps = steps;
        r->per_epoch = steps; /* should the bar start again */
        r->in_epoch = step;
        r->run_total = true;
    }
}

static void hear_total(struct progress_reader *r, int64_t steps)
{
    r->seen.steps = steps;
    r->run_total = steps > 0;
}

static void hear_rate(struct progress_reader *r, const struct printed_progress *p)
{
    if (has(p, PRINTED_S_PER_STEP) && p->rate_counts == COUNT_STEPS)
        r->seen.step_ms = p->value[PRINTED_S_PER_STEP] * 1000;
    if (!has(p, PRINTED_PER_S) || p->value[PRINTED_PER_S] <= 0)
        return;
    const double rate = p->value[PRINTED_PER_S];
    if (p->rate_counts == COUNT_STEPS)
        r->seen.step_ms = 1000 / rate;
    else if (p->rate_counts == COUNT_SAMPLES)
        r->seen.samples_per_s = rate;
    else if (p->rate_counts == COUNT_TOKENS)
        r->seen.tokens_per_s = rate;
}

/* The time that is left of an epoch is none of the run. */
static void hear_eta(struct progress_reader *r, const struct printed_progress *p)
{
    r->seen.eta_s = p->of_epoch || r->turns > 0 ? NAN : p->value[PRINTED_ETA_S];
}

static void hear(struct progress_reader *r, const struct printed_progress *p)
{
    if (!p->told || foreign(r, p))
        return;
    r->changed = true;
    if (has(p, PRINTED_EPOCH))
        hear_epoch(r, p->value[PRINTED_EPOCH], has(p, PRINTED_EPOCHS) ? p->value[PRINTED_EPOCHS] : NAN);
    else if (has(p, PRINTED_EPOCHS))
        r->seen.epochs = p->value[PRINTED_EPOCHS];
    if (has(p, PRINTED_STEP) && p->counts == COUNT_EPOCHS)
        hear_epoch(r, p->value[PRINTED_STEP], has(p, PRINTED_STEPS) ? p->value[PRINTED_STEPS] : NAN);
    else if (has(p, PRINTED_STEP))
        hear_step(r, p);
    else if (has(p, PRINTED_STEPS))
        hear_total(r, whole(p->value[PRINTED_STEPS]));
    if (has(p, PRINTED_LOSS))
        r->seen.loss = p->value[PRINTED_LOSS];
    if (has(p, PRINTED_LR))
        r->seen.lr = p->value[PRINTED_LR];
    if (has(p, PRINTED_ETA_S))
        hear_eta(r, p);
    hear_rate(r, p);
}

static void take_line(struct progress_reader *r)
{
    struct printed_progress p = {.rank = -1};
    r->line[r->size] = '\0';
    if (memchr(r->line, '\0', r->size) || r->size == 0)
        return;
    if (r->pattern) {
        screen_line_clean(r->line);
        if (!progress_pattern_read(r->pattern, r->line, &p))
            return;
    } else {
        printed_progress_line(&p, r->line, &r->table);
    }
    if (p.rank <= 0)
        hear(r, &p);
}

static void end_line(struct progress_reader *r)
{
    if (!r->skip)
        take_line(r);
    r->size = 0;
    r->skip = false;
}

void progress_reader_feed(struct progress_reader *r, const char *bytes, size_t size)
{
    while (size) {
        size_t n = 0;
        while (n < size && bytes[n] != '\n' && bytes[n] != '\r')
            n++;
        if (r->size + n < sizeof(r->line))
            memcpy(r->line + r->size, bytes, n);
        else
            r->skip = true;
        r->size += r->skip ? 0 : n;
        if (n == size)
            break;
        end_line(r);
        bytes += n + 1;
        size -= n + 1;
    }
}

/* A bar without an end of line shows its newest frame until the next one begins. */
static void look_at_open_line(struct progress_reader *r)
{
    char kept[PROGRESS_READER_LINE];
    if (!r->size || r->skip)
        return;
    memcpy(kept, r->line, r->size);
    take_line(r);
    memcpy(r->line, kept, r->size);
}

bool progress_reader_take(struct progress_reader *r, struct progress_seen *out)
{
    look_at_open_line(r);
    if (!r->changed || (r->seen.step < 0 && isnan(r->seen.epoch)))
        return false;
    r->changed = false;
    *out = r->seen;
    return true;
}
