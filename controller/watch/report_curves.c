/* SPDX-License-Identifier: Apache-2.0 */
/* report_curves.c - see report_curves.h */
#include "controller/watch/report_curves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "controller/job/job_view.h"
#include "engine/base/buf.h"
#include "engine/base/field.h"

enum { WIDTH = 1000, LEFT = 70, LANE = 22, HEIGHT = 110, TOP = 14 };

struct axis {
    double from, to;        /* seconds; steps if there are no times */
};

static double time_of(const json_t *iso)
{
    const double s = job_view_time(json_string_value(iso));
    return s < 0 ? NAN : s;
}

static double x_of(const struct axis *a, double at)
{
    const double x = LEFT + (at - a->from) / (a->to - a->from) * (WIDTH - LEFT - 10);
    return x < LEFT ? LEFT : x > WIDTH - 10 ? WIDTH - 10 : x;
}

/* ---- lanes ---- */

static void write_bar(struct buf *out, const struct axis *a, const json_t *o, const char *look, int y)
{
    const double from = time_of(json_object_get(o, "started_at"));
    double to = time_of(json_object_get(o, "ended_at"));
    if (!isfinite(from))
        return;
    if (!isfinite(to))
        to = a->to;
    const double x = x_of(a, from), w = x_of(a, to) - x;
    buf_print(out, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"3\" class=\"%s\"/>", x, y,
              w > 2 ? w : 2, LANE - 6, look);
}

static void write_label(struct buf *out, int y, const char *words)
{
    buf_print(out, "<text x=\"0\" y=\"%d\">%s</text>", y, words);
}

