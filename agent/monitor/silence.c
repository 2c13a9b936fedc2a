/* SPDX-License-Identifier: Apache-2.0 */
/* silence.c - see silence.h */
#include "agent/monitor/silence.h"

#include <string.h>

#include "engine/base/json_make.h"

enum { WORTH_MS = 60 * 1000, HIGHEST_MS = 366 * 24 * 3600 };

void silence_begin(struct silence *s)
{
    s->quiet_ms = 0;
    s->pace = (struct step_pace){0};
}

/* A quiet time counts once it has ended. */
void silence_pass(struct silence *s, int64_t passed_ms, int64_t quiet_ms)
{
    s->watched_ms += passed_ms;
    if (quiet_ms < s->quiet_ms && s->quiet_ms > s->longest_ms)
        s->longest_ms = s->quiet_ms;
    s->quiet_ms = quiet_ms;
}

int64_t silence_deadline_ms(const struct silence *s, const struct hang_rules *rules, bool blocked)
{
    return hang_rules_silent_ms(rules, s->watched_ms, s->longest_ms, blocked ? 0 : step_pace_usual_ms(&s->pace),
                                s->false_alarms);
}

/* --- between attempts ------------------------------------------------------------------------ */

/* The next smaller power of two minutes, so that the stored value seldom changes. */
static int64_t coarse(int64_t ms)
{
    int64_t c = WORTH_MS;
    while (2 * c <= ms && c < HANG_NEW_MS)
        c *= 2;
    return ms < WORTH_MS ? 0 : c > HANG_NEW_MS ? HANG_NEW_MS : c;
}

json_t *silence_learned(const struct silence *s)
{
    const int64_t watched = coarse(s->watched_ms);
    if (!watched && !s->false_alarms)
        return NULL;
    return json_make("{s:I, s:I, s:i, s:o}", "longest_ms",
                     (json_int_t)((s->longest_ms + 999) / 1000 * 1000), "watched_ms",
                     (json_int_t)watched, "false_alarms", s->false_alarms, "usual",
                     activity_norm_json(&s->norm));
}

static int64_t number(const json_t *object, const char *key)
{
    const json_int_t v = json_integer_value(json_object_get(object, key));
    return v > 0 && v < HIGHEST_MS * INT64_C(1000) ? v : 0;
}

void silence_remember(struct silence *s, const json_t *learned)
{
    memset(s, 0, sizeof(*s));
    s->longest_ms = number(learned, "longest_ms");
    s->watched_ms = number(learned, "watched_ms");
    s->false_alarms = (int)(number(learned, "false_alarms") % 1000);
    activity_norm_read(&s->norm, json_object_get(learned, "usual"));
}
