/* SPDX-License-Identifier: Apache-2.0 */
/* printed_number.c - see printed_number.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/printed_number.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
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

static size_t letters(const char *p)
{
    size_t n = 0;
    while (letter(p[n]))
        n++;
    return n;
}

static size_t digits(const char *p)
{
    return strspn(p, "0123456789");
}

static const char *spaces(const char *p)
{
    return p + strspn(p, " ");
}

/* --- numbers ---------------------------------------------------------------------------- */

static const char *read_word(const char *p, double *value)
{
    const bool minus = *p == '-';
    const char *word = p + (minus || *p == '+');
    const bool nan = strncasecmp(word, "nan", 3) == 0, inf = strncasecmp(word, "inf", 3) == 0;
    if ((!nan && !inf) || letter(word[3]) || digit(word[3]) || word[3] == '_')
        return NULL;
    *value = nan ? NAN : minus ? -INFINITY : INFINITY;
    return word + 3;
}

/* Groups of three digits behind `n` leading ones: the length of ",200" or ",200,000", or 0. */
static size_t thousands(const char *p, size_t n)
{
    size_t at = n;
    if (n > 3 || p[0] == '0')
        return 0;
    while (p[at] == ',' && digits(p + at + 1) == 3)
        at += 4;
    return at - n;
}

/* The length of ".5", or of ",3421" where the comma is a decimal point; 0: none. */
static size_t fraction(const char *p)
{
    const size_t n = *p == '.' || *p == ',' ? digits(p + 1) : 0;
    return n && (*p == '.' || p[1 + n] != ',') ? 1 + n : 0;
}

static size_t exponent(const char *p)
{
    const size_t sign = p[0] && (p[1] == '-' || p[1] == '+');
    const size_t n = *p == 'e' || *p == 'E' ? digits(p + 1 + sign) : 0;
    return n && !letter(p[1 + sign + n]) ? 1 + sign + n : 0;
}

static double suffix(const char **p)
{
    const char c = **p;
    const double scale = c == 'k' || c == 'K' ? 1e3 : c == 'M' ? 1e6 : c == 'G' ? 1e9 : 1;
    if (scale == 1 || letter((*p)[1]) || digit((*p)[1]))
        return 1;
    ++*p;
    return scale;
}

const char *printed_number_read(const char *p, double *value)
{
    char text[DIGITS_MAX] = "";
    size_t size = 0;
    const char *begin = p, *word = read_word(p, value);
    if (word)
        return word;
    p += *p == '-' || *p == '+';
    const size_t n = digits(p), groups = n ? thousands(p, n) : 0;
    if (!n && !(*p == '.' && digit(p[1])))
        return NULL;
    const char *point = p + n + groups;
    p = point + (groups && *point == ',' ? 0 : fraction(point));
    p += exponent(p);
    for (; begin < p && size + 1 < sizeof(text); begin++)
        if (*begin != ',' || begin == point)
            text[size++] = *begin == ',' ? '.' : *begin;
    *value = strtod(text, NULL) * suffix(&p);
    return p;
}

/* --- durations -------------------------------------------------------------------------- */

static const struct { const char *name; double scale; } times[] = {
    {"days", 86400}, {"day", 86400}, {"d", 86400}, {"hours", 3600}, {"hour", 3600}, {"hrs", 3600}, {"hr", 3600},
    {"h", 3600}, {"minutes", 60}, {"minute", 60}, {"mins", 60}, {"min", 60}, {"m", 60}, {"ms", 1e-3}, {"us", 1e-6},
    {"\xc2\xb5s", 1e-6}, {"seconds", 1}, {"second", 1}, {"secs", 1}, {"sec", 1}, {"s", 1}};

/* The seconds of one "h", "min" or "ms" of `n` letters; 0: it is none of them. */
static double time_scale(const char *p, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        if (strlen(times[i].name) == n && strncasecmp(p, times[i].name, n) == 0)
            return times[i].scale;
    return 0;
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
    *seconds = floor(total);
    return parts == 2 || parts == 3 ? p : NULL;
}

/* One part, "41m" or "2 h". */
static const char *read_part(const char *p, double *value, double *scale)
{
    char *end;
    if (!digit(*p))
        return NULL;
    *value = strtod(p, &end);
    const char *unit = spaces(end);
    const size_t n = letters(unit);
    *scale = unit[n] == '/' ? 0 : time_scale(unit, n);
    return *scale > 0 ? unit + n : NULL;
}

const char *printed_duration_read(const char *p, double *seconds)
{
    const char *end = read_clock(p, seconds);
    if (end)
        return end;
    double total = 0, value, scale, before = INFINITY;
    while ((p = read_part(p, &value, &scale)) && scale < before) {
        total += value * scale;
        before = scale;
        end = p;
        p = spaces(p + (*p == ','));
        const char *after = scale == 86400 ? read_clock(p, &value) : NULL;
        if (after) {
            *seconds = total + value;
            return after;
        }
    }
    if (end)
        *seconds = total;
    return end;
}

