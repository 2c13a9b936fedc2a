/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_lease.c - leases of GPUs and CPU slots for an attempt on several nodes
 *
 *   gathered -> the leader asks node by node, in one order for all attempts (agent/machine/machine_order.h)
 *            -> each node waits for its machine (machine_wait.h), and tells for what
 *            -> all hold: attempt_plan()
 *
 * What nodes hold ends with their agents and ranks, as on one node.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/attempt/attempt_internal.h"
#include "agent/attempt/machine_wait.h"
#include "agent/attempt/session.h"
#include "agent/machine/machine_order.h"
#include "agent/nodes/follower.h"
#include "agent/nodes/leader.h"
#include "agent/os/log.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { TELL_MS = 10 * 1000 };

struct attempt_leases {
    struct attempt      *attempt;
    struct machine_order order;
    int64_t              began_ms, told_ms;     /* told_ms 0: nothing yet */
    char                 told[500];
    bool                 done;
};

/* ---- a node ---- */

static bool on_waits(void *arg)
{
    return attempt_is_waiting(arg);
}

static void on_tells(void *arg, bool over, int64_t waited_ms, const char *text)
{
    struct attempt *a = arg;
    (void)waited_ms;
    if (!over)
        follower_tell_lease(a->follower, a->lease_round, false, text, NULL);
}

static void on_ready(void *arg)
{
    struct attempt *a = arg;
    follower_set_hold(a->follower, a->o.bundle.hold);
    follower_tell_lease(a->follower, a->lease_round, true, NULL, json_incref(json_object_get(a->facts, "gpus")));
}

static void let_go(struct attempt *a)
{
    machine_wait_release(a->machine);
    machine_wait_close(a->machine);
    a->machine = NULL;
}

void attempt_on_lease(void *arg, int round, int nodes)
{
    struct attempt *a = arg;
    const struct machine_wait_hooks hooks = {on_waits, on_tells, on_ready, a};
    struct machine_wait_job job = attempt_machine_job(a);
    let_go(a);
    if (nodes <= 0)
        return;
    job.nodes = nodes;
    a->lease_round = round;
    a->machine = machine_wait_open(&a->loop, &job, &hooks);
    if (a->machine)
        machine_wait_look(a->machine);
    else
        follower_tell_lease(a->follower, round, true, NULL, NULL); /* none needed, or the plan will refuse to run */
}

/* ---- all nodes ---- */

static void tell(struct attempt_leases *l, bool over, const char *text)
{
    struct attempt *a = l->attempt;
    const int64_t now = clock_ms();
    if (!over && (strcmp(text, l->told) == 0 || (l->told_ms && now - l->told_ms < TELL_MS)))
        return;
    snprintf(l->told, sizeof(l->told), "%s", text);
    l->told_ms = now;
    log_info(a->tag, "%s", text);
    attempt_store(a, "lease", json_make("{s:b, s:I, s:s}", "over", (int)over, "waited_ms",
                                        (json_int_t)(now - l->began_ms), "text", text), false);
}

static void let_all_go(struct attempt_leases *l)
{
    char text[200];
    struct attempt *a = l->attempt;
    for (int i = 0; i < l->order.count; i++)
        leader_lease(a->leader, l->order.nodes[i], l->order.round, 0);
    snprintf(text, sizeof(text), "released its leases so that other jobs can run; next try in %.0f s",
             (double)machine_order_due_ms(&l->order, clock_ms()) / 1000);
    log_info(a->tag, "%s", text);
}

static void have_all(struct attempt_leases *l)
{
    char text[120];
    struct attempt *a = l->attempt;
    l->done = true;
    snprintf(text, sizeof(text), "acquired its GPUs and CPU slots on all nodes after %.0f s",
             (double)(clock_ms() - l->began_ms) / 1000);
    if (l->told_ms)
        tell(l, true, text);
    attempt_plan(a);
}

static void on_later(uv_timer_t *timer)
{
    struct attempt *a = timer->data;
    struct attempt_leases *l = a->leases;
    enum machine_order_step step = MACHINE_ORDER_ASK;
    int node = 0;
    if (l->done || !attempt_is_waiting(a))
        return;
    while (step == MACHINE_ORDER_ASK || step == MACHINE_ORDER_LET_GO) {
        step = machine_order_next(&l->order, clock_ms(), attempt_jitter(), &node);
        if (step == MACHINE_ORDER_ASK)
            leader_lease(a->leader, node, l->order.round, l->order.sizes[l->order.held]);
        else if (step == MACHINE_ORDER_LET_GO)
            let_all_go(l);
    }
    const int64_t due_ms = machine_order_due_ms(&l->order, clock_ms());
    if (step == MACHINE_ORDER_DONE)
        have_all(l);
    else if (due_ms >= 0)
        uv_timer_start(&a->lease_timer, on_later, (uint64_t)due_ms, 0);
}

void attempt_on_leased(void *arg, int node, int round, bool holds, const char *text)
{
    struct attempt *a = arg;
    struct attempt_leases *l = a->leases;
    char all[500];
    if (!l || l->done || !attempt_is_waiting(a))
        return;
    if (holds) {
        machine_order_held(&l->order, node, round);
        uv_timer_start(&a->lease_timer, on_later, 0, 0);
    } else if (text && round == l->order.round) {
        snprintf(all, sizeof(all), "%s: %.400s", leader_name(a->leader, node), text);
        tell(l, false, all);
    }
}

/* "BOOT_ID DIR" of a node, for free(); NULL: its machine has no leases. */
static char *machine_of(const struct attempt *a, int node)
{
    const json_t *facts = node ? leader_facts(a->leader, node) : a->facts;
    const char *dir = field_text(json_object_get(facts, "machine"), "dir");
    char *out = NULL;
    return !dir[0] || asprintf(&out, "%s %s", field_text(facts, "boot_id"), dir) < 0 ? NULL : out;
}

static struct attempt_leases *create(struct attempt *a, int n)
{
    struct attempt_leases *l = calloc(1, sizeof(*l));
    char **machines = calloc((size_t)n, sizeof(*machines));
    for (int k = 0; machines && k < n; k++)
        machines[k] = machine_of(a, k);
    if (!l || !machines || machine_order_init(&l->order, (const char *const *)machines, n) < 0) {
        free(l);
        l = NULL;
    }
    for (int k = 0; machines && k < n; k++)
        free(machines[k]);
    free(machines);
    return l;
}

void attempt_lease_all(struct attempt *a)
{
    struct attempt_leases *l = create(a, (int)field_int(json_object_get(a->launch, "group"), "nodes", 1));
    if (!l) {
        attempt_refuse(a, "no memory for the leases of several nodes", NULL);
        return;
    }
    l->attempt = a;
    l->began_ms = clock_ms();
    a->lease_timer.data = a;
    a->leases = l;
    uv_timer_start(&a->lease_timer, on_later, 0, 0);
}

void attempt_leases_free(struct attempt *a)
{
    if (a->leases)
        machine_order_fini(&a->leases->order);
    free(a->leases);
    a->leases = NULL;
}
