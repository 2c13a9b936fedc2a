/* SPDX-License-Identifier: Apache-2.0 */
/* printed_bar.c - see printed_bar.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/printed_bar.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "agent/printed/printed_scan.h"

static const char *blanks(const char *p)
{
    return p + strspn(p, " ");
}

static bool digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

/* --- counters --------------------------------------------------------------------------- */

/* "12/40", "812k/3.20M", "0/?", "37/Unknown", "0.4/5.0 GB" */
static const char *read_fraction(struct printed_bar *bar, const char *p)
{
    struct printed_unit unit;
    double step, steps = NAN;
    const char *slash = digit(*p) && !printed_date_read(p) ? printed_number_read(p, &step) : NULL;
    const char *end = slash ? printed_scan_total(slash, &steps) : NULL;
    if (!end)
        return NULL;
    bar->step = step;
    bar->steps = steps;
    const char *behind = printed_unit_read(end, &unit);
    if (!behind || unit.kind != UNIT_BYTES)
        return end;
    bar->unit = unit;
    return behind;
}

/* "4.76it/s", "?it/s", "40%" */
static const char *read_rate(struct printed_bar *bar, const char *p)
{
    struct printed_unit unit;
    double value = NAN;
    const char *end = *p == '?' ? p + 1 : digit(*p) ? printed_number_read(p, &value) : NULL;
    end = end ? printed_unit_read(end, &unit) : NULL;
    if (end && end[-1] == '%') {
        bar->percent = value;
    } else if (end) {
        bar->unit = unit;
        bar->rate = value;
    }
    return end;
}

/* "ETA: ", "<", "-:--:--" and "?" of what is not known; `*left`: the duration behind it is the time left. */
static const char *read_sign(const char *p, bool *left)
{
    const bool eta = strncmp(p, "ETA: ", 5) == 0;
    *left = *left || eta || *p == '<';
    if (eta)
        return p + 5;
    return *p == '-' ? p + strspn(p, "-:") : *p == '<' || *p == '?' ? p + 1 : NULL;
}

/* "12/40 0:00:00<0:00:01, 4.76it/s", "129/1331 0:01:05 | 0:10:10 1.97it/s", "- ETA: 1:10", "62s 500ms/step": up to
 * what is none of them. */
static const char *read_counters(struct printed_bar *bar, const char *p)
{
    for (bool left = false;;) {
        const char *begin = p + strspn(p, " ,|"), *end;
        double time;
        if (isnan(bar->step) && (end = read_fraction(bar, begin))) {
            ;
        } else if ((end = printed_duration_read(begin, &time))) {
            if (isnan(bar->eta_s) && (left || bar->times || !isnan(bar->percent))) /* else what has passed */
                bar->eta_s = time;
            bar->times++;
            left = false;
        } else if (!(end = read_rate(bar, begin)) && !(end = read_sign(begin, &left))) {
            return p;
        }
        p = end;
    }
}

/* --- shapes ----------------------------------------------------------------------------- */

/* The beginning of the number or fraction that ends at `end`. */
static const char *counter_before(const char *line, const char *end)
{
    const char *p = end;
    while (p > line && (isalnum((unsigned char)p[-1]) || strchr("./,?", p[-1])))
        p--;
    while (p < end && !digit(*p))
        p++;
    return p;
}

static const char *back(const char *line, const char *p, const char *over)
{
    while (p > line && strchr(over, p[-1]))
        p--;
    return p;
}

/* What stands between the '|'s of a bar, and "33%" before them: the end of the label. */
static const char *label_end(const char *line, const char *p)
{
    p = back(line, p, " ");
    if (p > line && p[-1] == '|') {
        const char *q = memrchr(line, '|', (size_t)(p - 1 - line));
        p = q ? q : p - 1;
    }
    p = back(line, p, "# ");
    if (p > line && p[-1] == '%')
        p = back(line, p - 1, "0123456789.");
    return back(line, p, " :");
}

/* The tail begins at `p`, and ends with the bracket. */
static size_t tail_size(const char *p)
{
    int depth = 0;
    size_t n = 0;
    for (; p[n] && !(p[n] == ']' && depth == 0); n++)
        depth += p[n] == '[' ? 1 : p[n] == ']' ? -1 : 0;
    return n;
}

static void start(struct printed_bar *bar, const char *label, const char *end)
{
    *bar = (struct printed_bar){.label = label, .label_size = (size_t)(end - label), .step = NAN, .steps = NAN,
                                .percent = NAN, .eta_s = NAN, .rate = NAN};
}

static bool finish(struct printed_bar *bar, const char *tail, size_t size)
{
    bar->tail = tail;
    bar->tail_size = size;
    return true;
}

/* A bracket at `p`: tqdm, "label: 33%|###   | 1/3 [00:00<00:01, 2it/s, loss=1]", or a notebook,
 * "[ 37/500 01:12 < 15:57, 0.48 it/s, Epoch 0.22/3]". */
static bool read_bracket(struct printed_bar *bar, const char *line, const char *p)
{
    double elapsed;
    const char *first = blanks(p + 1), *counter = counter_before(line, back(line, p, " "));
    const bool tqdm = printed_duration_read(first, &elapsed) && digit(*counter);
    start(bar, line, label_end(line, tqdm ? counter : p));
    if (tqdm && !read_fraction(bar, counter))
        printed_number_read(counter, &bar->step);
    const char *tail = tqdm || digit(*first) ? read_counters(bar, first) : p;
    return !isnan(bar->step) && bar->times && finish(bar, tail, tail_size(tail));
}

/* The last bar in brackets; its label begins behind the one before. */
static bool read_brackets(struct printed_bar *out, const char *line)
{
    struct printed_bar bar;
    bool found = false;
    for (const char *p = strchr(line, '['); p; p = strchr(p, '[')) {
        p++;
        if (read_bracket(&bar, line, p - 1)) {
            *out = bar;
            found = true;
            line = p = bar.tail + bar.tail_size + (bar.tail[bar.tail_size] == ']');
        }
    }
    return found;
}

/* rich: "### 12/40 0:00:00 0:00:01", "### 40% 0:00:01"; the last time is what is left. */
static bool read_rich(struct printed_bar *bar, const char *line)
{
    const char *p = strstr(line, "###");
    if (!p)
        return false;
    start(bar, line, label_end(line, p));
    const char *tail = read_counters(bar, p + strspn(p, "#"));
    const bool percent = !isnan(bar->percent) && (bar->times || bar->unit.kind != UNIT_NONE);
    return (percent || !isnan(bar->step)) && finish(bar, tail, strlen(tail));
}

/* "2/640 [====>....] - ETA: 1:10 - loss: 0.3", "3/3 ### 1s 30ms/step - loss: 0.3", "3/3 - 0s - 30ms/step - loss: 0" */
static bool read_keras(struct printed_bar *bar, const char *line)
{
    line += strspn(line, " #");
    start(bar, line, line);
    const char *p = read_fraction(bar, line);
    if (!p || blanks(p)[strspn(blanks(p), "0123456789")] == ':') /* "08/21 02:52" is a date */
        return false;
    p = blanks(p);
    p += *p == '[' ? 1 + strspn(p + 1, "=>.") : strspn(p, "#");
    const char *tail = read_counters(bar, p + (*p == ']'));
    bar->epoch = true;
    return (bar->times || bar->unit.kind == UNIT_SECONDS_EACH) && strchr(tail, ':') && finish(bar, tail, strlen(tail));
}

bool printed_bar_read(struct printed_bar *out, const char *line)
{
    return read_brackets(out, line) || read_keras(out, line) || read_rich(out, line);
}