/* --- dates ------------------------------------------------------------------------------ */

/* The pattern: 9 a digit, other characters themselves. */
static const char *shaped(const char *p, const char *pattern)
{
    for (; *pattern; p++, pattern++)
        if (*pattern == '9' ? !digit(*p) : *p != *pattern)
            return NULL;
    return p;
}

const char *printed_date_read(const char *p)
{
    static const char *const shapes[] = {"9999-99-99", "9999/99/99", "99/99/9999", "99/99 99:99:99"};
    const char *end = NULL;
    for (size_t i = 0; !end && i < ARRAY_LEN(shapes); i++)
        end = shaped(p, shapes[i]);
    if (!end || digit(*end))
        return NULL;
    const char *time = end[-3] == ':' ? end : shaped(end + (*end && strchr("T _,", *end)), "99:99:99");
    if (!time)
        return end;
    if ((*time == ',' || *time == '.') && digit(time[1]))
        time += 1 + digits(time + 1);
    return *time == 'Z' ? time + 1 : time;
}

/* --- units ------------------------------------------------------------------------------ */

/* In the singular; an 's' or "es" may follow. */
static const struct { const char *name; enum printed_count counts; } things[] = {
    {"it", COUNT_STEPS}, {"iter", COUNT_STEPS}, {"iteration", COUNT_STEPS}, {"step", COUNT_STEPS},
    {"batch", COUNT_STEPS}, {"ba", COUNT_STEPS}, {"update", COUNT_STEPS}, {"schritt", COUNT_STEPS},
    {"opt", COUNT_STEPS}, {"epoch", COUNT_EPOCHS}, {"ep", COUNT_EPOCHS}, {"sample", COUNT_SAMPLES},
    {"img", COUNT_SAMPLES}, {"image", COUNT_SAMPLES}, {"seq", COUNT_SAMPLES}, {"tok", COUNT_TOKENS},
    {"token", COUNT_TOKENS}, {"word", COUNT_TOKENS}, {"example", COUNT_OTHER}, {"key", COUNT_OTHER},
    {"file", COUNT_OTHER}, {"table", COUNT_OTHER}, {"object", COUNT_OTHER},
};

/* An enum printed_count, or -1. */
static int thing(const char *p, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(things); i++) {
        const size_t m = strlen(things[i].name);
        if (m <= n && strncasecmp(p, things[i].name, m) == 0 &&
            (n == m || (n == m + 1 && p[m] == 's') || (n == m + 2 && strncmp(p + m, "es", 2) == 0)))
            return (int)things[i].counts;
    }
    return -1;
}

/* B, kB, MB, MiB, GiB, Mo */
static bool is_bytes(const char *p, size_t n)
{
    if (n == 1)
        return *p == 'B';
    return n && n <= 3 && strchr("kKMGT", p[0]) && (p[n - 1] == 'B' || (n == 2 && p[1] == 'o')) &&
           (n == 2 || p[1] == 'i');
}

/* "s/it", "it/s", "Mtok/s", "MB/s" */
static struct printed_unit ratio(const char *p, size_t n, const char *below, size_t m)
{
    const double each = time_scale(p, n);
    if (is_bytes(p, n))
        return (struct printed_unit){UNIT_BYTES, 0, 1};
    if (each > 0 && thing(below, m) >= 0)
        return (struct printed_unit){UNIT_SECONDS_EACH, (enum printed_count)thing(below, m), each};
    const double many = *p == 'k' || *p == 'K' ? 1e3 : *p == 'M' ? 1e6 : *p == 'G' ? 1e9 : 1;
    const bool prefixed = many > 1 && thing(p, n) < 0;
    const int counts = thing(p + prefixed, n - prefixed);
    if (time_scale(below, m) == 1 && counts >= 0)
        return (struct printed_unit){UNIT_PER_SECOND, (enum printed_count)counts, prefixed ? many : 1};
    return (struct printed_unit){UNIT_OTHER, 0, 1};
}

const char *printed_unit_read(const char *p, struct printed_unit *unit)
{
    p = spaces(p);
    const size_t n = letters(p), below = n && p[n] == '/' ? letters(p + n + 1) : 0;
    const char *end = p + n + (below ? 1 + below : 0);
    *unit = (struct printed_unit){UNIT_OTHER, 0, 1};
    if (*p == '%')
        return p + 1;
    if (!n || digit(*end) || *end == '_')
        return NULL;
    if (below)
        *unit = ratio(p, n, p + n + 1, below);
    else if (time_scale(p, n) > 0)
        *unit = (struct printed_unit){UNIT_SECONDS, 0, time_scale(p, n)};
    else if (is_bytes(p, n))
        unit->kind = UNIT_BYTES;
    return unit->kind == UNIT_OTHER ? NULL : end;
}
