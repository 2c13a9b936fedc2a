/* SPDX-License-Identifier: Apache-2.0 */
/* printed_bar.c - see printed_bar.h
 *
 * Pure: no clock, no I/O.
 * screen_line_clean() has made '#' of blocks and lines of all shapes.
 */
#include "agent/printed/printed_bar.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/printed/printed_number.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *blanks(const char *p)
{
    return p + strspn(p, " ");
}

static bool digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

/* "12/40", " 812k/3.20M", "0/?", "37/Unknown" */
static const char *read_fraction(const char *p, double *step, double *steps)
{
    bool whole;
    double done;
    const char *slash = digit(*p) && !printed_date_read(p) ? printed_number_read(p, &done, &whole) : NULL;
    if (!slash || *blanks(slash) != '/')
        return NULL;
    const char *q = blanks(blanks(slash) + 1);
    *step = done;
    if (*q == '?')
        return q + 1;
    if (strncmp(q, "Unknown", 7) == 0)
        return q + 7;
    return digit(*q) ? printed_number_read(q, steps, &whole) : NULL;
}

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

/* "<00:30" or " < 15:57"; "<?" is not known. */
static const char *read_left(const char *p, double *eta)
{
    p = blanks(p);
    if (*p != '<')
        return p;
    const char *end = printed_duration_read(blanks(p + 1), eta);
    return end ? end : blanks(p + 1) + (*blanks(p + 1) == '?');
}

/* ", 4.76it/s" or ", ?it/s" */
static const char *read_rate(const char *p, struct printed_bar *bar)
{
    const char *q = blanks(p + (*blanks(p) == ',' ? blanks(p) - p + 1 : 0));
    double rate = NAN;
    bool whole;
    const char *unit = *q == '?' ? q + 1 : digit(*q) ? printed_number_read(q, &rate, &whole) : NULL;
    const size_t n = unit ? printed_unit_length(blanks(unit)) : 0;
    char text[PRINTED_UNIT_SIZE];
    if (!n || n >= sizeof(text))
        return p;
    snprintf(text, sizeof(text), "%.*s", (int)n, blanks(unit));
    bar->unit = printed_unit_of(text);
    bar->rate = rate;
    return blanks(unit) + n;
}

/* What stands between the '|'s of a bar, and "33%" before them: the end of the label. */
static const char *label_end(const char *line, const char *p)
{
    while (p > line && p[-1] == ' ')
        p--;
    if (p > line && p[-1] == '|') {
        const char *q = p - 1;
        while (q > line && q[-1] != '|')
            q--;
        p = q > line ? q - 1 : p - 1;
    }
    while (p > line && strchr("# ", p[-1]))
        p--;
    if (p > line && p[-1] == '%') {
        p--;
        while (p > line && (digit(p[-1]) || p[-1] == '.'))
            p--;
    }
    while (p > line && strchr(" :", p[-1]))
        p--;
    return p;
}

