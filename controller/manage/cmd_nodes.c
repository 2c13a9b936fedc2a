/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_nodes.c - jobctl nodes: list, test, drain and resume the machines that run jobs */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "agent/plan/plan.h"
#include "controller/base/client.h"
#include "controller/base/program.h"
#include "controller/base/table.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/job/job_view.h"
#include "controller/spec/config.h"
#include "controller/spec/host_groups.h"
#include "engine/base/clock.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static const struct option_row options[] = {
    {"reason", 0, OPTION_TEXT, "TEXT", "the reason for a drain, shown for jobs that wait for the node"},
    OPTION_JSON,
    {.name = NULL},
};

enum { CELL = 300, COLUMNS = 5, GPU_COLUMNS = 7, TEST_COLUMNS = 2, QUEUE_SHOWN = 10, FIGURES_MS = 2000 };

struct cells {
    char        (*text)[CELL];
    const char **list;
    int          columns;
};

static int cells_make(struct cells *c, int rows, int columns, struct err *err)
{
    const size_t n = (size_t)rows * (size_t)columns + 1;
    *c = (struct cells){.text = calloc(n, sizeof(*c->text)), .list = calloc(n, sizeof(*c->list)),
                        .columns = columns};
    for (size_t i = 0; c->text && c->list && i < n; i++)
        c->list[i] = c->text[i];
    return c->text && c->list ? 0
           : err_set(err, ERR_MEMORY, "out of memory while drawing %d nodes", rows);
}

static char *cell(const struct cells *c, int row, int column)
{
    return c->text[row * c->columns + column];
}

static void cells_free(struct cells *c)
{
    free(c->text);
    free(c->list);
}

/* ---- jobctl nodes ---- */

static void note(char *out, size_t size, const json_t *node)
{
    const json_t *job = json_object_get(node, "job"), *group;
    const char *drained = json_string_value(json_object_get(node, "drained"));
    size_t at = 0, i;
    out[0] = 0;
    if (json_is_integer(job))
        at = (size_t)snprintf(out, size, "job %lld", (long long)json_integer_value(job));
    else if (!drained)
        at = (size_t)snprintf(out, size, "%.200s", field_text(node, "error"));
    if (drained && drained[0])
        at += (size_t)snprintf(out + at, size - at, "%s%.160s", at ? ", " : "", drained);
    json_array_foreach (json_object_get(node, "groups"), i, group)
        if (at + 80 < size)
            at += (size_t)snprintf(out + at, size - at, "%s@%.64s", at ? ", " : "", json_string_value(group));
}

static void fill(const struct cells *c, int r, const json_t *node)
{
    const json_t *cpus = json_object_get(node, "cpus");
    snprintf(cell(c, r, 0), CELL, "%s", field_text(node, "name"));
    snprintf(cell(c, r, 1), CELL, "%s", field_text(node, "state"));
    snprintf(cell(c, r, 2), CELL, "-");
    snprintf(cell(c, r, 3), CELL, "-");
    if (json_is_integer(cpus)) {
        snprintf(cell(c, r, 2), CELL, "%lld of %lld", (long long)json_integer_value(json_object_get(node, "cpus_free")),
                 (long long)json_integer_value(cpus));
        snprintf(cell(c, r, 3), CELL, "%zu", json_array_size(json_object_get(node, "gpus")));
    }
    note(cell(c, r, 4), CELL, node);
}

static json_t *node_of(json_t *nodes, const char *name)
{
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node)
        if (strcmp(field_text(node, "name"), name) == 0)
            return node;
    node = json_make("{s:s, s:s, s:n, s:[]}", "name", name, "state", "new", "cpus", "gpus");
    json_array_append_new(nodes, node);
    return node;
}

/* The groups of the user's configuration, and hosts that appear nowhere else. */
static int add_groups(json_t *nodes, struct err *err)
{
    struct config config;
    json_t *hosts, *host;
    const char *group;
    size_t i;
    if (config_load(&config, err) < 0)
        return -1;
    json_object_foreach (config.groups, group, hosts)
        json_array_foreach (hosts, i, host) {
            json_t *node = node_of(nodes, json_string_value(host));
            if (!json_object_get(node, "groups"))
                json_object_set_new(node, "groups", json_array());
            json_array_append_new(json_object_get(node, "groups"), json_text(group));
        }
    config_fini(&config);
    return 0;
}

/* Who has what of this machine, where its users share it. */
static void print_users(struct call *call, const json_t *nodes)
{
    const json_t *node, *user;
    size_t i, k;
    json_array_foreach (nodes, i, node)
        json_array_foreach (json_object_get(node, "users"), k, user)
            fprintf(call->out.file, "%s%s\n", k ? "  " : "Leases of GPUs and CPU slots on this machine:\n  ",
                    field_text(user, "text"));
}

