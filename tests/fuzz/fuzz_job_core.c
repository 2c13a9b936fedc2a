/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_job_core.c - the life of a job, as reported by an agent of any version
 *
 * Each line is a JSON object, one input: {"in": 3, "at": ms, "attempt": n,
 * "event": kind, "text": words, "body": {}}; "in" counts as enum
 * core_input_kind.  Whatever the input: a refused input changes nothing, replaying
 * the events gives the same job, what is stored is JSON, only the controller
 * and an attempt's last event end a job, and done is done.
 */
#include <stdbool.h>
#include <string.h>

#include "controller/job/job_core.h"
#include "engine/base/err.h"
#include "tests/fuzz/target.h"

enum { INPUTS = 64 };
#define FAR INT64_C(4000000000000) /* ms: the year 2096 */

static bool is_text(const char *text)
{
    json_t *s = json_string(text);
    json_decref(s);
    return s != NULL;
}

static void check_same(const struct job_core *a, const struct job_core *b)
{
    PROMISE(a->state == b->state && a->result == b->result && a->exit_code == b->exit_code);
    PROMISE(a->held == b->held && a->live == b->live && a->agent_known == b->agent_known);
    PROMISE(a->attempt == b->attempt && a->generation == b->generation && a->np == b->np);
    PROMISE(a->step == b->step && a->steps == b->steps && a->best == b->best);
    PROMISE(a->checkpoint == b->checkpoint && a->failures == b->failures && a->same == b->same);
    PROMISE(memcmp(&a->goodput, &b->goodput, sizeof(a->goodput)) == 0);
    PROMISE(a->gen_from == b->gen_from && a->gen_best == b->gen_best);
    PROMISE(a->attempt_best == b->attempt_best);
    PROMISE(a->not_before_ms == b->not_before_ms && a->cpus == b->cpus && a->gpus == b->gpus);
    PROMISE(strcmp(a->reason, b->reason) == 0 && strcmp(a->nonce, b->nonce) == 0);
    PROMISE(strcmp(a->fingerprint, b->fingerprint) == 0 && strcmp(a->node, b->node) == 0);
}

static void check_step(const struct job_core *before, const struct job_core *after,
                       const struct core_input *in, const struct core_output *out)
{
    struct err err = {0};
    struct job_core replayed = *before;
    PROMISE(out->count >= 0 && out->count <= CORE_EVENTS);
    for (int i = 0; i < out->count; i++) {
        PROMISE(json_is_object(out->events[i].body));
        PROMISE(job_core_replay(&replayed, &out->events[i], &err) == 0);
    }
    check_same(&replayed, after);
    PROMISE(before->state != JOB_DONE);
    PROMISE(is_text(after->reason) && is_text(after->node) && is_text(after->fingerprint));
    struct goodput spent;
    job_core_spent(&spent, after, in->at_ms);
    PROMISE(goodput_adds_up(&spent));
    if (in->kind == CORE_AGENT_EVENT) {
        PROMISE(in->attempt == before->attempt && before->live);
        PROMISE(after->attempt == before->attempt);
        PROMISE(after->held == before->held || after->state == JOB_DONE);
        PROMISE(after->state != JOB_DONE || strcmp(in->event, "attempt_ended") == 0);
        PROMISE(after->live || strcmp(in->event, "attempt_ended") == 0);
    }
    if (after->state == JOB_DONE) {
        PROMISE(after->result != RESULT_NONE && !after->live && !job_core_waits(after));
        PROMISE(out->events[out->count - 1].kind == EVENT_DONE);
    }
}

static int64_t number(const json_t *line, const char *key, int64_t most)
{
    int64_t n = json_integer_value(json_object_get(line, key));
    return n < 0 ? 0 : n > most ? most : n;
}

static const char *word(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "";
}

/* What the controller itself puts in is its own: only times, words and agents are outside. */
static json_t *body_of(const json_t *line, enum core_input_kind kind)
{
    if (kind == CORE_SUBMIT)
        return json_pack("{s:s, s:i, s:{s:i, s:i, s:[i, i]}}", "name", "x", "priority", 0, "retry",
                         "max", 10, "no_progress", 3, "backoff_ms", 5000, 300000);
    if (kind == CORE_PLACE)
        return json_pack("{s:s, s:s, s:i, s:i}", "nonce", "0123456789abcdef", "node", "n1", "cpus", 1, "gpus", 0);
    json_t *body = json_object_get(line, "body");
    return json_is_object(body) ? json_incref(body) : json_object();
}

static void feed(struct job_core *core, const json_t *line, uint64_t random)
{
    struct err err = {0};
    struct core_output out = {0};
    const struct job_core before = *core;
    struct core_input in = {
        .kind = (enum core_input_kind)number(line, "in", CORE_INPUTS - 1),
        .at_ms = number(line, "at", FAR), .random = random * 0x9E3779B97F4A7C15u,
        .attempt = json_integer_value(json_object_get(line, "attempt")),
        .event = word(line, "event"), .text = word(line, "text"),
    };
    json_t *body = body_of(line, in.kind);
    PROMISE(body);
    in.body = body;
    if (job_core_step(core, &in, &out, &err) < 0) {
        PROMISE(err.code == ERR_CONFLICT && err.text[0]);
        PROMISE(memcmp(core, &before, sizeof(before)) == 0);
    } else {
        check_step(&before, core, &in, &out);
        core_output_fini(&out);
    }
    json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job_core core;
    size_t at = 0;
    job_core_init(&core, 7);
    for (unsigned i = 0; i < INPUTS && at < size; i++) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t len = end ? (size_t)(end - data) - at : size - at;
        json_t *line = json_loadb((const char *)data + at, len, 0, NULL);
        if (json_is_object(line))
            feed(&core, line, i);
        json_decref(line);
        at += len + 1;
    }
    return 0;
}
