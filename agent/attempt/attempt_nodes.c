/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_nodes.c - brings up an attempt on several nodes, until all are ready
 *
 *   LAUNCH -> LISTENING -> gathered -> one plan -> PREPARE, each its part -> prepared -> attempt_ready()
 *
 * Where machines have leases, the nodes gather before this node plans: attempt_lease.c takes them first.
 *
 * A node that does not connect, is lost, or refuses ends the attempt, which names it.
 */
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/attempt/attempt_internal.h"
#include "agent/attempt/session.h"
#include "agent/doctor/consistency.h"
#include "agent/nodes/leader.h"
#include "agent/os/log.h"
#include "agent/plan/plan.h"
#include "agent/plan/plan_nodes.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

static const json_t *group_of(const struct attempt *a)
{
    return json_object_get(a->launch, "group");
}

static int nodes_of(const struct attempt *a)
{
    return (int)json_integer_value(json_object_get(group_of(a), "nodes"));
}

/* --- joining -------------------------------------------------------------------------------- */

/* $JOBCTL_JOIN_S overrides the default of one minute. */
static int join_ms(void)
{
    const char *text = getenv("JOBCTL_JOIN_S");
    const double s = text ? atof(text) : 0;
    return s > 0 ? (int)(s * 1000) : 0;
}

void attempt_show_listener(struct attempt *a)
{
    json_t *endpoint = a->finished_ms ? NULL : leader_endpoint(a->leader);
    if (endpoint)
        session_show_listener(a->session, endpoint);
}

static void listen_for_others(struct attempt *a)
{
    struct err err = {0};
    const struct leader_options o = {.job = a->o.job,
                                     .attempt = a->o.attempt,
                                     .nonce = a->o.nonce,
                                     .nodes = nodes_of(a),
                                     .names = json_object_get(group_of(a), "names"),
                                     .version = JOBCTL_VERSION,
                                     .join_ms = join_ms(),
                                     .lost_ms = json_integer_value(
                                       json_object_get(group_of(a), "lost_ms"))};
    if (leader_gather(a->leader, &o, &err) < 0) {
        attempt_refuse(a, err.text, NULL);
        return;
    }
    log_info(a->tag, "waiting for %d other nodes", o.nodes - 1);
    attempt_show_listener(a);
}

void attempt_gather_first(struct attempt *a)
{
    a->gathers_first = true;
    listen_for_others(a);
}

/* --- one plan ------------------------------------------------------------------------------- */

/* Facts for agent/core/gpu_blame.h: the GPUs of all nodes, and those excluded. */
static json_t *gpus_of_all(const struct attempt *a, const struct plan_node *nodes, int n)
{
    json_t *gpus = json_array();
    for (int k = 0; k < n; k++)
        json_array_extend(gpus, json_object_get(nodes[k].facts, "gpus"));
    return json_make("{s:o, s:O?}", "gpus", gpus, "excluded", json_object_get(a->facts, "excluded"));
}

/* GPUs that failed in this job before are excluded on every node. */
static json_t *facts_of(const struct attempt *a, int node)
{
    if (node == 0)
        return json_incref(a->facts);
    json_t *facts = json_copy((json_t *)(uintptr_t)leader_facts(a->leader, node));
    if (facts && json_object_get(a->facts, "excluded"))
        json_object_set(facts, "excluded", json_object_get(a->facts, "excluded"));
    return facts;
}

/* All ranks end with the first machine that ends. */
static void find_deadline(struct attempt *a, int n)
{
    const struct leader *leader = a->leader;
    for (int k = 1; k < n; k++) {
        const int64_t end_s = deadline_timer_of(leader_facts(leader, k), attempt_now_s(a));
        if (end_s > 0 && (a->deadline_s == 0 || end_s < a->deadline_s)) {
            a->deadline_s = end_s;
            snprintf(a->deadline_node, sizeof(a->deadline_node), "%s", leader_name(leader, k));
        }
    }
    attempt_watch_deadline(a);
}

static bool has_plan(const struct attempt *a, const json_t *facts)
{
    json_t *plan = NULL;
    const bool has = plan_make(&plan, facts, json_object_get(a->launch, "spec"), NULL) == 0;
    json_decref(plan);
    return has;
}

