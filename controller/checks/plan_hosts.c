/* SPDX-License-Identifier: Apache-2.0 */
/* plan_hosts.c - see plan_hosts.h */
#include "controller/checks/plan_hosts.h"

#include <stdlib.h>

#include "agent/plan/plan.h"
#include "agent/plan/plan_nodes.h"
#include "controller/checks/host_query.h"
#include "controller/spec/host_groups.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { FACTS_MS = 60 * 1000, MEMORY_MS = 120 * 1000 };

struct inquiry {
    const json_t  *spec;
    json_t *nodes; /* one per host: {"node", "facts":{"facts"}} or {"node", "error"} */
    struct host_query *query;
    size_t             n, first; /* first: the first host that answers; n: none does */
    json_t            *notes;
};

/* Sends the question; takes the reference. */
static void ask(struct inquiry *q, size_t only, json_t *question, const char *key, int limit_ms)
{
    host_query_ask_same(q->query, only == q->n ? HOST_QUERY_ALL : (int)only, question, q->nodes, key, limit_ms);
}

/* The first `wanted` hosts that answer; adds a note for each host skipped before. */
static int choose(struct inquiry *q, struct plan_node *out, int most)
{
    int n = 0;
    q->first = q->n;
    for (size_t i = 0; i < q->n && n < most; i++) {
        const json_t *node = json_array_get(q->nodes, i), *answer = json_object_get(node, "facts");
        const char *error = field_text(json_object_get(node, "error") ? node : answer, "error");
        if (error[0]) {
            json_array_append_new(q->notes, json_text_f("%s is skipped: %s", field_text(node, "node"), error));
            continue;
        }
        q->first = n == 0 ? i : q->first;
        out[n++] = (struct plan_node){field_text(node, "node"), json_object_get(answer, "facts")};
    }
    return n;
}

static int make_plan(json_t **plan, struct inquiry *q, struct err *err)
{
    const json_t *nodes = json_object_get(json_object_get(q->spec, "resources"), "nodes");
    const int wanted = json_integer_value(nodes) > 1 ? (int)json_integer_value(nodes) : 1;
    struct plan_node *chosen = calloc((size_t)wanted, sizeof(*chosen));
    json_t **parts = calloc((size_t)wanted, sizeof(*parts));
    int rc = -1;
    const int n = chosen && parts ? choose(q, chosen, wanted) : 0;
    if (!chosen || !parts)
        err_set(err, ERR_MEMORY, "out of memory for a plan of %d nodes", wanted);
    else if (n < wanted)
        err_set(err, ERR_SYSTEM, "only %d of %d nodes answered%s%s", n, wanted, json_array_size(q->notes) ? ": " : "",
                json_array_size(q->notes) ? json_string_value(json_array_get(q->notes, 0)) : "");
    else if (n == 1)
        rc = plan_make(plan, chosen[0].facts, q->spec, err);
    else
        rc = plan_nodes_make(plan, parts, chosen, n, q->spec, err);
    for (int k = 0; parts && k < wanted; k++)
        json_decref(parts[k]);
    free(parts);
    free(chosen);
    return rc;
}

/* The engine's answer on the first host; NULL on error, or without an error if there is none. */
static json_t *count_memory(struct inquiry *q, bool json, struct err *err)
{
    if (!json_is_object(json_object_get(q->spec, "train")))
        return NULL;
    ask(q, q->first,
        json_make("{s:s, s:O, s:b}", "ask", "memory", "spec", q->spec, "json", (int)json), "memory",
        MEMORY_MS);
    const json_t *node = json_array_get(q->nodes, q->first),
                 *answer = json_object_get(node, "memory");
    const char *error = field_text(json_object_get(node, "error") ? node : answer, "error");
    json_t *said = json_object_get(answer, "said");
    json_t *train = error[0] || !said ? NULL
                    : json ? json_loads(json_string_value(said), 0, NULL) : json_incref(said);
    if (!train)
        err_set(err, ERR_USAGE, "%s: %s", field_text(node, "node"),
                error[0] ? error
                         : "the engine's answer is not JSON");
    return train;
}

json_t *plan_hosts(const json_t *spec, bool json, struct err *err)
{
    json_t *hosts = json_deep_copy(json_object_get(spec, "hosts")), *plan = NULL, *train = NULL;
    json_t *answer = NULL;
    struct inquiry q = {.spec = spec, .nodes = json_array(), .notes = json_array()};
    const json_t *host;
    size_t i;
    if (host_groups_expand(hosts, err) < 0)
        goto out;
    q.n = json_array_size(hosts);
    json_array_foreach (hosts, i, host)
        json_array_append_new(q.nodes, json_make("{s:O}", "node", host));
    if (host_query_open(&q.query, hosts, err) < 0)
        goto out;
    ask(&q, q.n, json_make("{s:s}", "ask", "facts"), "facts", FACTS_MS);
    if (make_plan(&plan, &q, err) < 0)
        goto out;
    train = count_memory(&q, json, err);
    if (err->code == ERR_NONE)
        answer = json_make("{s:O, s:O*, s:O}", "plan", plan, "train", train, "notes", q.notes);
out:
    host_query_close(q.query);
    json_decref(plan);
    json_decref(train);
    json_decref(q.nodes);
    json_decref(q.notes);
    json_decref(hosts);
    return answer;
}
