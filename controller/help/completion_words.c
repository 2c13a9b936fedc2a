/* SPDX-License-Identifier: Apache-2.0 */
/* completion_words.c - see completion_words.h */
#include "controller/help/completion_words.h"

#include <jansson.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/help/key_text.h"
#include "controller/spec/spec_rows.h"
#include "engine/base/err.h"
#include "engine/base/field.h"


/* The list `name` in the daemon's answer, for json_decref(); NULL if there is none. */
static json_t *fetch(const char *path, const char *name)
{
    struct client *c = NULL;
    struct err none = {0};
    json_t *answer = NULL, *list = NULL;
    if (client_open(&c, false, &none) == 0 && client_get(c, &answer, &none, "%s", path) == 0)
        list = json_incref(json_object_get(answer, name));
    json_decref(answer);
    client_close(c);
    return list;
}

/* Is it the first row of this name?  Then it is the newest job that the name stands for. */
static bool first_of_name(const json_t *jobs, size_t at)
{
    const char *name = field_text(json_array_get(jobs, at), "name");
    for (size_t i = 0; i < at; i++)
        if (strcmp(field_text(json_array_get(jobs, i), "name"), name) == 0)
            return false;
    return true;
}

static void print_jobs(FILE *f)
{
    json_t *jobs = fetch("/v1/jobs?all=1&limit=100", "jobs"), *row;
    size_t i;
    json_array_foreach (jobs, i, row) {
        const char *result = field_text(row, "result");
        fprintf(f, "%lld\t%s, %s\n", (long long)json_integer_value(json_object_get(row, "id")), field_text(row, "name"),
                result[0] ? result : field_text(row, "state"));
    }
    json_array_foreach (jobs, i, row)
        if (first_of_name(jobs, i))
            fprintf(f, "%s\tjob %lld\n", field_text(row, "name"),
                    (long long)json_integer_value(json_object_get(row, "id")));
    if (json_array_size(jobs) > 0)
        fputs("last\tthe newest job\n", f);
    json_decref(jobs);
}

static void print_nodes(FILE *f)
{
    json_t *nodes = fetch("/v1/nodes", "nodes"), *row;
    size_t i;
    json_array_foreach (nodes, i, row)
        fprintf(f, "%s\t%s\n", field_text(row, "name"), field_text(row, "state"));
    json_decref(nodes);
}

/* Keys that `--set` takes: those with a value of their own. */
static void print_keys(FILE *f)
{
    struct spec_row row;
    size_t cursor = 0;
    while (spec_row_next(&row, &cursor))
        if (row.field->type != FIELD_MAP && !strchr(row.path, '['))
            fprintf(f, "%s=\t%s\n", row.path, row.field->help);
}

bool completion_words_print(FILE *f, const char *kind)
{
    static const struct { const char *kind; void (*print)(FILE *f); } rows[] = {
        {"jobs", print_jobs}, {"nodes", print_nodes}, {"keys", print_keys},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].kind, kind) == 0) {
            rows[i].print(f);
            return true;
        }
    return false;
}
