/* SPDX-License-Identifier: Apache-2.0 */
/* openmetrics.c - see openmetrics.h */
#include "controller/metrics/openmetrics.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/metrics/histogram.h"
#include "engine/base/text_append.h"

static const struct {
    const char *word, *suffix;      /* of its samples */
} kinds[] = {
    [OPENMETRICS_GAUGE] = { "gauge", "" },
    [OPENMETRICS_COUNTER] = { "counter", "_total" },
    [OPENMETRICS_HISTOGRAM] = { "histogram", "" },
    [OPENMETRICS_INFO] = { "info", "_info" },
};

__attribute__((format(printf, 2, 3))) static void put(struct openmetrics *m, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    m->failed |= buf_append(&m->out, text, strlen(text)) < 0;
}

static bool has_unit(const char *name)
{
    static const char *const units[] = { "_seconds", "_bytes", "_ratio", "_celsius", "_watts" };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (text_ends_with(name, units[i]))
            return true;
    return false;
}

void openmetrics_family(struct openmetrics *m, const char *name, enum openmetrics_kind kind, const char *help)
{
    const bool old = m->prometheus;
    const char *suffix = old ? kinds[kind].suffix : "";
    m->family = name;
    m->kind = kind;
    put(m, "# TYPE %s%s %s\n", name, suffix, old && kind == OPENMETRICS_INFO ? "gauge" : kinds[kind].word);
    if (!old && has_unit(name))
        put(m, "# UNIT %s %s\n", name, strrchr(name, '_') + 1);
    put(m, "# HELP %s%s %s\n", name, suffix, help);
}

static void put_escaped(struct openmetrics *m, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '\n' ? "\\n" : *text == '\\' ? "\\\\" : *text == '"' ? "\\\"" : NULL;
        m->failed |= buf_append(&m->out, as ? as : text, as ? 2 : 1) < 0;
    }
}

/* `le`: one more label; NULL: none. */
static void put_labels(struct openmetrics *m, const struct openmetrics_labels *labels, const char *le)
{
    const char *before = "{";
    for (int i = 0; i < 4 && labels->at[i].name; i++) {
        put(m, "%s%s=\"", before, labels->at[i].name);
        put_escaped(m, labels->at[i].value);
        put(m, "\"");
        before = ",";
    }
    if (le)
        put(m, "%sle=\"%s\"", before, le);
    if (le || labels->at[0].name)
        put(m, "}");
}

static void put_number(char text[32], double value)
{
    if (value == floor(value) && fabs(value) < 1e15)
        snprintf(text, 32, "%.1f", value);
    else
        snprintf(text, 32, "%.15g", value);
}

void openmetrics_sample(struct openmetrics *m, struct openmetrics_labels labels, double value)
{
    char number[32];
    if (!isfinite(value))
        return;
    put_number(number, value);
    put(m, "%s%s", m->family, kinds[m->kind].suffix);
    put_labels(m, &labels, NULL);
    put(m, " %s\n", number);
}

void openmetrics_histogram(struct openmetrics *m, struct openmetrics_labels labels, const struct histogram *h)
{
    char le[32], sum[32];
    for (int i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        if (i < HISTOGRAM_BOUNDS)
            put_number(le, h->bounds[i]);
        put(m, "%s_bucket", m->family);
        put_labels(m, &labels, i < HISTOGRAM_BOUNDS ? le : "+Inf");
        put(m, " %lld\n", (long long)histogram_below(h, i));
    }
    put_number(sum, h->sum);
    put(m, "%s_sum", m->family);
    put_labels(m, &labels, NULL);
    put(m, " %s\n%s_count", sum, m->family);
    put_labels(m, &labels, NULL);
    put(m, " %lld\n", (long long)histogram_below(h, HISTOGRAM_BOUNDS));
}

char *openmetrics_end(struct openmetrics *m)
{
    if (!m->prometheus)
        put(m, "# EOF\n");
    char *text = m->failed ? NULL : buf_take(&m->out);
    buf_fini(&m->out);
    return text;
}

bool openmetrics_wanted(const char *accept)
{
    return accept && strstr(accept, "application/openmetrics-text");
}