static bool is_incident(const char *kind)
{
    static const char *const kinds[] = { "hang", "gpu_fault", "gpu_event", "node_lost", "agent_lost", "start_failed",
                                         "excluded", "warning", "quarantined", "no_room", "straggler", "deadline" };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

static bool marks(const json_t *event)
{
    const char *kind = field_text(event, "kind");
    return is_incident(kind) || (strcmp(kind, "generation_ended") == 0 &&
                                 strcmp(field_text(json_object_get(event, "body"), "cause"), "none") != 0);
}

static void write_lanes(struct buf *out, const struct axis *a, const json_t *job, const json_t *events)
{
    size_t i, k;
    json_t *attempt, *generation, *one;
    buf_print(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"attempts, generations, incidents and checkpoints "
              "over time\">", WIDTH, 4 * LANE);
    write_label(out, LANE - 10, "attempt");
    write_label(out, 2 * LANE - 10, "generation");
    write_label(out, 3 * LANE - 10, "incidents");
    write_label(out, 4 * LANE - 10, "saved");
    json_array_foreach (json_object_get(job, "attempts"), i, attempt) {
        write_bar(out, a, attempt, "attempt", 0);
        json_array_foreach (json_object_get(attempt, "generations"), k, generation)
            write_bar(out, a, generation, "generation", LANE);
    }
    json_array_foreach (events, i, one)
        if (marks(one))
            buf_print(out, "<path class=\"incident\" d=\"M%.1f %dl6 11h-12z\"/>",
                      x_of(a, time_of(json_object_get(one, "at"))), 2 * LANE + 2);
    json_array_foreach (json_object_get(job, "checkpoints"), i, one)
        buf_print(out, "<path class=\"saved\" d=\"M%.1f %dl5 5l-5 5l-5 -5z\"/>",
                  x_of(a, time_of(json_object_get(one, "at"))), 3 * LANE + 3);
    buf_print(out, "</svg>");
}

/* ---- curves ---- */

static bool known_point(const json_t *point)
{
    return json_is_number(json_array_get(point, 1));
}

/* When a step was made; both lists are in the order of steps, and *k goes along. */
static double at_of(const json_t *times, size_t *k, double step)
{
    const json_t *point;
    while ((point = json_array_get(times, *k)) && json_number_value(json_array_get(point, 0)) < step)
        ++*k;
    return point ? json_number_value(json_array_get(point, 1)) : NAN;
}

static void range_of(double *low, double *high, const json_t *points)
{
    size_t i;
    json_t *p;
    *low = INFINITY;
    *high = -INFINITY;
    json_array_foreach (points, i, p) {
        if (!known_point(p))
            continue;
        *low = fmin(*low, json_number_value(json_array_get(p, 1)));
        *high = fmax(*high, json_number_value(json_array_get(p, 1)));
    }
    if (*low == *high) {
        *low -= fabs(*low) * 0.1 + 1e-9;
        *high += fabs(*high) * 0.1 + 1e-9;
    }
}

static void write_line(struct buf *out, const struct axis *a, const json_t *points, const json_t *times, double low,
                       double high)
{
    size_t i, k = 0;
    json_t *p;
    bool pen = false;
    buf_print(out, "<path class=\"curve\" d=\"");
    json_array_foreach (points, i, p) {
        const double step = json_number_value(json_array_get(p, 0));
        const double at = json_array_size(times) > 0 ? at_of(times, &k, step) : step;
        if (!known_point(p) || !isfinite(at)) {
            pen = false;
            continue;
        }
        buf_print(out, "%c%.1f %.1f", pen ? 'L' : 'M', x_of(a, at),
                  TOP + (high - json_number_value(json_array_get(p, 1))) / (high - low) * (HEIGHT - 2 * TOP));
        pen = true;
    }
    buf_print(out, "\"/>");
}

static void write_curve(struct buf *out, const struct axis *a, const char *name, const json_t *points,
                        const json_t *times)
{
    double low, high;
    range_of(&low, &high, points);
    if (!isfinite(low))
        return;
    const json_t *last = json_array_get(points, json_array_size(points) - 1);
    const double value = json_number_value(json_array_get(last, 1));
    buf_print(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s: %.6g, between %.6g and %.6g\"><text x=\"0\" "
              "y=\"20\">%s</text><text x=\"0\" y=\"38\" class=\"now\">%.4g</text>", WIDTH, HEIGHT, name, value, low, high, name,
              value);
    for (int i = 0; i <= 2; i++) {
        const double y = TOP + i / 2.0 * (HEIGHT - 2 * TOP), v = high - i / 2.0 * (high - low);
        buf_print(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" class=\"tick\">%.4g</text>",
                  LEFT, y, WIDTH - 10, WIDTH - 10, y - 2, v);
    }
    write_line(out, a, points, times, low, high);
    buf_print(out, "</svg>");
}

/* ---- phases of a step, one above the other ---- */

static const struct {
    const char *curve, *name;
} phases[] = {
    { "data_ms", "data" }, { "forward_ms", "forward" }, { "backward_ms", "backward" }, { "reduce_ms", "reduce" },
    { "optimizer_ms", "optimizer" },
};
enum { PHASES = sizeof(phases) / sizeof(phases[0]) };

/* The value of a curve at a step, 0 if it is not known; the list is in the order of steps, and *k goes along. */
static double value_at(const json_t *points, size_t *k, double step)
{
    const json_t *point;
    while ((point = json_array_get(points, *k)) && json_number_value(json_array_get(point, 0)) < step)
        ++*k;
    return point && json_number_value(json_array_get(point, 0)) == step ? json_number_value(json_array_get(point, 1)) : 0;
}

/* The sums of the first `n` phases at the points of the first one; returns the largest sum. */
static double sums(double *out, const json_t *curves, int n)
{
    const json_t *steps = json_object_get(curves, phases[0].curve);
    double most = 0;
    for (size_t i = 0; i < json_array_size(steps); i++)
        out[i] = 0;
    for (int p = 0; p < n; p++) {
        const json_t *points = json_object_get(curves, phases[p].curve);
        size_t k = 0;
        for (size_t i = 0; i < json_array_size(steps); i++)
            out[i] += value_at(points, &k, json_number_value(json_array_get(json_array_get(steps, i), 0)));
    }
    for (size_t i = 0; i < json_array_size(steps); i++)
        most = fmax(most, out[i]);
    return most;
}

static void write_area(struct buf *out, const struct axis *a, const json_t *curves, const double *sum, double most,
                       int phase)
{
    const json_t *steps = json_object_get(curves, phases[0].curve), *times = json_object_get(curves, "time");
    const size_t n = json_array_size(steps);
    const double half = n == 1 ? 4 : 0; /* of a column, where there is one point */
    double first = NAN;
    size_t k = 0;
    buf_print(out, "<path class=\"phase%d\" d=\"", phase);
    for (size_t i = 0; i < n; i++) {
        const double step = json_number_value(json_array_get(json_array_get(steps, i), 0));
        const double x = x_of(a, json_array_size(times) > 0 ? at_of(times, &k, step) : step);
        const double y = TOP + (1 - sum[i] / most) * (HEIGHT - 2 * TOP);
        if (!isfinite(first))
            first = x - half;
        buf_print(out, "%c%.1f %.1f", i ? 'L' : 'M', x - half, y);
        if (half > 0)
            buf_print(out, "L%.1f %.1f", x + half, y);
    }
    buf_print(out, "V%dH%.1fz\"/>", HEIGHT - TOP, first);
}

static void write_phases(struct buf *out, const struct axis *a, const json_t *curves)
{
    const size_t n = json_array_size(json_object_get(curves, phases[0].curve));
    double *sum = n ? malloc(n * sizeof(*sum)) : NULL;
    const double most = sum ? sums(sum, curves, PHASES) : 0;
    if (most > 0) {
        buf_print(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"phases of a step, at most %.4g ms\"><text x=\"0\" "
                  "y=\"20\">phases, ms</text><text x=\"%d\" y=\"%d\" class=\"tick\">%.4g</text>", WIDTH, HEIGHT, most,
                  WIDTH - 10, TOP - 2, most);
        for (int p = PHASES; p > 0; p--) {
            sums(sum, curves, p);
            write_area(out, a, curves, sum, most, p - 1);
        }
        buf_print(out, "</svg><p class=\"phases\">");
        for (int p = 0; p < PHASES; p++)
            buf_print(out, "<span><i class=\"phase%d\"></i>%s</span> ", p, phases[p].name);
        buf_print(out, "</p>");
    }
    free(sum);
}

static void write_axis(struct buf *out, const struct axis *a, bool times)
{
    char text[2][40];
    for (int i = 0; i < 2; i++) {
        const double at = i ? a->to : a->from;
        const time_t s = (time_t)at;
        struct tm tm;
        snprintf(text[i], sizeof(text[i]), "step %.0f", at);
        if (times && gmtime_r(&s, &tm))
            strftime(text[i], sizeof(text[i]), "%Y-%m-%d %H:%M:%S UTC", &tm);
    }
    buf_print(out, "<p class=\"ends\"><span>%s</span><span>%s</span></p>", text[0], text[1]);
}

static struct axis axis_of(const json_t *job, const json_t *curves, bool times)
{
    const json_t *row = json_object_get(job, "job"), *loss = json_object_get(curves, "loss");
    struct axis a = { time_of(json_object_get(row, "submitted_at")),
                      time_of(json_object_get(row, "ended_at")) };
    if (!isfinite(a.to))
        a.to = (double)time(NULL);
    if (!times) {
        a.from = json_number_value(json_array_get(json_array_get(loss, 0), 0));
        a.to = json_number_value(json_array_get(json_array_get(loss, json_array_size(loss) - 1), 0));
    }
    if (!(a.to > a.from))
        a.to = a.from + 1;
    return a;
}

void report_curves_write(struct buf *out, const json_t *job, const json_t *curves, const json_t *events)
{
    static const char *const names[][2] = { { "loss", "loss" }, { "samples_per_s", "samples/s" },
                                            { "grad_norm", "gradient norm" }, { "lr", "learning rate" },
                                            { "step_ms", "step, ms" } };
    const json_t *times = json_object_get(curves, "time");
    const struct axis clock = axis_of(job, curves, true), a = axis_of(job, curves, json_array_size(times) > 0);
    write_lanes(out, &clock, job, events);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        write_curve(out, &a, names[i][1], json_object_get(curves, names[i][0]), times);
    write_phases(out, &a, curves);
    write_axis(out, &a, json_array_size(times) > 0);
}
