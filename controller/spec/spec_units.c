/* SPDX-License-Identifier: Apache-2.0 */
/* spec_units.c - see spec_units.h */
#include "controller/spec/spec_units.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

/* Largest first: the parts of "1h 30m" must be in this order. */
static const struct {
    const char *names;
    double      seconds;
} units[] = {
    {"|d|day|days|", 86400}, {"|h|hour|hours|", 3600},
    {"|m|min|minute|minutes|", 60}, {"|s|sec|second|seconds|", 1},
    {"|ms|", 0.001},
};

enum { UNITS = sizeof(units) / sizeof(units[0]) };

static int find_unit(const char *name, size_t size)
{
    char key[16];
    if (size == 0 || size + 3 > sizeof(key))
        return -1;
    snprintf(key, sizeof(key), "|%.*s|", (int)size, name);
    for (int i = 0; i < UNITS; i++)
        if (strstr(units[i].names, key))
            return i;
    return -1;
}

/* Reads digits with at most one point; returns the rest of the text, or NULL without digits. */
static const char *read_number(double *value, const char *p)
{
    const char *start = p;
    size_t digits = 0;
    while (isdigit((unsigned char)*p))
        p++, digits++;
    if (*p == '.' && isdigit((unsigned char)p[1]))
        for (p++; isdigit((unsigned char)*p); p++)
            digits++;
    if (digits == 0 || digits > 15)
        return NULL;
    *value = strtod(start, NULL);
    return p;
}

static bool is_clock(const char *text)
{
    return strchr(text, ':') && text[strspn(text, "0123456789:-")] == '\0';
}

static int bad_clock(const char *text, struct err *err)
{
    return err_set(err, ERR_USAGE, "\"%.40s\" is not a time; write hours:minutes:seconds, such as "
                   "24:00:00, or days first, such as 1-12:00:00", text);
}

/* 24:00:00 or 1-12:00:00; two fields are ambiguous and rejected. */
static int parse_clock(double *seconds, const char *text, struct err *err)
{
    unsigned days = 0, h, m, s;
    char dash, end;
    if (strchr(text, '-')) {
        if (sscanf(text, "%4u%c%3u:%2u:%2u%c", &days, &dash, &h, &m, &s, &end) != 5 || dash != '-')
            return bad_clock(text, err);
    } else if (sscanf(text, "%5u:%2u:%2u%c", &h, &m, &s, &end) != 3) {
        return bad_clock(text, err);
    }
    if (m > 59 || s > 59)
        return bad_clock(text, err);
    *seconds = days * 86400.0 + h * 3600.0 + m * 60.0 + s;
    return 0;
}

int spec_duration_parse(double *seconds, const char *text, struct err *err)
{
    if (is_clock(text))
        return parse_clock(seconds, text, err);
    double total = 0;
    int last = -1;
    const char *p = text + strspn(text, " ");
    if (!*p)
        return err_set(err, ERR_USAGE, "an empty text is not a duration; write for example 30s");
    while (*p) {
        double value;
        const char *after = read_number(&value, p);
        if (!after)
            return err_set(err, ERR_USAGE, "\"%.40s\" is not a duration; write for example 30s, "
                           "5m, \"1h 30m\" or \"24:00:00\"", text);
        p = after + strspn(after, " ");
        size_t size = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (size == 0)
            return err_set(err, ERR_USAGE, "\"%.40s\" has no unit; write for example %.12gs or "
                           "%.12gm", text, value, value);
        int unit = find_unit(p, size);
        if (unit < 0)
            return err_set(err, ERR_USAGE, "\"%.*s\" is not a unit of time; use ms, s, m, h "
                           "or d", (int)(size > 40 ? 40 : size), p);
        if (unit <= last)
            return err_set(err, ERR_USAGE, "\"%.40s\" has units out of order; write the "
                           "larger one first, each once", text);
        last = unit;
        total += value * units[unit].seconds;
        p += size;
        p += strspn(p, " ");
    }
    *seconds = total;
    return 0;
}

int spec_range_parse(double *low, double *high, const char *text, struct err *err)
{
    const char *dots = strstr(text, "..");
    char left[64];
    size_t size = dots ? (size_t)(dots - text) : 0;
    if (!dots || size == 0 || size >= sizeof(left) || !dots[2])
        return err_set(err, ERR_USAGE, "\"%.40s\" is not a range of durations; write for example "
                       "5s..5m", text);
    memcpy(left, text, size);
    left[size] = '\0';
    double a, b;
    if (spec_duration_parse(&a, left, err) < 0 || spec_duration_parse(&b, dots + 2, err) < 0)
        return -1;
    if (a > b)
        return err_set(err, ERR_USAGE, "range %.40s is reversed; write the shorter duration first", text);
    *low = a;
    *high = b;
    return 0;
}

int spec_every_parse(struct spec_every *every, const char *text, struct err *err)
{
    double value;
    const char *p = read_number(&value, text + strspn(text, " "));
    if (p) {
        p += strspn(p, " ");
        if (!*p)
            return err_set(err, ERR_USAGE, "\"%.40s\" has no unit; write \"%.12g steps\" or a "
                           "duration such as %.12gs", text, value, value);
        if (strcmp(p, "step") == 0 || strcmp(p, "steps") == 0) {
            if (value < 1 || value != (double)(int64_t)value)
                return err_set(err, ERR_USAGE, "\"%.40s\" must be a whole number of steps, at "
                               "least 1", text);
            *every = (struct spec_every){.steps = (int64_t)value};
            return 0;
        }
    }
    double seconds;
    if (spec_duration_parse(&seconds, text, err) < 0)
        return -1;
    if (seconds <= 0)
        return err_set(err, ERR_USAGE, "\"%.40s\" must be more than 0", text);
    *every = (struct spec_every){.seconds = seconds};
    return 0;
}
