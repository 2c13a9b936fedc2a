/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_nodes.c - jobctl nodes: the machines that jobs can run on, and are they fit for it? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/buf.h"
#include "agent/plan.h"
#include "controller/client.h"
#include "controller/command.h"
#include "controller/output.h"
#include "controller/program.h"
#include "controller/table.h"

static const struct option_row options[] = {OPTION_JSON, {.name = NULL}};

enum { CELL = 300, COLUMNS = 5, TEST_COLUMNS = 2 };

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

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* ---- jobctl nodes ---- */

static void fill(const struct cells *c, int r, const json_t *node)
{
    const json_t *job = json_object_get(node, "job"), *cpus = json_object_get(node, "cpus");
    snprintf(cell(c, r, 0), CELL, "%s", text_of(node, "name"));
    snprintf(cell(c, r, 1), CELL, "%s", text_of(node, "state"));
    snprintf(cell(c, r, 2), CELL, "-");
    snprintf(cell(c, r, 3), CELL, "-");
    if (json_is_integer(cpus)) {
        snprintf(cell(c, r, 2), CELL, "%lld of %lld",
                 (long long)json_integer_value(json_object_get(node, "cpus_free")),
                 (long long)json_integer_value(cpus));
        snprintf(cell(c, r, 3), CELL, "%zu", json_array_size(json_object_get(node, "gpus")));
    }
    if (json_is_integer(job))
        snprintf(cell(c, r, 4), CELL, "job %lld", (long long)json_integer_value(job));
    else
        snprintf(cell(c, r, 4), CELL, "%s", text_of(node, "error"));
}

static int print(struct call *call, const json_t *nodes)
{
    static const struct table_column columns[COLUMNS] = {
        {"NODE", false, 0}, {"STATE", false, 0}, {"CPUS FREE", true, 0}, {"GPUS", true, 1},
        {"NOTE", false, 0}};
    struct cells c;
    int rows = (int)json_array_size(nodes);
    int rc = cells_make(&c, rows, COLUMNS, &call->err);
    for (int r = 0; rc == 0 && r < rows; r++)
        fill(&c, r, json_array_get(nodes, (size_t)r));
    if (rc == 0)
        table_print(&call->out, columns, COLUMNS, c.list, NULL, rows);
    cells_free(&c);
    return rc;
}

static int list(struct call *call)
{
    struct client *c;
    json_t *answer = NULL;
    int rc = -1;
    if (client_open(&c, true, &call->err) == 0) {
        rc = client_get(c, &answer, &call->err, "/v1/nodes");
        client_close(c);
    }
    if (rc == 0 && call->json)
        output_json(call, json_incref(answer));
    else if (rc == 0)
        rc = print(call, json_object_get(answer, "nodes"));
    json_decref(answer);
    return rc;
}

/* ---- jobctl nodes test ---- */

/* From here, without the daemon: whoever asks sees what ssh sees. */
static json_t *ask(const char *host, struct err *err)
{
    const char *const words[] = {"test", host, NULL};
    struct buf out = {0};
    int status = 0;
    json_t *answer = NULL;
    if (program_run("jobctl-ssh", words, &out, &status, err) == 0) {
        answer = json_loadb(out.data ? out.data : "", out.size, 0, NULL);
        if (!answer)    /* it has said why on stderr, or not even that */
            answer = json_pack("{s:s, s:b, s:b, s:s}", "host", host, "ok", 0, "again", 1, "text",
                               "did not answer in time");
    }
    buf_fini(&out);
    return answer;
}

static void tell(char *out, size_t size, const json_t *answer)
{
    const json_t *facts = json_object_get(answer, "facts");
    if (!json_is_true(json_object_get(answer, "ok"))) {
        snprintf(out, size, "%s", text_of(answer, "text"));
        return;
    }
    const json_t *gpus = json_object_get(facts, "gpus");
    const char *model = text_of(json_array_get(gpus, 0), "name");
    snprintf(out, size, "ok in %.1f s: %lld GPUs%s%s, as %s",
             (double)json_integer_value(json_object_get(answer, "ms")) / 1000,
             (long long)plan_count_gpus(facts), model[0] ? " " : "", model,
             text_of(facts, "hostname"));
}

static int test(struct call *call, char *const *hosts, int n)
{
    static const struct table_column columns[TEST_COLUMNS] = {{"HOST", false, 0}, {"", false, 0}};
    struct cells c;
    json_t *all = json_array();
    int bad = 0, rc = cells_make(&c, n, TEST_COLUMNS, &call->err);
    for (int i = 0; rc == 0 && i < n; i++) {
        json_t *answer = ask(hosts[i], &call->err);
        rc = answer ? 0 : -1;
        bad += !json_is_true(json_object_get(answer, "ok"));
        snprintf(cell(&c, i, 0), CELL, "%s", hosts[i]);
        tell(cell(&c, i, 1), CELL, answer);
        json_array_append_new(all, answer);
    }
    if (rc == 0 && call->json)
        output_json(call, json_pack("{s:O}", "hosts", all));
    else if (rc == 0)
        table_print(&call->out, columns, TEST_COLUMNS, c.list, NULL, n);
    json_decref(all);
    cells_free(&c);
    return rc < 0 ? -1 : bad ? 1 : 0;
}

static int run(struct call *call)
{
    const struct options *o = &call->options;
    if (o->nargs == 0)
        return list(call);
    if (strcmp(o->args[0], "test") == 0 && o->nargs > 1)
        return test(call, o->args + 1, o->nargs - 1);
    return err_set(&call->err, ERR_USAGE, "nodes knows no \"%.40s\"; there is `jobctl nodes`, and "
                   "`jobctl nodes test HOST...`", o->args[0]);
}

const struct command cmd_nodes = {
    .name = "nodes", .args = ARGS_WORDS,
    .summary = "the machines that jobs can run on, and what of them is free",
    .help = "`jobctl nodes test HOST...` logs in to hosts of launch: ssh, sends the programs and says "
            "what each has, or what must be put right first (exit code 1).",
    .options = options, .run = run,
};
