/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_nodes.c - see doctor_nodes.h; one function per property that nodes must share */
#include "agent/doctor/doctor_nodes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doctor/consistency.h"
#include "agent/doctor/doctor_rows.h"
#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "agent/plan/plan_nodes.h"
#include "agent/probe/route.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { APART_MS = 1000 };

struct checkup {
    const json_t *spec, *first; /* first: of the nodes that answered */
    json_t *there;              /* the nodes that answered */
    json_t **parts;             /* of the plan, one per node in `there`; NULL: no plan */
    struct doctor_rows rows;
};

static const char *name_of(const json_t *node)
{
    return field_text(node, "node");
}

static const json_t *look_of(const json_t *node)
{
    return json_object_get(node, "look");
}

/* --- per node --------------------------------------------------------------------------------- */

static void take_node(struct checkup *c, json_t *node)
{
    size_t i;
    const json_t *row;
    const char *error = field_text(node, "error")[0] ? field_text(node, "error")
                                                    : field_text(look_of(node), "error");
    c->rows.node = name_of(node);
    if (error[0]) {
        doctor_row(&c->rows, "reachable", ROW_FAIL,
                   "fix the error, or remove the host from the job's hosts", "%s", error);
        return;
    }
    json_array_append(c->there, node);
    json_array_foreach(json_object_get(look_of(node), "rows"), i, row)
    {
        doctor_rows_take(&c->rows, row);
    }
}

/* --- all nodes ----------------------------------------------------------------------------------
 */

static void check_versions(struct checkup *c)
{
    static const char *const programs[] = {"jobctl-agent", "jobctl-train"};
    const json_t *ours = json_object_get(look_of(c->first), "versions"), *node;
    size_t i;
    json_array_foreach(c->there, i, node)
    {
        const json_t *theirs = json_object_get(look_of(node), "versions");
        for (size_t p = 0; p < ARRAY_LEN(programs); p++) {
            const char *a = field_text(ours, programs[p]), *b = field_text(theirs, programs[p]);
            if (strcmp(a, b) == 0)
                continue;
            doctor_row(&c->rows, "versions", ROW_FAIL, "install the same version on all nodes",
                       "%s is %s on %s but %s on %s", programs[p], a[0] ? a : "missing",
                       name_of(c->first), b[0] ? b : "missing", name_of(node));
            return;
        }
    }
    doctor_row(&c->rows, "versions", ROW_OK, "", "all nodes have %s", field_text(ours, programs[0]));
}

/* Plans the job on all nodes, and reports their differences. */
static void check_plan(struct checkup *c)
{
    const size_t n = json_array_size(c->there);
    struct plan_node *nodes = calloc(n, sizeof(*nodes));
    struct err refusal = {0};
    json_t *plan = NULL;
    size_t i;
    const json_t *note;
    c->parts = calloc(n, sizeof(json_t *));
    for (i = 0; nodes && i < n; i++) {
        const json_t *node = json_array_get(c->there, i);
        nodes[i] = (struct plan_node){name_of(node), json_object_get(look_of(node), "facts")};
    }
    int rc = nodes && c->parts ? plan_nodes_make(&plan, c->parts, nodes, (int)n, c->spec, &refusal)
                               : err_set(&refusal, ERR_MEMORY, "no memory for a plan");
    free(nodes);
    if (rc < 0) {
        doctor_row(&c->rows, "plan", ROW_FAIL, "change the spec accordingly", "%s", refusal.text);
        free(c->parts);
        c->parts = NULL;
        return;
    }
    doctor_row(&c->rows, "plan", ROW_OK, "", "%lld ranks: %s",
               (long long)json_integer_value(json_object_get(plan, "np")), field_text(plan, "why"));
    json_array_foreach(json_object_get(plan, "common_notes"), i, note)
        doctor_row(&c->rows, "differences", ROW_WARN, "permitted, but check that it is intended", "%s",
                   json_string_value(note));
    json_decref(plan);
}

static void check_clocks(struct checkup *c)
{
    const json_t *node, *fast = NULL, *slow = NULL;
    double most = 0, least = 0, within = 0;
    size_t i;
    json_array_foreach(c->there, i, node)
    {
        const json_t *ahead = json_object_get(node, "ahead_ms");
        const double bound = json_number_value(json_object_get(node, "within_ms"));
        if (!json_is_number(ahead))
            continue;
        if (!fast || json_number_value(ahead) > most) {
            most = json_number_value(ahead);
            fast = node;
        }
        if (!slow || json_number_value(ahead) < least) {
            least = json_number_value(ahead);
            slow = node;
        }
        within = bound > within ? bound : within;
    }
    if (!fast || fast == slow)
        return;
    within *= 2; /* of both nodes */
    if (most - least > APART_MS + within)
        doctor_row(&c->rows, "clocks", ROW_WARN, "start chrony or systemd-timesyncd on both",
                   "%s is %.1f s ahead of %s (to within %.0f ms)", name_of(fast),
                   (most - least) / 1000, name_of(slow), within);
    else
        doctor_row(&c->rows, "clocks", ROW_OK, "", "at most %.0f ms apart", most - least + within);
}

/* The interface that NCCL is set to use there, or NULL. */
static const char *planned_interface(const struct checkup *c, size_t node)
{
    const char *name = c->parts ? plan_env(c->parts[node], "NCCL_SOCKET_IFNAME") : NULL;
    return name && name[0] == '=' ? name + 1 : NULL;
}