/* ---- its GPUs, and who waits ---- */

/* The GPUs of all nodes, with the node's name; instead of one that MIG divides its slices. */
static json_t *devices_of(const json_t *nodes)
{
    json_t *out = json_array(), *node, *gpu, *slice;
    size_t i, k, j;
    json_array_foreach (nodes, i, node)
        json_array_foreach (json_object_get(node, "gpus"), k, gpu) {
            const json_t *slices = json_object_get(gpu, "mig_slices");
            json_object_set(gpu, "node", json_object_get(node, "name"));
            if (json_array_size(slices) == 0)
                json_array_append(out, gpu);
            json_array_foreach (slices, j, slice) {
                json_object_set_new(slice, "name", json_text_f("%.40s, slice %.12s", field_text(gpu, "name"),
                                                               field_text(slice, "uuid")));
                json_object_set(slice, "index", json_object_get(gpu, "index"));
                json_object_set(slice, "node", json_object_get(node, "name"));
                json_array_append(out, slice);
            }
        }
    return out;
}

static void fill_gpu(const struct cells *c, int r, const json_t *gpu)
{
    const json_t *now = json_object_get(gpu, "now"), *all = json_object_get(gpu, "memory_bytes");
    const json_t *used = json_object_get(json_is_object(now) ? now : gpu, "memory_used_bytes");
    const json_t *load = json_object_get(now, "load"), *job = json_object_get(gpu, "job");
    char why[120] = "";
    snprintf(cell(c, r, 0), CELL, "%s", field_text(gpu, "node"));
    snprintf(cell(c, r, 1), CELL, "%lld", (long long)field_int(gpu, "index", 0));
    snprintf(cell(c, r, 2), CELL, "%.60s", field_text(gpu, "name"));
    for (int i = 3; i < 6; i++)
        snprintf(cell(c, r, i), CELL, "-");
    if (json_is_number(all))
        job_view_bytes(cell(c, r, 3), CELL, json_integer_value(all));
    if (json_is_number(all) && json_is_number(used))
        job_view_bytes(cell(c, r, 4), CELL, json_integer_value(all) - json_integer_value(used));
    if (json_is_number(load))
        snprintf(cell(c, r, 5), CELL, "%lld%%", (long long)json_integer_value(load));
    if (json_is_integer(job))
        snprintf(cell(c, r, 6), CELL, "job %lld (%.64s)", (long long)json_integer_value(job), field_text(gpu, "job_name"));
    else if (json_is_false(json_object_get(gpu, "healthy")))
        snprintf(cell(c, r, 6), CELL, "not healthy: %.200s", field_text(gpu, "note"));
    else
        snprintf(cell(c, r, 6), CELL, "%s", plan_gpu_in_use(gpu, why, sizeof(why)) ? why : "free");
}

static int print_gpus(struct call *call, const json_t *nodes)
{
    static const struct table_column columns[GPU_COLUMNS] = {
        {"NODE", false, 0, 0}, {"GPU", true, 0, 0}, {"MODEL", false, 3, 0}, {"MEMORY", true, 2, 0}, {"FREE", true, 0, 0},
        {"LOAD", true, 1, 0}, {"USED BY", false, TABLE_BELOW, 0}};
    struct cells c;
    json_t *devices = devices_of(nodes);
    const int rows = (int)json_array_size(devices);
    const int rc = rows > 0 ? cells_make(&c, rows, GPU_COLUMNS, &call->err) : 0;
    for (int r = 0; rc == 0 && r < rows; r++)
        fill_gpu(&c, r, json_array_get(devices, (size_t)r));
    if (rc == 0 && rows > 0) {
        fputc('\n', call->out.file);
        table_print(&call->out, columns, GPU_COLUMNS, c.list, NULL, rows);
    }
    if (rows > 0)
        cells_free(&c);
    json_decref(devices);
    return rc;
}

static void print_queue(struct call *call, const json_t *answer)
{
    const json_t *jobs = json_object_get(answer, "jobs"), *row;
    char title[JOB_CELL];
    size_t i;
    json_array_foreach (jobs, i, row) {
        job_view_title(title, sizeof(title), row);
        fprintf(call->out.file, "%s  %s: %s\n", i ? "" : "\nThe queue:\n", title, field_text(row, "reason"));
    }
}

/* Figures of GPUs come from a process that starts when they are asked for. */
static bool has_figures(const json_t *nodes)
{
    const json_t *gpu;
    size_t i;
    json_array_foreach (json_object_get(json_array_get(nodes, 0), "gpus"), i, gpu)
        if (!json_is_object(json_object_get(gpu, "now")) && !json_is_false(json_object_get(gpu, "healthy")))
            return false;
    return true;
}

