/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_hosts.c - see doctor_hosts.h
 *
 *   look -> clock, several times -> listen -> reach (connect to the others) -> leave -> find
 */
#include "controller/checks/doctor_hosts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doctor/doctor_nodes.h"
#include "controller/checks/host_query.h"
#include "controller/spec/host_groups.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum {
    LOOK_MS = 300 * 1000, /* data may be large; pairs of GPUs take a minute */
    MOMENT_MS = 20 * 1000,
    CLOCKS = 3
};

struct round {
    const json_t      *spec;
    json_t            *nodes;     /* for agent/doctor/doctor_nodes.h */
    struct host_query *query;
    json_t           **questions; /* for questions that differ per host */
    size_t             n;
};

static bool answered(const struct round *r, size_t i, const char *key)
{
    const json_t *node = json_array_get(r->nodes, i), *answer = json_object_get(node, key);
    return answer && !json_object_get(node, "error") && !json_object_get(answer, "error");
}

/* Sends the question to all hosts, or to one; takes the reference. */
static void ask(struct round *r, size_t only, json_t *question, const char *key, int limit_ms)
{
    host_query_ask_same(r->query, only == r->n ? HOST_QUERY_ALL : (int)only, question, r->nodes, key, limit_ms);
}

static void look(struct round *r)
{
    ask(r, r->n, json_make("{s:s, s:O}", "ask", "look", "spec", r->spec), "look", LOOK_MS);
}

/* The fastest answer is the most exact: the clock was read within its round trip. */
static void read_clocks(struct round *r)
{
    for (int k = 0; k < CLOCKS; k++) {
        ask(r, r->n, json_make("{s:s}", "ask", "clock"), "clock", MOMENT_MS);
        for (size_t i = 0; i < r->n; i++) {
            double apart, middle = host_query_middle(r->query, i, &apart);
            json_t *node = json_array_get(r->nodes, i);
            const json_t *best = json_object_get(node, "within_ms");
            if (!answered(r, i, "clock") || (best && json_number_value(best) <= apart / 2))
                continue;
            const json_t *said = json_object_get(json_object_get(node, "clock"), "now_ms");
            json_object_set_new(node, "ahead_ms", json_real(json_number_value(said) - middle));
            json_object_set_new(node, "within_ms", json_real(apart / 2));
        }
    }
}

/* The listening endpoints of all other nodes, for one node. */
static json_t *endpoints_for(const struct round *r, size_t node)
{
    json_t *endpoints = json_array();
    for (size_t i = 0; i < r->n; i++) {
        if (i == node || !answered(r, i, "endpoint"))
            continue;
        json_t *endpoint = json_copy(json_object_get(json_array_get(r->nodes, i), "endpoint"));
        json_object_set(endpoint, "host", json_object_get(json_array_get(r->nodes, i), "node"));
        json_array_append_new(endpoints, endpoint);
    }
    return endpoints;
}

static void try_reach_all(struct round *r)
{
    ask(r, r->n, json_make("{s:s}", "ask", "listen"), "endpoint", MOMENT_MS);
    for (size_t i = 0; i < r->n; i++)
        r->questions[i] = json_make("{s:s, s:o}", "ask", "reach", "endpoints", endpoints_for(r, i));
    host_query_ask(r->query, r->questions, r->nodes, "reach", MOMENT_MS);
    for (size_t i = 0; i < r->n; i++) {
        json_t *node = json_array_get(r->nodes, i);
        json_object_set(node, "reached", json_object_get(json_object_get(node, "reach"), "reached"));
        json_decref(r->questions[i]);
    }
}

/* The first host that answers writes a file; the others must find it. */
static void share_a_file(struct round *r)
{
    const char *dir = field_text(json_object_get(r->spec, "checkpoint"), "dir");
    size_t first = 0;
    while (first < r->n && !answered(r, first, "look"))
        first++;
    if (dir[0] != '/' || first == r->n)
        return;
    ask(r, first, json_make("{s:s, s:s}", "ask", "leave", "dir", dir), "left", MOMENT_MS);
    const json_t *left = json_object_get(json_array_get(r->nodes, first), "left");
    if (!answered(r, first, "left"))
        return;
    ask(r, r->n, json_make("{s:s, s:O, s:O}", "ask", "find", "path", json_object_get(left, "path"),
                           "text", json_object_get(left, "text")), "found", MOMENT_MS);
    ask(r, first, json_make("{s:s}", "ask", "take"), "taken", MOMENT_MS);
}

json_t *doctor_hosts(const json_t *spec, struct err *err)
{
    json_t *hosts = json_deep_copy(json_object_get(spec, "hosts")), *answer = NULL;
    struct round r = {.spec = spec, .nodes = json_array()};
    const json_t *host;
    size_t i;
    if (host_groups_expand(hosts, err) < 0)
        goto out;
    r.n = json_array_size(hosts);
    r.questions = calloc(r.n + 1, sizeof(json_t *));
    json_array_foreach (hosts, i, host)
        json_array_append_new(r.nodes, json_make("{s:O}", "node", host));
    if (!r.questions) {
        err_set(err, ERR_MEMORY, "out of memory for %zu hosts", r.n);
        goto out;
    }
    if (host_query_open(&r.query, hosts, err) < 0)
        goto out;
    look(&r);
    read_clocks(&r);
    try_reach_all(&r);
    share_a_file(&r);
    answer = doctor_nodes_check(r.nodes, spec);
out:
    host_query_close(r.query);
    free(r.questions);
    json_decref(r.nodes);
    json_decref(hosts);
    return answer;
}
