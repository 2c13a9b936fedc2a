/* SPDX-License-Identifier: Apache-2.0 */
/* event_text.c - see event_text.h
 *
 * A row is a template: {key} is replaced by that field of the body, and a part
 * in [brackets] is left out where a field in it is missing or null.
 */
#include "controller/event_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *kind;
    const char *text;
} rows[] = {
    { "submitted", "submitted[ as a new try of job {retry_of}]" },
    { "held", "held" },
    { "released", "released" },
    { "placed", "a new attempt was placed on {node} ({cpus} CPU slots, {gpus} GPUs)" },
    { "agent_up", "its agent answered: pid {pid} on {node}" },
    { "agent_lost", "its agent is lost: {text}" },
    { "stop_requested", "asked to stop: {reason}" },
    { "retry", "{text}" },
    { "done", "{result}[: {reason}]" },
    { "facts", "the agent probed the node" },
    { "plan", "planned[ {np} ranks]" },
    { "setup_started", "setup started" },
    { "setup_done", "setup ended with exit code {exit_code}[ after {ms} ms]" },
    { "generation_started", "generation {generation} started[ with {np} ranks][ from step "
                            "{resume_step}]" },
    { "rank_started", "rank {rank} is at work[, pid {pid}][, from step {resume_step}]"
                      "[ of {steps}]" },
    { "rank_exited", "rank {rank}[ exited with {exit_code}][ was killed by signal {signal}]"
                     "[ after {after_ms} ms]" },
    { "generation_ended", "generation {generation} ended[: {text}][ at step {step}]" },
    { "restart_scheduled", "generation {generation} follows in {delay_ms} ms[: {text}]" },
    { "step", "step {step}[ of {steps}][, loss {loss}]" },
    { "checkpoint", "checkpoint of step {step}: {path}" },
    { "quarantined", "{path} is not used any more: {reason}" },
    { "sample", "sample of step {step}: {path}" },
    { "warning", "[rank {rank}: ]{text}" },
    { "stop_asked", "the agent stops its ranks[: {reason}]" },
    { "attempt_ended", "the attempt {result}[: {text}]" },
};

struct writer {
    char  *out;
    size_t size, at;
    bool   missing;         /* a field that was asked for is not there */
};

static void put(struct writer *w, const char *text, size_t n)
{
    for (size_t i = 0; i < n && w->at + 1 < w->size; i++)
        w->out[w->at++] = text[i];
    w->out[w->at] = 0;
}

static void put_field(struct writer *w, const char *key, size_t n, const json_t *body)
{
    char name[32], number[48];
    snprintf(name, sizeof(name), "%.*s", (int)n, key);
    const json_t *v = json_object_get(body, name);
    const char *text = json_string_value(v);
    if (json_is_integer(v))
        snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(number, sizeof(number), "%.6g", json_real_value(v));
    else if (!text || !text[0])
        w->missing = true;
    if (text)
        put(w, text, strlen(text));
    else if (json_is_number(v))
        put(w, number, strlen(number));
}

static void fill(struct writer *w, const char *t, const json_t *body)
{
    size_t part = 0;
    bool inside = false;
    for (; *t; t++) {
        if (*t == '[') {
            part = w->at;
            inside = true;
            w->missing = false;
        } else if (*t == ']') {
            if (inside && w->missing) {
                w->at = part;
                w->out[part] = 0;
            }
            inside = false;
        } else if (*t == '{' && strchr(t, '}')) {
            size_t n = strcspn(t, "}");
            put_field(w, t + 1, n - 1, body);
            t += n;
        } else {
            put(w, t, 1);
        }
    }
}

void event_text(char *out, size_t size, const char *kind, const json_t *body)
{
    struct writer w = { .out = out, .size = size };
    out[0] = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].kind, kind) == 0) {
            fill(&w, rows[i].text, body);
            return;
        }
    }
    put(&w, kind, strlen(kind));
}