/* parts: one per node. */
static int plan_all(struct attempt *a, json_t **parts, int n, struct err *err)
{
    struct plan_node *nodes = calloc((size_t)n, sizeof(*nodes));
    json_t *plan = NULL;
    if (!nodes)
        return err_set(err, ERR_MEMORY, "no memory for the plan of %d nodes", n);
    for (int k = 0; k < n; k++)
        nodes[k] = (struct plan_node){.name = leader_name(a->leader, k),
                                      .facts = facts_of(a, k)};
    int rc = plan_nodes_make(&plan, parts, nodes, n, json_object_get(a->launch, "spec"), err);
    if (rc == 0) {
        json_decref(a->plan);
        a->plan = plan;
        a->part = json_incref(parts[0]);
        a->all_facts = gpus_of_all(a, nodes, n);
    }
    for (int k = 0; k < n; k++) {
        if (rc < 0 && err->code == ERR_NO_DEVICE && !a->few && !has_plan(a, nodes[k].facts))
            attempt_note_few(a, nodes[k].name, nodes[k].facts);
        json_decref((json_t *)(uintptr_t)nodes[k].facts);
    }
    free(nodes);
    return rc;
}

/* --- PREPARE -------------------------------------------------------------------------------- */

/* Writes a file to the checkpoint directory: a node that does not find it has a different
 * directory under that name. A command without checkpoint.dir needs no shared directory. */
