/* SPDX-License-Identifier: Apache-2.0 */
/* printed_unit.c - see printed_unit.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/printed_unit.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct name {
    const char *text;
    enum printed_count counts;
};

/* clang-format off */
static const struct name counted[] = {
    {"it", COUNT_STEPS}, {"its", COUNT_STEPS}, {"iter", COUNT_STEPS}, {"iters", COUNT_STEPS},
    {"iteration", COUNT_STEPS}, {"iterations", COUNT_STEPS}, {"step", COUNT_STEPS}, {"steps", COUNT_STEPS},
    {"batch", COUNT_STEPS}, {"batches", COUNT_STEPS}, {"ba", COUNT_STEPS}, {"update", COUNT_STEPS},
    {"updates", COUNT_STEPS}, {"schritt", COUNT_STEPS}, {"opt", COUNT_STEPS}, {"epoch", COUNT_EPOCHS},
    {"epochs", COUNT_EPOCHS}, {"ep", COUNT_EPOCHS}, {"sample", COUNT_SAMPLES}, {"samples", COUNT_SAMPLES},
    {"img", COUNT_SAMPLES}, {"imgs", COUNT_SAMPLES}, {"image", COUNT_SAMPLES}, {"images", COUNT_SAMPLES},
    {"seq", COUNT_SAMPLES}, {"seqs", COUNT_SAMPLES}, {"tok", COUNT_TOKENS}, {"toks", COUNT_TOKENS},
    {"token", COUNT_TOKENS}, {"tokens", COUNT_TOKENS}, {"word", COUNT_TOKENS}, {"words", COUNT_TOKENS},
    {"example", COUNT_OTHER}, {"examples", COUNT_OTHER}, {"key", COUNT_OTHER}, {"keys", COUNT_OTHER},
    {"file", COUNT_OTHER}, {"files", COUNT_OTHER}, {"tables", COUNT_OTHER}, {"objects", COUNT_OTHER},
};
static const struct { const char *text; double scale; } seconds[] = {
    {"ms", 1e-3}, {"us", 1e-6}, {"s", 1}, {"sec", 1}, {"secs", 1}, {"second", 1}, {"seconds", 1}, {"min", 60},
};
/* clang-format on */

static size_t letters(const char *p)
{
    size_t n = 0;
    while (isalpha((unsigned char)p[n]))
        n++;
    return n;
}

static bool same(const char *name, const char *p, size_t n)
{
    return strlen(name) == n && strncasecmp(name, p, n) == 0;
}

static double seconds_scale(const char *p, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(seconds); i++)
        if (same(seconds[i].text, p, n))
            return seconds[i].scale;
    return 0;
}

static const struct name *counted_name(const char *p, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(counted); i++)
        if (same(counted[i].text, p, n))
            return &counted[i];
    return NULL;
}

/* B, kB, MB, MiB, GiB, Mo */
static bool bytes_name(const char *p, size_t n)
{
    if (n == 1)
        return *p == 'B';
    return n <= 3 && strchr("kKMGT", p[0]) && (p[n - 1] == 'B' || (n == 2 && p[1] == 'o')) && (n == 2 || p[1] == 'i');
}

static double si_scale(char c)
{
    return c == 'k' || c == 'K' ? 1e3 : c == 'M' ? 1e6 : c == 'G' ? 1e9 : 0;
}

/* "it/s", "Mtok/s" */
static struct printed_unit per_second(const char *p, size_t n)
{
    const struct name *name = counted_name(p, n);
    double scale = 1;
    if (!name && n > 1 && si_scale(*p) > 0) {
        name = counted_name(p + 1, n - 1);
        scale = si_scale(*p);
    }
    return name ? (struct printed_unit){UNIT_PER_SECOND, name->counts, scale} : (struct printed_unit){UNIT_OTHER, 0, 1};
}

static struct printed_unit ratio(const char *p, size_t n, const char *below)
{
    const size_t m = letters(below);
    const double each = seconds_scale(p, n);
    const struct name *name = counted_name(below, m);
    if (bytes_name(p, n))
        return (struct printed_unit){UNIT_BYTES, 0, 1};
    if (each > 0 && name)
        return (struct printed_unit){UNIT_SECONDS_EACH, name->counts, each};
    return seconds_scale(below, m) == 1 ? per_second(p, n) : (struct printed_unit){UNIT_OTHER, 0, 1};
}

struct printed_unit printed_unit_of(const char *p)
{
    const size_t n = letters(p);
    if (!*p)
        return (struct printed_unit){UNIT_NONE, 0, 1};
    if (n && p[n] == '/')
        return ratio(p, n, p + n + 1);
    if (seconds_scale(p, n) > 0)
        return (struct printed_unit){UNIT_SECONDS, 0, seconds_scale(p, n)};
    return (struct printed_unit){bytes_name(p, n) ? UNIT_BYTES : UNIT_OTHER, 0, 1};
}

size_t printed_unit_length(const char *p)
{
    char text[32];
    size_t n = letters(p);
    if (n && p[n] == '/' && letters(p + n + 1))
        n += 1 + letters(p + n + 1);
    if (*p == '%')
        return 1;
    if (!n || n >= sizeof(text) || p[n] == '_' || (unsigned char)p[n] >= 0x80 || isdigit((unsigned char)p[n]))
        return 0;
    snprintf(text, sizeof(text), "%.*s", (int)n, p);
    return printed_unit_of(text).kind == UNIT_OTHER ? 0 : n;
}
