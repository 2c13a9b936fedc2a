/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_nodes.c - jobctl nodes: the machines that jobs can run on, and what of them is free */
#include <stdio.h>
#include <stdlib.h>

#include "controller/client.h"
#include "controller/command.h"
#include "controller/output.h"
#include "controller/table.h"

static const struct option_row options[] = {OPTION_JSON, {.name = NULL}};

enum { CELL = 128, COLUMNS = 4 };

static int print(struct call *call, const json_t *nodes)
{
    static const struct table_column columns[COLUMNS] = {
        {"NODE", false, 0}, {"STATE", false, 0}, {"CPUS FREE", true, 0}, {"GPUS", true, 1}};
    int rows = (int)json_array_size(nodes);
    char (*text)[CELL] = calloc((size_t)rows * COLUMNS + 1, sizeof(*text));
    const char **cells = calloc((size_t)rows * COLUMNS + 1, sizeof(*cells));
    if (!text || !cells) {
        free(text);
        free(cells);
        return err_set(&call->err, ERR_MEMORY, "out of memory while drawing %d nodes", rows);
    }
    for (int r = 0; r < rows; r++) {
        const json_t *node = json_array_get(nodes, (size_t)r);
        const char *name = json_string_value(json_object_get(node, "name"));
        const char *state = json_string_value(json_object_get(node, "state"));
        char (*row)[CELL] = text + r * COLUMNS;
        snprintf(row[0], CELL, "%s", name ? name : "-");
        snprintf(row[1], CELL, "%s", state ? state : "-");
        snprintf(row[2], CELL, "%lld of %lld",
                 (long long)json_integer_value(json_object_get(node, "cpus_free")),
                 (long long)json_integer_value(json_object_get(node, "cpus")));
        snprintf(row[3], CELL, "%zu", json_array_size(json_object_get(node, "gpus")));
        for (int i = 0; i < COLUMNS; i++)
            cells[r * COLUMNS + i] = row[i];
    }
    table_print(&call->out, columns, COLUMNS, cells, NULL, rows);
    free(text);
    free(cells);
    return 0;
}

static int run(struct call *call)
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

const struct command cmd_nodes = {
    .name = "nodes", .args = ARGS_NONE,
    .summary = "the machines that jobs can run on, and what of them is free",
    .options = options, .run = run,
};