static int leave_proof(struct attempt *a, struct err *err)
{
    const json_t *spec = json_object_get(a->launch, "spec");
    const char *dir = json_string_value(json_object_get(a->launch, "ckpt_dir"));
    const bool named = json_is_string(json_object_get(json_object_get(spec, "checkpoint"), "dir"));
    if (!dir || !dir[0] || (!json_object_get(spec, "train") && !named))
        return 0;
    if (scratch_mkdirs(dir, err) < 0)
        return -1;
    snprintf(a->proof, sizeof(a->proof), "%.4000s/.nodes-%.64s", dir, a->o.nonce);
    const int fd = safe_open(a->proof, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    const bool wrote = fd >= 0 && dprintf(fd, "%s", a->o.nonce) > 0;
    if (fd >= 0 && close(fd) == 0 && wrote)
        return 0;
    a->proof[0] = '\0';
    return err_set(err, ERR_SYSTEM, "cannot write to the checkpoint directory '%s': %m", dir);
}

static void take_proof_away(struct attempt *a)
{
    if (a->proof[0])
        unlink(a->proof);
    a->proof[0] = '\0';
}

/* The listing that follower k must match (agent/doctor/consistency.h), and the names of both
 * nodes. */
static json_t *consistency_body(const struct attempt *a, int k, json_t *list)
{
    const struct leader *leader = a->leader;
    return json_make("{s:[s?, s?], s:O}", "names", leader_name(leader, 0), leader_name(leader, k),
                     "list", list);
}

/* The next nodes in a ring, the path of most collectives; a limited number for any number of
 * nodes. All nodes have already connected to node 0. */
static json_t *endpoints_for(const struct attempt *a, int k, int n)
{
    enum { NEIGHBOURS = 16 };
    const struct leader *leader = a->leader;
    json_t *endpoints = json_array();
    for (int i = 1; i < n - 1 && i <= NEIGHBOURS; i++) {
        const int other = (k - 1 + i) % (n - 1) + 1;
        json_t *endpoint = json_copy((json_t *)(uintptr_t)leader_follower_endpoint(leader, other));
        if (!endpoint)
            continue;
        json_object_set_new(endpoint, "host", json_text(leader_name(leader, other)));
        json_array_append_new(endpoints, endpoint);
    }
    return endpoints;
}

static json_t *prepare_body(const struct attempt *a, int k, json_t *part, json_t *list)
{
    const json_t *l = a->launch;
    json_t *proof = a->proof[0] ? json_make("{s:s, s:s}", "path", a->proof, "text", a->o.nonce)
                                : NULL;
    return json_make("{s:O, s:O, s:{s:O?, s:O?, s:O?, s:O*, s:O?, s:I, s:o*, s:o, s:o}}", "spec",
                     json_object_get(l, "spec"), "plan", part, "launch", "name",
                     json_object_get(l, "name"), "ckpt_dir", json_object_get(l, "ckpt_dir"),
                     "secrets", json_object_get(l, "secrets"), "code", json_object_get(l, "code"), "restarts",
                     json_object_get(json_object_get(l, "budget"), "restarts"), "deadline_s",
                     (json_int_t)a->deadline_s, "proof", proof, "consistency", consistency_body(a, k,
                                                                                          list), "endpoints",
                     endpoints_for(a, k, nodes_of(a)));
}

static int prepare_all(struct attempt *a, json_t *const *parts, int n, struct err *err)
{
    json_t *list = consistency_list(json_object_get(a->launch, "spec"));
    if (json_object_get(a->launch, "code"))
        json_object_set_new(list, "workdir", json_null());  /* each has the same original; ranks write into its copy */
    int rc = leave_proof(a, err);
    for (int k = 1; k < n && rc == 0; k++) {
        json_t *body = prepare_body(a, k, parts[k], list);
        rc = body ? leader_prepare(a->leader, k, body, err)
                  : err_set(err, ERR_MEMORY, "no memory for the plan of %d nodes", n);
        json_decref(body);
    }
    json_decref(list);
    return rc;
}

static void plan_nodes(struct attempt *a)
{
    struct err err = {0};
    const int n = nodes_of(a);
    json_t **parts = attempt_is_waiting(a) ? calloc((size_t)n, sizeof(json_t *)) : NULL;
    if (!attempt_is_waiting(a))
        return;
    find_deadline(a, n);
    int rc = parts ? plan_all(a, parts, n, &err) : err_set(&err, ERR_MEMORY, "no memory for a plan");
    if (rc == 0)
        rc = prepare_all(a, parts, n, &err);
    for (int k = 0; k < n && parts; k++)
        json_decref(parts[k]);
    free(parts);
    if (rc < 0) {
        take_proof_away(a);
        attempt_refuse_plan(a, &err);
    }
}

void attempt_on_gathered(void *arg)
{
    struct attempt *a = arg;
    if (a->gathers_first && attempt_is_waiting(a))
        attempt_lease_all(a);
    else
        plan_nodes(a);
}

void attempt_gather(struct attempt *a)
{
    if (nodes_of(a) < 2)
        attempt_ready(a);
    else if (a->gathers_first)
        plan_nodes(a);
    else
        listen_for_others(a);
}

/* --- all ready ------------------------------------------------------------------------------ */

static json_t *node_row(const struct attempt *a, int k)
{
    const struct leader *leader = a->leader;
    const json_t *facts = k ? leader_facts(leader, k) : a->facts, *rank;
    const char *hostname = json_string_value(json_object_get(facts, "hostname"));
    const char *name = leader_name(leader, k), *address = leader_address(leader, k);
    int n = 0, first = 0;
    size_t r;
    json_array_foreach(json_object_get(a->plan, "ranks"), r, rank)
    {
        if (json_integer_value(json_object_get(rank, "node")) == k && n++ == 0)
            first = (int)r;
    }
    return json_make("{s:i, s:s, s:s, s:i, s:i, s:s}", "node", k, "name", name ? name : "",
                     "hostname", hostname ? hostname : "", "ranks", n, "first_rank", first,
                     "address", address ? address : "");
}

/* Stores the findings of a follower's preflight, preceded by its name. */
static void tell_preflight(struct attempt *a, int k)
{
    const struct leader *leader = a->leader;
    const json_t *found = leader_preflight(leader, k);
    const char *text = json_string_value(json_object_get(found, "text"));
    if (!text)
        return;
    json_t *body = json_deep_copy(found);
    json_object_set_new(body, "text", json_text_f("%s: %s", leader_name(leader, k), text));
    attempt_store(a, "preflight", body, false);
}

void attempt_on_prepared(void *arg, const char *refusal)
{
    struct attempt *a = arg;
    const int n = nodes_of(a);
    take_proof_away(a);
    if (!attempt_is_waiting(a))
        return;
    for (int k = 1; k < n; k++)
        tell_preflight(a, k);
    if (refusal) {
        attempt_refuse(a, refusal, NULL);
        return;
    }
    json_t *rows = json_array();
    for (int k = 0; k < n; k++)
        json_array_append_new(rows, node_row(a, k));
    attempt_store(a, "nodes", json_make("{s:o}", "nodes", rows), false);
    attempt_ready(a);
}

void attempt_on_lost(void *arg, const struct agent_lost *l)
{
    struct attempt *a = arg;
    struct agent_input in = {.kind = INPUT_NODE_LOST, .lost = *l, .jitter = attempt_jitter()};
    log_warn(a->tag, "%s", l->text);
    if (attempt_is_waiting(a)) {
        take_proof_away(a);
        attempt_refuse(a, NULL, l);
    } else {
        attempt_feed(a, &in);
    }
}

/* Like the end of this machine: saves a checkpoint, then the attempt ends. */
void attempt_on_notice(void *arg, int node, const char *reason, int64_t grace_ms)
{
    struct attempt *a = arg;
    char text[320];
    struct agent_input in = {.kind = INPUT_STOP, .jitter = attempt_jitter()};
    snprintf(text, sizeof(text), "%s: %s", leader_name(a->leader, node), reason);
    in.stop.reason = text;
    in.stop.grace_ms = grace_ms;
    in.stop.checkpoint = in.stop.preempted = true;
    if (a->noticed || a->finished_ms)
        return;
    a->noticed = true;
    log_warn(a->tag, "%s: stopping the ranks", text);
    attempt_feed(a, &in);
}

void attempt_on_node_gone(struct attempt *a, const json_t *body)
{
    if (!a->finished_ms)
        leader_node_gone(a->leader, (int)json_integer_value(json_object_get(body, "node")),
                         json_string_value(json_object_get(body, "text")));
}
