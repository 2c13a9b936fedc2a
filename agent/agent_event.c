/* SPDX-License-Identifier: Apache-2.0 */
/* agent_event.c - see agent_event.h */
#include "agent/agent_event.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent_core.h"
#include "agent/blame.h"
#include "agent/cause.h"
#include "agent/pace.h"
#include "agent/patience.h"

int64_t agent_event_int(const json_t *line, const char *key, int64_t missing)
{
    const json_t *v = json_object_get(line, key);
    return json_is_integer(v) ? json_integer_value(v) : missing;
}

double agent_event_number(const json_t *line, const char *key)
{
    const json_t *v = json_object_get(line, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

const char *agent_event_text(const json_t *line, const char *key)
{
    return json_string_value(json_object_get(line, key));
}

json_t *agent_event_relay(int generation, const json_t *line, const char *keys)
{
    json_t *body = json_pack("{s:i}", "generation", generation);
    for (const char *p = keys; body && *p;) {
        char key[32];
        size_t n = strcspn(p, " ");
        if (n < sizeof(key)) {
            memcpy(key, p, n);
            key[n] = '\0';
            json_t *v = json_object_get(line, key);
            bool plain = json_is_number(v) || json_is_string(v) || json_is_boolean(v);
            json_object_set_new(body, key, plain ? json_incref(v) : json_null());
        }
        p += n + (p[n] == ' ');
    }
    return body;
}

void agent_event_add_exit(json_t *body, const struct agent_exit *e)
{
    if (!body)
        return;
    if (e->signalled)
        json_object_set_new(body, "signal", json_integer(e->signo));
    else
        json_object_set_new(body, "exit_code", json_integer(e->exit_code));
}

/* A string of any bytes; what is not UTF-8 becomes '?'. */
static json_t *text_value(const char *text, size_t len)
{
    json_t *v = json_stringn(text, len);
    if (v)
        return v;
    char safe[512];
    size_t n = len < sizeof(safe) ? len : sizeof(safe);
    for (size_t i = 0; i < n; i++)
        safe[i] = (unsigned char)text[i] < 0x80 && text[i] ? text[i] : '?';
    return json_stringn(safe, n);
}

json_t *agent_event_lines(const char *text, int most)
{
    json_t *lines = json_array();
    if (!text || !lines)
        return lines;
    size_t end = strlen(text);
    while (end && text[end - 1] == '\n')
        end--;
    while (end > 0 && (int)json_array_size(lines) < most) {
        size_t at = end;
        while (at && text[at - 1] != '\n')
            at--;
        size_t len = end - at < 500 ? end - at : 500;
        json_array_insert_new(lines, 0, text_value(text + at, len));
        end = at ? at - 1 : 0;
    }
    return lines;
}

json_t *agent_event_generation_ended(int generation, const struct blame *blame,
                                     const struct pace *pace, const struct patience *patience)
{
    bool failed = blame->failed;
    json_t *body = json_pack("{s:i, s:s, s:s, s:o, s:o, s:I, s:s, s:O?}", "generation", generation,
                             "cause", cause_name(blame->verdict.cause), "text",
                             failed ? blame->verdict.text : "every rank exited with code 0", "rank",
                             failed ? json_integer(blame->exit.rank) : json_null(), "step",
                             pace->step >= 0 ? json_integer(pace->step) : json_null(), "gained",
                             (json_int_t)pace_gained(pace), "fingerprint",
                             failed ? patience->fingerprint : "", "evidence", blame->evidence);
    agent_event_add_exit(body, &blame->exit);
    return body;
}

json_t *agent_event_totals(const struct blame *blame, const struct pace *pace,
                           const struct patience *patience)
{
    bool code = blame->failed && !blame->exit.signalled;
    return json_pack(
        "{s:s, s:o, s:o, s:I, s:s, s:I, s:I}", "cause", cause_name(blame->verdict.cause), "step",
        pace->best > 0 ? json_integer(pace->best) : json_null(), "exit_code",
        code ? json_integer(blame->exit.exit_code) : json_null(), "productive_ms",
        (json_int_t)pace->productive_ms, "fingerprint", patience->fingerprint, "same_fingerprint",
        (json_int_t)patience->same, "failures_without_progress", (json_int_t)patience->failures);
}
