/* SPDX-License-Identifier: Apache-2.0 */
/* printed_number.c - see printed_number.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/printed_number.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { DIGITS_MAX = 60 };

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool letter(char c)
{
    return isalpha((unsigned char)c) || (unsigned char)c >= 0x80;
}

static size_t digits(const char *p)
{
    return strspn(p, "0123456789");
}

/* Groups of three digits after `n` leading ones: the length of ",200" or ",200,000", or 0. */
static size_t thousands(const char *p, size_t n)
{
    size_t at = n;
    if (n > 3 || p[0] == '0')
        return 0;
    while (p[at] == ',' && digits(p + at + 1) == 3)
        at += 4;
    return at - n;
}

/* The length of ",3421" where the comma is a decimal point, or 0. */
static size_t decimal_comma(const char *p, size_t n)
{
    const size_t after = p[n] == ',' ? digits(p + n + 1) : 0;
    return after && p[n + 1 + after] != ',' ? 1 + after : 0;
}

static size_t exponent(const char *p)
{
    const size_t sign = p[0] && (p[1] == '-' || p[1] == '+');
    const size_t n = *p == 'e' || *p == 'E' ? digits(p + 1 + sign) : 0;
    return n && !letter(p[1 + sign + n]) ? 1 + sign + n : 0;
}

static double suffix(const char **p)
{
    static const struct { char sign; double scale; } all[] = {{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'G', 1e9}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (**p == all[i].sign && !letter((*p)[1]) && !digit((*p)[1])) {
            (*p)++;
            return all[i].scale;
        }
    return 1;
}

static const char *read_word(const char *p, double *value)
{
    const bool minus = *p == '-';
    const char *word = p + (minus || *p == '+');
    static const struct { const char *text; double value; } all[] = {{"nan", NAN}, {"inf", INFINITY}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (strncasecmp(word, all[i].text, 3) == 0 && !letter(word[3]) && !digit(word[3]) && word[3] != '_') {
            *value = minus ? -all[i].value : all[i].value;
            return word + 3;
        }
    return NULL;
}

/* The digits from `p` to `end` without the commas of groups; a decimal comma becomes a point. */
static double value_of(const char *p, const char *end, bool comma_is_point)
{
    char text[DIGITS_MAX];
    size_t n = 0;
    for (; p < end && n + 1 < sizeof(text); p++)
        if (*p != ',')
            text[n++] = *p;
        else if (comma_is_point)
            text[n++] = '.';
    text[n] = '\0';
    return strtod(text, NULL);
}

const char *printed_number_read(const char *p, double *value, bool *whole)
{
    const char *begin = p;
    *whole = false;
    if (read_word(p, value))
        return read_word(p, value);
    p += *p == '-' || *p == '+';
    size_t n = digits(p);
    if (!n && !(*p == '.' && digit(p[1])))
        return NULL;
    const size_t groups = thousands(p, n), comma = groups ? 0 : decimal_comma(p, n);
    p += n + groups + comma;
    *whole = comma == 0;
    if (*p == '.' && !comma && (digit(p[1]) || !letter(p[1]))) {
        const size_t after = digits(p + 1);
        *whole = *whole && !after && !groups;
        p += after ? 1 + after : 0;
    }
    const size_t e = exponent(p);
    p += e;
    *value = value_of(begin, p, comma != 0);
    const double scale = suffix(&p);
    *value *= scale;
    *whole = *whole && !e && scale == 1;
    return p;
}

/* MM:SS, H:MM:SS or H:MM:SS.fraction */
static const char *read_clock(const char *p, double *seconds)
{
    double total = 0;
    int parts = 0;
    for (;; p++) {
        const size_t n = digits(p);
        if (!n || n > 6 || (parts && n != 2))
            return NULL;
        total = total * 60 + strtod(p, NULL);
        p += n;
        parts++;
        if (*p != ':' || !digit(p[1]))
            break;
    }
    if (parts < 2 || parts > 3)
        return NULL;
    *seconds = floor(total);
    return p;
}

static const char *spaces(const char *p)
{
    return p + strspn(p, " ");
}

/* "day", "h" and so on at `p`, with no letter behind it. */
static const char *read_unit(const char *p, double *scale)
{
    static const struct { const char *name; double scale; } all[] = {
        {"days", 86400}, {"day", 86400}, {"d", 86400}, {"hours", 3600}, {"hour", 3600}, {"hrs", 3600}, {"hr", 3600},
        {"h", 3600}, {"minutes", 60}, {"minute", 60}, {"mins", 60}, {"min", 60}, {"ms", 1e-3}, {"us", 1e-6},
        {"\xc2\xb5s", 1e-6}, {"m", 60}, {"seconds", 1}, {"second", 1}, {"secs", 1}, {"sec", 1}, {"s", 1}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        const size_t n = strlen(all[i].name);
        if (strncasecmp(p, all[i].name, n) == 0 && !letter(p[n]) && p[n] != '/') {
            *scale = all[i].scale;
            return p + n;
        }
    }
    return NULL;
}

/* One part, "41m" or "2 h". */
static const char *read_part(const char *p, double *seconds, double *scale)
{
    char *end;
    if (!digit(*p))
        return NULL;
    const double value = strtod(p, &end);
    const char *unit = read_unit(spaces(end), scale);
    if (!unit)
        return NULL;
    *seconds = value * *scale;
    return unit;
}

const char *printed_duration_read(const char *p, double *seconds)
{
    const char *end = read_clock(p, seconds);
    if (end)
        return end;
    double total = 0, part, scale, before = INFINITY;
    while ((p = read_part(p, &part, &scale)) && scale < before) {
        total += part;
        before = scale;
        end = p;
        p = spaces(p + (*p == ','));
        double clock;
        const char *after = scale == 86400 ? read_clock(p, &clock) : NULL;
        if (after) {
            *seconds = total + clock;
            return after;
        }
    }
    if (end)
        *seconds = total;
    return end;
}

/* The pattern: 9 a digit, other characters themselves. */
static const char *shaped(const char *p, const char *pattern)
{
    for (; *pattern; p++, pattern++)
        if (*pattern == '9' ? !digit(*p) : *p != *pattern)
            return NULL;
    return p;
}

static const char *read_day(const char *p)
{
    static const char *const shapes[] = {"9999-99-99", "9999/99/99", "99/99/9999"};
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        const char *end = shaped(p, shapes[i]);
        if (end && !digit(*end))
            return end;
    }
    const char *end = shaped(p, "99/99 99:99:99");
    return end ? end - strlen(" 99:99:99") : NULL;
}

/* "09:13:22.48Z" */
static const char *read_time_of_day(const char *p)
{
    const char *end = shaped(p, "99:99:99");
    if (!end)
        return NULL;
    if ((*end == ',' || *end == '.') && digit(end[1]))
        end += 1 + digits(end + 1);
    return *end == 'Z' ? end + 1 : end;
}

const char *printed_date_read(const char *p)
{
    const char *day = read_day(p);
    if (!day)
        return NULL;
    const char *time = read_time_of_day(day + (*day == 'T' || *day == ' ' || *day == '_' || *day == ','));
    return time ? time : day;
}