/* Routes from one node to all others. */
static void check_ways(struct checkup *c, size_t from)
{
    const json_t *node = json_array_get(c->there, from), *way;
    const char *planned = planned_interface(c, from), *over = NULL;
    double slowest = 0;
    size_t i, good = 0;
    json_array_foreach(json_object_get(node, "reached"), i, way)
    {
        char check[80];
        const char *address = field_text(way, "address"), *host = field_text(way, "host");
        const double ms = json_number_value(json_object_get(way, "ms"));
        snprintf(check, sizeof(check), "route to %.64s", host);
        if (!address[0]) {
            doctor_row(&c->rows, check, ROW_FAIL,
                       "allow TCP between the nodes on all ports: check firewalls and routes",
                       "no connection to %s: %s", host, field_text(way, "error"));
            continue;
        }
        over = route_interface(json_object_get(look_of(node), "facts"), address);
        if (planned && over && strcmp(planned, over) != 0)
            doctor_row(&c->rows, check, ROW_WARN,
                       "set env.NCCL_SOCKET_IFNAME to the interface that reaches all nodes",
                       "%s is reached over %s, but NCCL uses %s", address, over, planned);
        else
            good++;
        slowest = ms > slowest ? ms : slowest;
    }
    if (good > 0 && good == i)
        doctor_row(&c->rows, "routes", ROW_OK, "", "%zu other node%s answer%s%s%s within %.1f ms", good,
                   good == 1 ? "" : "s", good == 1 ? "s" : "", over ? " over " : "", over ? over : "", slowest);
}

static void check_all_ways(struct checkup *c)
{
    size_t i;
    const json_t *node;
    json_array_foreach(c->there, i, node)
    {
        c->rows.node = name_of(node);
        check_ways(c, i);
    }
    c->rows.node = "all";
}

static void check_checkpoints(struct checkup *c)
{
    static const char todo[] = "put checkpoint.dir on a shared file system";
    const char *wrong = field_text(json_object_get(c->first, "left"), "error");
    const json_t *node;
    size_t i;
    if (!json_object_get(c->first, "left"))
        return;
    if (wrong[0]) {
        doctor_row(&c->rows, "checkpoint.dir", ROW_FAIL, todo, "%s: %s", name_of(c->first), wrong);
        return;
    }
    json_array_foreach(c->there, i, node)
    {
        wrong = field_text(json_object_get(node, "found"), "error");
        if (!wrong[0])
            continue;
        doctor_row(&c->rows, "checkpoint.dir", ROW_FAIL, todo, "%s: %s", name_of(node), wrong);
        return;
    }
    doctor_row(&c->rows, "checkpoint.dir", ROW_OK, "",
               "shared: all nodes see what %s writes",
               name_of(c->first));
}

static void check_data(struct checkup *c)
{
    const char *ours = field_text(json_object_get(look_of(c->first), "train"), "data_digest");
    const json_t *node;
    size_t i, seen = 0;
    json_array_foreach(c->there, i, node)
    {
        const json_t *train = json_object_get(look_of(node), "train");
        const char *theirs = field_text(train, "data_digest");
        struct err err = {0};
        if (consistency_compare(json_object_get(look_of(c->first), "consistency"),
                                json_object_get(look_of(node), "consistency"), name_of(c->first), name_of(node),
                                &err) < 0) {
            doctor_row(&c->rows, "files", ROW_FAIL, "see the message", "%s", err.text);
            return;
        }
        if (ours[0] && theirs[0] && strcmp(ours, theirs) != 0) {
            doctor_row(&c->rows, "files", ROW_FAIL, "copy the data again, or put it on a shared file system",
                       "the data digest is %s on %s but %s on %s", ours, name_of(c->first), theirs, name_of(node));
            return;
        }
        seen += theirs[0] != '\0';
    }
    if (ours[0] && seen == json_array_size(c->there))
        doctor_row(&c->rows, "files", ROW_OK, "", "all nodes read the same data, digest %s", ours);
    else
        doctor_row(&c->rows, "files", ROW_OK, "",
                   "listings of data and workdir are equal on all nodes");
}

json_t *doctor_nodes_check(const json_t *nodes, const json_t *spec)
{
    static const struct {
        void (*check)(struct checkup *);
        bool together; /* true: nodes used together; else also hosts of which one is used at a time
                        */
    } of_all[] = {
        {check_versions, false}, {check_plan, true}, {check_clocks, true}, {check_all_ways, true},
        {check_checkpoints, false}, {check_data, false},
    };
    const json_t *wanted = json_object_get(json_object_get(spec, "resources"), "nodes");
    struct checkup c = {.spec = spec, .there = json_array()};
    json_t *node;
    size_t i;
    doctor_rows_init(&c.rows);
    json_array_foreach(nodes, i, node)
    {
        take_node(&c, node);
    }
    c.first = json_array_get(c.there, 0);
    c.rows.node = "all";
    for (i = 0; json_array_size(c.there) > 1 && i < ARRAY_LEN(of_all); i++)
        if (!of_all[i].together || json_integer_value(wanted) > 1)
            of_all[i].check(&c);
    for (i = 0; c.parts && i < json_array_size(c.there); i++)
        json_decref(c.parts[i]);
    free(c.parts);
    json_decref(c.there);
    return doctor_rows_end(&c.rows);
}
