/* SPDX-License-Identifier: Apache-2.0 */
/* job_history.c - see job_history.h */
#include "controller/requests/job_history.h"

#include "agent/plan/plan.h"
#include "controller/base/utc.h"
#include "controller/job/event_kind.h"
#include "db/events.h"
#include "engine/base/json_make.h"
#include "engine/base/json_text.h"

/* The nodes of an attempt: as placed, updated as they joined or were lost. */
static json_t *fold_names(const json_t *placed)
{
    json_t *nodes = json_array(), *name;
    size_t i;
    json_array_foreach (json_object_get(placed, "nodes"), i, name)
        json_array_append_new(nodes, json_make("{s:I, s:O, s:s}", "node", (json_int_t)i, "name", name,
                                               "state", "placed"));
    return nodes;
}

static void fold_joined(json_t *attempt, const json_t *body)
{
    json_t *nodes = json_deep_copy(json_object_get(body, "nodes")), *one;
    size_t i;
    json_array_foreach (nodes, i, one)
        json_object_set_new(one, "state", json_text("joined"));
    json_object_set_new(attempt, "nodes", nodes);
}

static void fold_node_lost(json_t *attempt, const json_t *body)
{
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(attempt, "nodes"), i, one)
        if (json_equal(json_object_get(one, "name"), json_object_get(body, "name"))) {
            json_object_set_new(one, "state", json_text("lost"));
            json_object_set(one, "text", json_object_get(body, "text"));
        }
}

/* Attempts and generations are derived from the events. */
static void fold_attempt(json_t *attempts, const struct event_row *row, const json_t *body)
{
    json_array_append_new(attempts, json_make(
        "{s:I, s:s, s:n, s:s, s:o, s:n, s:[], s:O?, s:O?, s:o, s:O*}", "attempt", (json_int_t)row->attempt,
        "state", "live", "cause", "text", "", "started_at", utc_json(row->at_ms), "ended_at",
        "generations", "node", json_object_get(body, "node"), "nonce",
        json_object_get(body, "nonce"), "nodes", fold_names(body), "left_out",
        json_object_get(body, "left_out")));
}

static void fold_generation(json_t *attempt, const struct event_row *row, const json_t *body)
{
    json_array_append_new(json_object_get(attempt, "generations"), json_make(
        "{s:O?, s:O?, s:O?, s:O?, s:n, s:s, s:n, s:o, s:n}", "generation",
        json_object_get(body, "generation"), "np", json_object_get(body, "np"), "pids",
        json_object_get(body, "pids"), "resume_step",
        json_object_get(body, "resume_step"), "cause", "text", "", "step", "started_at",
        utc_json(row->at_ms), "ended_at"));
}

static void fold_fields(json_t *out, const struct event_row *row, const json_t *body)
{
    static const char *const keys[] = { "cause", "text", "step", "resume_step" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *v = json_object_get(body, keys[i]);
        if (v && json_object_get(out, keys[i]))
            json_object_set(out, keys[i], v);
    }
    json_object_set_new(out, "ended_at", utc_json(row->at_ms));
}

/* An attempt shows its last plan and the difference to the last plan of earlier attempts. */
static void fold_plan(struct job_history *h, json_t *attempt, const json_t *body)
{
    const json_t *told = json_object_get(attempt, "plan");
    json_t *changes = h->plan ? plan_changes(h->plan, body) : json_array();
    if (told && changes)
        json_array_extend(changes, json_object_get(told, "changes"));
    json_object_set_new(attempt, "plan", json_make("{s:O?, s:O?, s:O?, s:o}", "hash",
                                                   json_object_get(body, "hash"), "why",
                                                   json_object_get(body, "why"), "expects",
                                                   json_object_get(body, "expects"), "changes",
                                                   changes));
    json_decref(h->plan);
    h->plan = json_deep_copy(body);
}

/* NCCL's report on the plan: {"expected", "text", "pairs"}. */
static void fold_nccl(const json_t *attempt, const json_t *body)
{
    json_object_set_new(json_object_get(attempt, "plan"), "nccl",
                        json_make("{s:O?, s:O?, s:O?}", "expected", json_object_get(body, "expected"), "text",
                                  json_object_get(body, "text"), "pairs", json_object_get(body, "pairs")));
}

int job_history_add(void *history, const struct event_row *row)
{
    struct job_history *h = history;
    const enum event_kind kind = event_kind_of(row->kind);
    json_t *attempts = h->attempts, *body = json_loads(row->body, 0, NULL);
    json_t *attempt = json_array_get(attempts, json_array_size(attempts) - 1);
    json_t *generations = json_object_get(attempt, "generations");
    json_t *generation = json_array_get(generations, json_array_size(generations) - 1);
    if (kind == EVENT_SUBMITTED || kind == EVENT_EDITED) {
        json_decref(h->set);
        h->set = json_deep_copy(json_object_get(body, "set"));
    } else if (kind == EVENT_PLACED) {
        fold_attempt(attempts, row, body);
    } else if (kind == EVENT_PLAN && attempt) {
        fold_plan(h, attempt, body);
    } else if (kind == EVENT_NCCL && attempt) {
        fold_nccl(attempt, body);
    } else if (kind == EVENT_NODES && attempt) {
        fold_joined(attempt, body);
    } else if (kind == EVENT_NODE_LOST && attempt) {
        fold_node_lost(attempt, body);
    } else if (kind == EVENT_GENERATION_STARTED && attempt) {
        fold_generation(attempt, row, body);
    } else if (kind == EVENT_RANK_STARTED && generation && json_is_integer(json_object_get(body, "resume_step"))) {
        json_object_set(generation, "resume_step", json_object_get(body, "resume_step"));
    } else if (kind == EVENT_GENERATION_ENDED && generation) {
        fold_fields(generation, row, body);
    } else if (attempt && event_kind_is(kind, EVENT_IS_END)) {
        const char *result = json_string_value(json_object_get(body, "result"));
        if (kind != EVENT_ATTEMPT_ENDED && json_is_null(json_object_get(generation, "ended_at")))
            fold_fields(generation, row, body);
        fold_fields(attempt, row, body);
        json_object_set_new(attempt, "state", json_text(result ? result : kind == EVENT_AGENT_LOST ? "lost" : "failed"));
    }
    json_decref(body);
    return 0;
}
