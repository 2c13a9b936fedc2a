/* SPDX-License-Identifier: Apache-2.0 */
/* job_core_json.c - see job_core_json.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/job/job_core_json.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "controller/job/job_core.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum type { NUMBER, SHORT, TRUTH, TEXT, NUMBERS };

#define FIELD(type, name) { type, #name, offsetof(struct job_core, name), sizeof(((struct job_core *)0)->name) }

/* All of the core but `id`, `state` and `result`. */
static const struct field {
    enum type   type;
    const char *key;
    size_t      at, size;
} fields[] = {
    FIELD(SHORT, exit_code),          FIELD(TRUTH, held),           FIELD(TRUTH, live),
    FIELD(TRUTH, agent_known),        FIELD(TRUTH, stop_limit),     FIELD(TRUTH, stop_now),
    FIELD(NUMBER, priority),          FIELD(NUMBER, attempt),       FIELD(NUMBER, generation),
    FIELD(NUMBER, np),                FIELD(NUMBER, cpus),          FIELD(NUMBER, gpus),
    FIELD(NUMBER, not_before_ms),     FIELD(NUMBER, backoff_ms),    FIELD(NUMBER, step),
    FIELD(NUMBER, steps),             FIELD(NUMBER, best),          FIELD(NUMBER, checkpoint),
    FIELD(NUMBER, stored_step),       FIELD(NUMBER, attempt_best),  FIELD(NUMBER, failures),
    FIELD(NUMBER, same),              FIELD(NUMBER, submitted_ms),  FIELD(NUMBER, started_ms),
    FIELD(NUMBER, ended_ms),          FIELD(NUMBER, jumped_ms),     FIELD(NUMBERS, clock),
    FIELD(NUMBER, boot),              FIELD(NUMBERS, goodput),      FIELD(NUMBER, gen_from),
    FIELD(NUMBER, gen_best),          FIELD(NUMBER, rules.max),     FIELD(NUMBER, rules.no_progress),
    FIELD(SHORT, rules.same_line),    FIELD(SHORT, rules.early_ms), FIELD(NUMBER, rules.same_line_ms),
    FIELD(NUMBER, rules.backoff_min_ms), FIELD(NUMBER, rules.backoff_max_ms), FIELD(TEXT, nonce),
    FIELD(TEXT, node),                FIELD(TEXT, fingerprint),     FIELD(TEXT, reason),
};
_Static_assert(sizeof(struct job_goodput) % sizeof(int64_t) == 0, "numbers only");

static json_t *numbers_make(const char *at, size_t size)
{
    json_t *list = json_array();
    for (size_t i = 0; i < size; i += sizeof(int64_t)) {
        int64_t n;
        memcpy(&n, at + i, sizeof(n));
        json_array_append_new(list, json_integer(n));
    }
    return list;
}

static json_t *value_make(const struct field *f, const char *at)
{
    int64_t n;
    int32_t little;
    bool truth;
    switch (f->type) {
    case NUMBER:
        memcpy(&n, at, sizeof(n));
        return json_integer(n);
    case SHORT:
        memcpy(&little, at, sizeof(little));
        return json_integer(little);
    case TRUTH:
        memcpy(&truth, at, sizeof(truth));
        return json_boolean(truth);
    case TEXT:
        return json_text(at);
    case NUMBERS:
        return numbers_make(at, f->size);
    }
    return NULL;
}

json_t *job_core_json_make(const struct job_core *core)
{
    json_t *out = json_make("{s:s, s:s}", "state", job_state_name(core->state), "result",
                            job_result_name(core->result));
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        json_object_set_new(out, fields[i].key, value_make(&fields[i], (const char *)core + fields[i].at));
    if (json_object_size(out) == ARRAY_LEN(fields) + 2)
        return out;
    json_decref(out);
    return NULL;
}

static bool numbers_read(char *at, size_t size, const json_t *list)
{
    bool whole = json_array_size(list) == size / sizeof(int64_t);
    for (size_t i = 0; whole && i < size / sizeof(int64_t); i++) {
        const int64_t n = json_integer_value(json_array_get(list, i));
        whole = json_is_integer(json_array_get(list, i));
        memcpy(at + i * sizeof(n), &n, sizeof(n));
    }
    return whole;
}

static bool value_read(char *at, const struct field *f, const json_t *value)
{
    const int64_t n = json_integer_value(value);
    const int32_t little = (int32_t)n;
    const bool truth = json_is_true(value);
    switch (f->type) {
    case NUMBER:
        memcpy(at, &n, sizeof(n));
        return json_is_integer(value);
    case SHORT:
        memcpy(at, &little, sizeof(little));
        return json_is_integer(value) && little == n;
    case TRUTH:
        memcpy(at, &truth, sizeof(truth));
        return json_is_boolean(value);
    case TEXT:
        if (!json_is_string(value))
            return false;
        snprintf(at, f->size, "%s", json_string_value(value));
        err_make_printable(at);
        return true;
    case NUMBERS:
        return numbers_read(at, f->size, value);
    }
    return false;
}

int job_core_json_read(struct job_core *core, const json_t *json, struct err *err)
{
    struct job_core read = { .id = core->id };
    int state = 0;
    while (state < JOB_STATES && strcmp(job_state_name((enum job_state)state), field_text(json, "state")) != 0)
        state++;
    if (state == JOB_STATES || !json_is_string(json_object_get(json, "result")) ||
        job_result_parse(&read.result, field_text(json, "result")) < 0)
        return err_set(err, ERR_DATA, "the state of job %lld has no valid `state` or `result`", (long long)core->id);
    read.state = (enum job_state)state;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!value_read((char *)&read + fields[i].at, &fields[i], json_object_get(json, fields[i].key)))
            return err_set(err, ERR_DATA, "the state of job %lld has no valid `%s`", (long long)core->id,
                           fields[i].key);
    *core = read;
    return 0;
}
