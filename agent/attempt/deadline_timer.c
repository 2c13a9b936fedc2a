/* SPDX-License-Identifier: Apache-2.0 */
/* deadline_timer.c - see deadline_timer.h */
#include "agent/attempt/deadline_timer.h"

#include <stddef.h>
#include <stdio.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const int64_t leads_s[] = {600, 180, 60};

int64_t deadline_timer_of(const json_t *facts, int64_t now_s)
{
    const json_t *session = json_object_get(facts, "session");
    const json_t *ends = json_object_get(session, "ends_at_s");
    const json_t *limit = json_object_get(session, "limit_s");
    const json_t *age = json_object_get(session, "age_s");
    if (json_is_integer(ends))
        return json_integer_value(ends);
    if (!json_is_integer(limit) || !json_is_integer(age))
        return 0;
    return now_s + json_integer_value(limit) - json_integer_value(age);
}

int64_t deadline_timer_next(int64_t deadline_s, int64_t now_s)
{
    for (size_t i = 0; deadline_s > 0 && i < ARRAY_LEN(leads_s); i++)
        if (deadline_s - leads_s[i] > now_s)
            return deadline_s - leads_s[i];
    return 0;
}

const char *deadline_timer_text(char out[DEADLINE_TIMER_TEXT], const char *who, int64_t deadline_s, int64_t now_s)
{
    long long left = deadline_s - now_s;
    snprintf(out, DEADLINE_TIMER_TEXT, "%.80s ends in %lld %s: requesting a checkpoint", who ? who : "this machine",
             left >= 120 ? (left + 30) / 60 : left, left >= 120 ? "min" : "s");
    return out;
}