static int print(struct call *call, const json_t *nodes)
{
    static const struct table_column columns[COLUMNS] = {
        {"NODE", false, 0, 0}, {"STATE", false, 0, 0}, {"CPUS FREE", true, 0, 0}, {"GPUS", true, 1, 0},
        {"NOTE", false, TABLE_BELOW, 0}};
    struct cells c;
    int rows = (int)json_array_size(nodes);
    int rc = cells_make(&c, rows, COLUMNS, &call->err);
    for (int r = 0; rc == 0 && r < rows; r++)
        fill(&c, r, json_array_get(nodes, (size_t)r));
    if (rc == 0)
        table_print(&call->out, columns, COLUMNS, c.list, NULL, rows);
    cells_free(&c);
    if (rc == 0)
        rc = print_gpus(call, nodes);
    if (rc == 0)
        print_users(call, nodes);
    return rc;
}

static int list(struct call *call)
{
    struct client *c;
    json_t *answer = NULL, *queue = NULL;
    int rc = client_open(&c, true, &call->err);
    if (rc == 0) {
        rc = client_get(c, &answer, &call->err, call->json ? "/v1/nodes" : "/v1/nodes?now=1");
        for (int64_t end = clock_ms() + FIGURES_MS; rc == 0 && !call->json && clock_ms() < end &&
                                                    !has_figures(json_object_get(answer, "nodes"));) {
            clock_wait(-1, 50);
            json_decref(answer);
            rc = client_get(c, &answer, &call->err, "/v1/nodes?now=1");
        }
        if (rc == 0 && !call->json)
            rc = client_get(c, &queue, &call->err, "/v1/jobs?states=pending&limit=%d", QUEUE_SHOWN);
        client_close(c);
    }
    if (rc == 0)
        rc = add_groups(json_object_get(answer, "nodes"), &call->err);
    if (rc == 0 && call->json)
        output_json(call, json_incref(answer));
    else if (rc == 0)
        rc = print(call, json_object_get(answer, "nodes"));
    if (rc == 0)
        print_queue(call, queue);
    json_decref(answer);
    json_decref(queue);
    return rc;
}

/* ---- jobctl nodes add, drain, resume, remove ---- */

/* NULL: not listed. */
static const json_t *find(const json_t *nodes, const char *name)
{
    size_t i;
    const json_t *node;
    json_array_foreach (nodes, i, node)
        if (strcmp(field_text(node, "name"), name) == 0)
            return node;
    return NULL;
}

/* Prints the result for one node; `before` and `after` are the lists of nodes. */
static void say(FILE *out, const char *action, const char *name, const json_t *before, const json_t *after)
{
    const long long job = field_int(find(after, name), "job", 0);
    if (strcmp(action, "add") == 0)
        fprintf(out, "%s is listed; to test it: jobctl nodes test %s\n", name, name);
    else if (strcmp(action, "resume") == 0)
        fprintf(out, "%s accepts jobs again\n", name);
    else if (strcmp(action, "remove") == 0)
        fprintf(out, "%s was removed from the list\n", name);
    else if (job > 0)
        fprintf(out, "%s finishes job %lld and accepts no others; to undo: jobctl nodes resume %s\n", name, job, name);
    else
        fprintf(out, "%s accepts no jobs; to undo: jobctl nodes resume %s%s\n", name, name,
                find(before, name) ? "" : " (this node was not listed before: check its name)");
}

static int tell_daemon(struct call *call, const char *action, const json_t *names, const char *reason)
{
    struct client *c;
    json_t *name;
    size_t i;
    if (client_open(&c, true, &call->err) < 0)
        return -1;
    json_t *before = NULL, *answer = NULL;
    int rc = client_get(c, &before, &call->err, "/v1/nodes");
    if (rc == 0)
        rc = add_groups(json_object_get(before, "nodes"), &call->err);
    json_array_foreach (names, i, name) {
        json_t *body = json_make("{s:s, s:O, s:s}", "action", action, "name", name,
                                                 "reason", reason ? reason : "");
        if (rc == 0) {
            json_decref(answer);
            answer = NULL;
            rc = client_post(c, &answer, "/v1/nodes", body, &call->err);
        }
        json_decref(body);
        if (rc == 0 && !call->json)
            say(call->out.file, action, json_string_value(name), json_object_get(before, "nodes"),
                json_object_get(answer, "nodes"));
    }
    client_close(c);
    if (rc == 0 && call->json)
        output_json(call, json_incref(answer));
    json_decref(before);
    json_decref(answer);
    return rc;
}

/* The arguments after the action, with groups replaced by their hosts. */
static json_t *names_of(const struct options *o, struct err *err)
{
    json_t *names = json_array();
    for (int i = 1; i < o->nargs; i++)
        json_array_append_new(names, json_text(o->args[i]));
    if (host_groups_expand(names, err) == 0)
        return names;
    json_decref(names);
    return NULL;
}

