/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - see watch.h */
#include "agent/monitor/watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/printed/line_pattern.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

struct rule {
    char    name[64];
    struct line_pattern *pattern;
    int64_t every_ms, start_ms; /* 0 = no limit */
    double below;               /* NAN = no limit */
    bool    restart;

    int64_t last_ms; /* time of the last matching line */
    bool    begun, told;
    bool high; /* the number was not below the limit; details: */
    int     rank;
    double  value;
};

struct watch {
    int          n;
    int64_t      since_ms;
    struct rule *rule;
};

static int read_rule(struct rule *r, const json_t *from, struct err *err)
{
    const char *name = json_string_value(json_object_get(from, "name"));
    const char *pattern = json_string_value(json_object_get(from, "pattern"));
    const char *action = json_string_value(json_object_get(from, "action"));
    const json_t *below = json_object_get(from, "below");
    *r = (struct rule){.every_ms = field_seconds_ms(from, "every"),
                       .start_ms = field_seconds_ms(from, "start_within"),
                       .below = json_is_number(below) ? json_number_value(below) : NAN,
                       .restart = !action || strcmp(action, "warn") != 0};
    snprintf(r->name, sizeof(r->name), "%s", name ? name : "");
    if (line_pattern_create(&r->pattern, pattern ? pattern : "", err) < 0)
        return err_prefix(err, "watch %.60s: the pattern cannot be used: ", r->name);
    return 0;
}

int watch_create(struct watch **out, const json_t *rules, struct err *err)
{
    size_t n = json_array_size(rules);
    struct watch *w = calloc(1, sizeof(*w));
    if (w)
        w->rule = calloc(n ? n : 1, sizeof(*w->rule));
    if (!w || !w->rule) {
        free(w);
        return err_set(err, ERR_MEMORY, "no memory to watch output");
    }
    for (; (size_t)w->n < n; w->n++)
        if (read_rule(&w->rule[w->n], json_array_get(rules, (size_t)w->n), err) < 0) {
            watch_destroy(w);
            return -1;
        }
    *out = w;
    return 0;
}

void watch_destroy(struct watch *w)
{
    for (int i = 0; w && i < w->n; i++)
        line_pattern_destroy(w->rule[i].pattern);
    if (w)
        free(w->rule);
    free(w);
}

bool watch_has_rules(const struct watch *w)
{
    return w->n > 0;
}

void watch_begin(struct watch *w, int64_t now_ms)
{
    w->since_ms = now_ms;
    for (int i = 0; i < w->n; i++)
        w->rule[i].begun = w->rule[i].told = w->rule[i].high = false;
}

static void see_value(struct rule *r, int rank, const char *line, const struct line_group *at)
{
    char text[64];
    if (isnan(r->below) || at->begin < 0)
        return;
    snprintf(text, sizeof(text), "%.*s", at->end - at->begin, line + at->begin);
    char *end;
    double v = strtod(text, &end);
    if (end == text || v < r->below)
        return;
    r->high = true;
    r->rank = rank;
    r->value = v;
}

void watch_line(struct watch *w, int rank, const char *line, int64_t now_ms)
{
    struct line_group at;
    for (int i = 0; i < w->n; i++) {
        struct rule *r = &w->rule[i];
        if (!line_pattern_find(r->pattern, line, &at))
            continue;
        r->begun = true;
        r->last_ms = now_ms;
        see_value(r, rank, line, &at);
    }
}

static bool is_broken(const struct watch *w, const struct rule *r, int64_t now_ms)
{
    if (r->told)
        return false;
    if (r->high)
        return true;
    if (!r->begun)
        return r->start_ms > 0 && now_ms - w->since_ms > r->start_ms;
    return r->every_ms > 0 && now_ms - r->last_ms > r->every_ms;
}

bool watch_look(struct watch *w, int64_t now_ms, struct watch_verdict *out)
{
    for (int i = 0; i < w->n; i++) {
        struct rule *r = &w->rule[i];
        if (!is_broken(w, r, now_ms))
            continue;
        r->told = true;
        *out = (struct watch_verdict){.restart = r->restart, .init = !r->begun, .value = r->high};
        if (r->high)
            snprintf(out->text, sizeof(out->text), "watch rule \"%s\": rank %d printed %g (limit: below %g)", r->name,
                     r->rank, r->value, r->below);
        else if (!r->begun)
            snprintf(out->text, sizeof(out->text), "no output matched watch rule \"%s\" within %.3g s of the start",
                     r->name, (double)r->start_ms / 1000);
        else
            snprintf(out->text, sizeof(out->text), "no output matched watch rule \"%s\" for %.1f s (limit %.3g s)",
                     r->name, (double)(now_ms - r->last_ms) / 1000, (double)r->every_ms / 1000);
        return true;
    }
    return false;
}
