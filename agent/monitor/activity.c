/* SPDX-License-Identifier: Apache-2.0 */
/* activity.c - see activity.h */
#include "agent/monitor/activity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text_append.h"

#define SHARE 0.01  /* of the norm; less is background */
#define WORK_S 0.01 /* of CPU time in one window; less is rounding */
#define MAIN_S 1e-3 /* of main threads */

enum {
    NORM_S = 3600,      /* the norm forgets rates older than about this */
    SPIN_BUSY = 50,     /* percent: a GPU that is at least this busy, ... */
    SPIN_MEMORY = 1,    /* with its memory controller at most this busy, ... */
    SPIN_LINK_KB = 1024 /* and its links below this rate, spins */
};

/* For each sign of life: the least rate that counts while no norm is known, whether it must also be a share of the
 * norm, and its words in messages. window: its rate is that of the time since the last window. */
static const struct {
    double      least;
    bool        norm, window;
    const char *key, *none, *some;
} signs[ACTIVITY_SIGNS] = {
    [ACTIVITY_OUTPUT] = {1e-9, true, false, "output", "no output", "output"},
    [ACTIVITY_CPU] = {1e-3, true, true, "cpu", "no CPU work", "CPU work"},
    [ACTIVITY_IO] = {4096, true, true, "io", "nothing read or written", "bytes read and written"},
    [ACTIVITY_MOVED] = {1e-9, false, true, "moved", "no network traffic", "network traffic"},
    [ACTIVITY_GPU] = {1, true, false, "gpu", "no GPU work", "GPU work"},
};

double activity_usual(const struct activity_norm *norm, enum activity_sign sign)
{
    return norm->seconds[sign] > 0 ? norm->sum[sign] / norm->seconds[sign] : 0;
}

static bool counts(const struct activity_norm *norm, enum activity_sign sign, double rate, double seconds)
{
    return rate >= signs[sign].least && (sign != ACTIVITY_CPU || rate * seconds >= WORK_S) &&
           (!signs[sign].norm || rate >= SHARE * activity_usual(norm, sign));
}

static void learn(struct activity_norm *norm, enum activity_sign sign, double rate, double seconds)
{
    norm->sum[sign] += rate * seconds;
    norm->seconds[sign] += seconds;
    if (norm->seconds[sign] > NORM_S) {
        norm->sum[sign] *= NORM_S / norm->seconds[sign];
        norm->seconds[sign] = NORM_S;
    }
}

/* A counter that shrinks belongs to a new process. */
static double rate_of(uint64_t now, uint64_t before, double unit, double seconds)
{
    return now > before ? (double)(now - before) / unit / seconds : 0;
}

/* Work on a GPU moves data: percent of the time that its memory controller is busy, or of 10 GB/s
 * over its links; at least 1 if it is busy at all. */
static double gpu_work(const struct activity_sample *s)
{
    const double links = fmin((double)s->link_kb_s / 1e5, 100);
    return s->gpu && s->gpu_busy > 0 ? fmax(1, fmax(s->gpu_memory, links)) : 0;
}

static bool spins(const struct activity_sample *s)
{
    return s->gpu && s->gpu_busy >= SPIN_BUSY && s->gpu_memory <= SPIN_MEMORY &&
           s->link_kb_s < SPIN_LINK_KB;
}

static void measure(struct activity *a, const struct activity_sample *s, double seconds, double window)
{
    const struct activity_sample *before = &a->last;
    a->rate[ACTIVITY_OUTPUT] = rate_of(s->output_bytes, before->output_bytes, 1, seconds);
    a->rate[ACTIVITY_GPU] = gpu_work(s);
    a->spins = spins(s);
    if (window <= 0)
        return;
    a->main_works = s->main_us >= before->main_us + (uint64_t)(1e6 * MAIN_S);
    a->rate[ACTIVITY_CPU] = rate_of(s->work_us, before->work_us, 1e6, window);
    a->rate[ACTIVITY_IO] = rate_of(s->io_bytes, before->io_bytes, 1, window);
    a->rate[ACTIVITY_MOVED] = rate_of(s->moved_bytes, before->moved_bytes, 1, window);
}

/* The time that ends with this sample, of the samples or of the windows; 0: none ends. */
static double seconds_since(int64_t now_ms, int64_t before_ms)
{
    return before_ms > 0 && now_ms > before_ms ? (double)(now_ms - before_ms) / 1000 : 0;
}

unsigned activity_take(struct activity *a, struct activity_norm *norm,
                       const struct activity_sample *s, bool in_collective)
{
    unsigned seen = 0;
    if (s->at_ms == a->last.at_ms)
        return 0;
    const double seconds = seconds_since(s->at_ms, a->last.at_ms);
    const double window = seconds_since(s->counted_ms, a->last.counted_ms);
    if (seconds > 0)
        measure(a, s, seconds, window);
    a->last = *s;
    a->free = seconds > 0 && (a->free || !in_collective);
    for (int i = 0; i < ACTIVITY_SIGNS; i++) {
        const enum activity_sign sign = (enum activity_sign)i;
        const double span = signs[i].window ? window : seconds;
        if (span <= 0 || (signs[i].window ? !a->free : in_collective) ||
            (a->spins && (sign == ACTIVITY_CPU || sign == ACTIVITY_GPU)) || 
            !(counts(norm, sign, a->rate[i], span) || (sign == ACTIVITY_CPU && a->main_works)))
            continue;
        learn(norm, sign, a->rate[i], span);
        seen |= 1u << i;
    }
    a->free = a->free && window <= 0;
    return seen;
}

void activity_say(char *text, size_t size, const struct activity *a, const struct activity_norm *norm)
{
    for (int i = 0; i < ACTIVITY_SIGNS; i++) {
        const double usual = activity_usual(norm, (enum activity_sign)i);
        const char *comma = i ? ", " : "";
        if (i == ACTIVITY_GPU && !a->last.gpu)
            continue;
        if (i == ACTIVITY_GPU && a->spins)
            text_append(text, size, "%sGPU busy but its memory idle", comma);
        else if (a->rate[i] < signs[i].least || usual <= 0)
            text_append(text, size, "%s%s", comma, signs[i].none);
        else
            text_append(text, size, "%s%s %.*f %% of the usual rate", comma, signs[i].some,
                a->rate[i] < SHARE * usual ? 2 : 0, 100 * a->rate[i] / usual);
    }
}

/* The power of two next to it, so that the stored value does not change with every sample. */
static double coarse(double v)
{
    double c = 1;
    while (c * 1.5 <= v)
        c *= 2;
    while (c > v * 1.5)
        c /= 2;
    return c;
}

json_t *activity_norm_json(const struct activity_norm *norm)
{
    json_t *out = json_object();
    for (int i = 0; i < ACTIVITY_SIGNS; i++) {
        const double usual = activity_usual(norm, (enum activity_sign)i);
        if (usual > 0)
            json_object_set_new(out, signs[i].key, json_real(coarse(usual)));
    }
    return out;
}

void activity_norm_read(struct activity_norm *norm, const json_t *json)
{
    memset(norm, 0, sizeof(*norm));
    for (int i = 0; i < ACTIVITY_SIGNS; i++) {
        const double usual = json_number_value(json_object_get(json, signs[i].key));
        if (usual > 0 && usual < 1e15)
            learn(norm, (enum activity_sign)i, usual, 60);
    }
}