/* ---- jobctl nodes test ---- */

/* Runs in this process, without the daemon: ssh uses the caller's environment. */
static json_t *ask(const char *host, struct err *err)
{
    const char *const words[] = {"test", host, NULL};
    struct buf out = {0};
    json_t *answer = NULL;
    if (program_run("jobctl-ssh", words, &out, err) >= 0) {
        answer = json_loadb(out.data ? out.data : "", out.size, 0, NULL);
        if (!answer)    /* its error, if any, is on stderr */
            answer = json_make("{s:s, s:b, s:b, s:s}", "host", host, "ok", 0, "again", 1, "text",
                               "did not answer in time");
    }
    buf_fini(&out);
    return answer;
}

static void tell(char *out, size_t size, const json_t *answer)
{
    const json_t *facts = json_object_get(answer, "facts");
    if (!json_is_true(json_object_get(answer, "ok"))) {
        snprintf(out, size, "%s", field_text(answer, "text"));
        return;
    }
    const json_t *gpus = json_object_get(facts, "gpus");
    const char *model = field_text(json_array_get(gpus, 0), "name");
    snprintf(out, size, "ok in %.1f s: %lld GPUs%s%s, as %s",
             (double)json_integer_value(json_object_get(answer, "ms")) / 1000, (long long)plan_count_gpus(facts),
             model[0] ? " " : "", model, field_text(facts, "hostname"));
}

static int test(struct call *call, const json_t *hosts)
{
    static const struct table_column columns[TEST_COLUMNS] = {{"HOST", false, 0, 0},
                                                               {"ANSWER", false, TABLE_BELOW, 0}};
    struct cells c;
    const int n = (int)json_array_size(hosts);
    json_t *all = json_array();
    int bad = 0, rc = cells_make(&c, n, TEST_COLUMNS, &call->err);
    for (int i = 0; rc == 0 && i < n; i++) {
        const char *host = json_string_value(json_array_get(hosts, (size_t)i));
        json_t *answer = ask(host, &call->err);
        rc = answer ? 0 : -1;
        bad += !json_is_true(json_object_get(answer, "ok"));
        snprintf(cell(&c, i, 0), CELL, "%s", host);
        tell(cell(&c, i, 1), CELL, answer);
        json_array_append_new(all, answer);
    }
    if (rc == 0 && call->json)
        output_json(call, json_make("{s:O}", "hosts", all));
    else if (rc == 0)
        table_print(&call->out, columns, TEST_COLUMNS, c.list, NULL, n);
    json_decref(all);
    cells_free(&c);
    return rc < 0 ? -1 : bad ? 1 : 0;
}

static int run(struct call *call)
{
    static const char *const actions[] = {"add", "drain", "resume", "remove", "test"};
    const struct options *o = &call->options;
    const char *reason = options_text(o, "reason");
    size_t action = 0, n = sizeof(actions) / sizeof(actions[0]);
    if (o->nargs == 0 || (o->nargs == 1 && strcmp(o->args[0], "list") == 0))
        return list(call);
    while (action < n && strcmp(o->args[0], actions[action]) != 0)
        action++;
    if (action == n || o->nargs < 2)
        return err_set(&call->err, ERR_USAGE, "nodes: expected `jobctl nodes`, or `jobctl nodes "
                       "test|add|drain|resume|remove HOST...`, not \"%.40s\"%s", o->args[0],
                       action == n ? "" : " without a host");
    if (reason && strcmp(o->args[0], "drain") != 0)
        return err_set(&call->err, ERR_USAGE, "--reason applies to `jobctl nodes drain` only");
    json_t *names = names_of(o, &call->err);
    if (!names)
        return -1;
    int rc = strcmp(o->args[0], "test") == 0 ? test(call, names)
                                             : tell_daemon(call, o->args[0], names, reason);
    json_decref(names);
    return rc;
}

const struct command cmd_nodes = {
    .name = "nodes", .group = GROUP_MACHINES, .where = COMMAND_THERE,
    .args = ARGS_WORDS, .words = "[test|add|drain|resume|remove HOST...]",
    .summary = "list machines, each GPU with its job and free memory, and the queue",
    .help = "`jobctl nodes test HOST...` logs in to hosts of launch: ssh, copies the programs and prints each host's "
            "resources, or the problem to fix first (exit code 1). `drain HOST --reason TEXT` lets a node finish its "
            "job and keeps others away; `resume` undoes this and clears the node's failures. `add` lists a host "
            "before its first job, `remove` removes it from the list. @GROUP is a group of hosts of "
            "~/.config/jobctl/config.yaml.",
    .options = options, .run = run,
};