static void clear(struct printed_bar *bar)
{
    *bar = (struct printed_bar){.step = NAN, .steps = NAN, .percent = NAN, .eta_s = NAN, .rate = NAN};
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

/* tqdm, its bracket at `p`: "label: 33%|###   | 1/3 [00:00<00:01, 2it/s, loss=1]" */
static const char *read_tqdm(struct printed_bar *bar, const char *line, const char *begin, const char *p)
{
    double elapsed;
    bool whole;
    clear(bar);
    const char *q = printed_duration_read(blanks(p + 1), &elapsed);
    if (!q)
        return NULL;
    const char *end = p;
    while (end > begin && end[-1] == ' ')
        end--;
    const char *counter = counter_before(begin, end);
    if (!read_fraction(counter, &bar->step, &bar->steps) &&
        !(digit(*counter) && printed_number_read(counter, &bar->step, &whole)))
        return NULL;
    q = read_rate(read_left(q, &bar->eta_s), bar);
    bar->begin = (size_t)(begin - line);
    bar->label = (size_t)(label_end(begin, counter) - begin);
    bar->tail = (size_t)(q - line);
    bar->tail_size = tail_size(q);
    return q + bar->tail_size;
}

/* Notebooks: "[ 37/500 01:12 < 15:57, 0.48 it/s, Epoch 0.22/3]" and "[22/186 00:06<00:45 0.5123]" */
static const char *read_notebook(struct printed_bar *bar, const char *line, const char *begin, const char *p)
{
    double elapsed;
    clear(bar);
    const char *q = read_fraction(blanks(p + 1), &bar->step, &bar->steps);
    q = q && *q == ' ' ? printed_duration_read(blanks(q), &elapsed) : NULL;
    if (!q)
        return NULL;
    q = read_rate(read_left(q, &bar->eta_s), bar);
    bar->begin = (size_t)(begin - line);
    bar->label = (size_t)(label_end(begin, p) - begin);
    bar->tail = (size_t)(q - line);
    bar->tail_size = tail_size(q);
    return q + bar->tail_size;
}

/* The last bar in brackets; its label begins behind the one before. */
static bool read_brackets(struct printed_bar *out, const char *line)
{
    const char *begin = line;
    bool found = false;
    for (const char *p = strchr(line, '['); p; p = strchr(p, '[')) {
        struct printed_bar bar;
        const char *end = read_tqdm(&bar, line, begin, p);
        if (!end)
            end = read_notebook(&bar, line, begin, p);
        if (end) {
            *out = bar;
            found = true;
            begin = *end == ']' ? end + 1 : end;
        }
        p = end && end > p ? end : p + 1;
    }
    return found;
}

/* The end of a run of at least three signs of a bar. */
static const char *run_end(const char *p)
{
    const size_t n = strspn(p, "#");
    return n >= 3 ? p + n : NULL;
}

/* rich: "12/40 0:00:00 0:00:01", "40% 0:00:01", "129/1331 0:01:05 | 0:10:10 1.97it/s"; the last time is what is
 * left. */
static bool read_rich_counters(struct printed_bar *bar, const char *line, const char *p)
{
    double first, second;
    bool whole;
    const char *q = read_fraction(p, &bar->step, &bar->steps);
    if (!q && digit(*p) && (q = printed_number_read(p, &bar->percent, &whole)) && *q++ != '%')
        return false;
    if (!q)
        return false;
    const char *time = printed_duration_read(blanks(q), &first);
    if (!time && printed_unit_length(blanks(q)))
        bar->unit = printed_unit_of(blanks(q));
    if (time) {
        const char *next = blanks(time + strspn(time, " |"));
        const char *end = printed_duration_read(next, &second);
        const bool unknown = !end && *next == '-';
        if (end || isnan(bar->step))
            bar->eta_s = end ? second : first;
        q = end ? end : unknown ? next + strspn(next, "-:") : time;
    }
    q = read_rate(q, bar);
    bar->tail = (size_t)(q - line);
    bar->tail_size = strlen(q);
    return bar->unit.kind != UNIT_NONE || time || isnan(bar->percent);
}

static bool read_rich(struct printed_bar *bar, const char *line)
{
    const char *p = strstr(line, "###");
    clear(bar);
    if (!p || !run_end(p))
        return false;
    bar->label = (size_t)(label_end(line, p) - line);
    return read_rich_counters(bar, line, blanks(run_end(p)));
}

/* "2/640 [====>....]", "3/3 ###", "3/3 - 0s": the counters stand before the bar, and metrics behind it. */
static const char *keras_bar(const char *p)
{
    if (*p == '[')
        return p[strspn(p, "[=>.")] == ']' ? p + strspn(p, "[=>.") + 1 : NULL;
    if (run_end(p))
        return run_end(p);
    return strncmp(p, "- ", 2) == 0 && digit(p[2]) ? p + 1 : digit(*p) ? p : NULL;
}

/* "62s 500ms/step", "- 0s - 30ms/step", "- ETA: 1:10" */
static const char *keras_times(struct printed_bar *bar, const char *p, bool *timed)
{
    for (;;) {
        char *end;
        p += strspn(p, " -");
        if (strncmp(p, "ETA: ", 5) == 0) {
            const char *q = printed_duration_read(p + 5, &bar->eta_s);
            *timed = true;
            if (!q)
                return p;
            p = q;
            continue;
        }
        const double value = digit(*p) ? strtod(p, &end) : 0;
        const size_t n = digit(*p) ? printed_unit_length(end) : 0;
        char text[PRINTED_UNIT_SIZE];
        if (!n || n >= sizeof(text))
            return p;
        snprintf(text, sizeof(text), "%.*s", (int)n, end);
        if (strchr(text, '/')) {
            bar->unit = printed_unit_of(text);
            bar->rate = value;
        }
        *timed = true;
        p = end + n;
    }
}

static bool read_keras(struct printed_bar *bar, const char *line)
{
    bool timed = false;
    clear(bar);
    const char *p = line + strspn(line, " #");
    const char *q = read_fraction(p, &bar->step, &bar->steps);
    if (!q || !(q = keras_bar(blanks(q))))
        return false;
    q = keras_times(bar, q, &timed);
    bar->begin = (size_t)(p - line);
    bar->tail = (size_t)(q - line);
    bar->tail_size = strlen(q);
    bar->epoch = true;
    return timed && strchr(q, ':');
}

bool printed_bar_read(struct printed_bar *out, const char *line)
{
    return read_brackets(out, line) || read_keras(out, line) || read_rich(out, line);
}
