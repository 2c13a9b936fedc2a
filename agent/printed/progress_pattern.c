/* SPDX-License-Identifier: Apache-2.0 */
/* progress_pattern.c - see progress_pattern.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/progress_pattern.h"

#include <stddef.h>
#include <string.h>

#include "agent/printed/printed_number.h"
#include "engine/base/err.h"

/* The field whose name is name[0, n), or -1. */
static int field_of(const char *name, size_t n)
{
    for (int f = 0; f < PRINTED_FIELDS; f++) {
        const char *known = printed_field_name((enum printed_field)f);
        if (strlen(known) == n && memcmp(known, name, n) == 0)
            return f;
    }
    return -1;
}

int progress_pattern_check(const char *pattern, struct err *err)
{
    bool counts = false;
    for (const char *p = strchr(pattern, '{'); p; p = strchr(p + 1, '{')) {
        const size_t n = strcspn(p + 1, "{}");
        const int f = field_of(p + 1, n);
        if (p[1 + n] != '}')
            return err_set(err, ERR_USAGE, "'%.40s' has no closing brace", p);
        if (f < 0)
            return err_set(err, ERR_USAGE,
                           "unknown field '{%.*s}'; known are {step}, {steps}, {epoch}, {epochs}, {loss}, {lr}, "
                           "{per_s}, {s_per_step}, {eta_s} and {percent}", (int)n, p + 1);
        counts = counts || f == PRINTED_STEP || f == PRINTED_EPOCH;
    }
    return counts ? 0 : err_set(err, ERR_USAGE, "the pattern needs {step} or {epoch}");
}

static const char *read_field(const char *line, int field, struct printed_progress *out)
{
    double value;
    line += strspn(line, " ");
    const char *end = field == PRINTED_ETA_S ? printed_duration_read(line, &value) : NULL;
    if (!end)
        end = printed_number_read(line, &value);
    if (end && field >= 0) {
        out->told |= 1u << field;
        out->value[field] = value;
    }
    return end;
}

const char *progress_pattern_match(const char *pattern, size_t n, const char *line, struct printed_progress *out)
{
    for (const char *end = pattern + n; pattern < end;) {
        if (*pattern == '{') {
            const size_t name = strcspn(pattern + 1, "}");
            line = read_field(line, field_of(pattern + 1, name), out);
            if (!line)
                return NULL;
            pattern += name + 2;
        } else if (*pattern == ' ') {
            pattern += strspn(pattern, " ");
            line += strspn(line, " \t");
        } else if (*pattern++ != *line++) {
            return NULL;
        }
    }
    return line;
}

/* The first place at or behind `line` where the part matches. */
static const char *find_part(const char *pattern, size_t n, const char *line, struct printed_progress *out)
{
    for (; *line || n == 0; line++) {
        struct printed_progress found = *out;
        const char *end = progress_pattern_match(pattern, n, line, &found);
        if (end) {
            *out = found;
            return end;
        }
    }
    return NULL;
}

bool progress_pattern_read(const char *pattern, const char *line, struct printed_progress *out)
{
    struct printed_progress found = {.rank = -1};
    while (line && *pattern) {
        const char *dots = strstr(pattern, "...");
        const size_t n = dots ? (size_t)(dots - pattern) : strlen(pattern);
        line = find_part(pattern, n, line, &found);
        pattern += n + (dots ? 3 : 0);
    }
    if (!line || !found.told)
        return false;
    *out = found;
    return true;
}
