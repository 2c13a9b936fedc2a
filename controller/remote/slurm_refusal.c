/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_refusal.c - see slurm_refusal.h; one table row per number that means more than its text */
#include "controller/remote/slurm_refusal.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/text_append.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { LIST = 180, VALUE = 100 };

/* The parts of a request that say how much, in the order of a sentence. */
#define SIZE "nodes", "cpus-per-task", "gpus", "mem"

static const struct refusal {
    int         number;
    bool        passes;
    const char *options[4]; /* of sbatch: one of those that the spec sets; none: Slurm's text says it all */
} refusals[] = {
    /* clang-format off */
    { 2000, false, { "partition" } },               /* INVALID_PARTITION_NAME */
    { 2001, false, { "partition" } },               /* DEFAULT_PARTITION_NOT_SET */
    { 2003, false, { "partition" } },               /* JOB_MISSING_REQUIRED_PARTITION_GROUP */
    { 2004, false, { "nodelist" } },                /* REQUESTED_NODES_NOT_IN_PARTITION */
    { 2005, false, { "cpus-per-task" } },           /* TOO_MANY_REQUESTED_CPUS */
    { 2006, false, { "nodes" } },                   /* INVALID_NODE_COUNT */
    { 2007, true,  { NULL } },                      /* ERROR_ON_DESC_TO_RECORD_COPY: the queue is full */
    { 2014, false, { SIZE } },                      /* REQUESTED_NODE_CONFIG_UNAVAILABLE */
    { 2015, false, { "partition", "nodes", "time" } }, /* REQUESTED_PART_CONFIG_UNAVAILABLE */
    { 2016, true,  { NULL } },                      /* NODES_BUSY */
    { 2018, false, { "nodelist", "exclude" } },     /* INVALID_NODE_NAME */
    { 2029, false, { "constraint" } },              /* INVALID_FEATURE */
    { 2037, true,  { NULL } },                      /* DISABLED */
    { 2044, false, { "mem" } },                     /* INVALID_TASK_MEMORY */
    { 2045, false, { "account" } },                 /* INVALID_ACCOUNT */
    { 2048, false, { "licenses" } },                /* INVALID_LICENSES */
    { 2050, true,  { "account", "qos" } },          /* ACCOUNTING_POLICY: a limit of submitted jobs, or of size */
    { 2051, false, { "time" } },                    /* INVALID_TIME_LIMIT */
    { 2052, false, { "reservation" } },             /* RESERVATION_ACCESS */
    { 2053, false, { "reservation" } },             /* RESERVATION_INVALID */
    { 2055, true,  { "reservation" } },             /* RESERVATION_BUSY */
    { 2056, true,  { "reservation" } },             /* RESERVATION_NOT_USABLE: now */
    { 2066, false, { "qos" } },                     /* INVALID_QOS */
    { 2068, true,  { "nodelist" } },                /* NODE_NOT_AVAIL */
    { 2069, false, { "cpus-per-task" } },           /* INVALID_CPU_COUNT */
    { 2070, true,  { "partition" } },               /* PARTITION_NOT_AVAIL: inactive or draining */
    { 2072, false, { "gpus" } },                    /* INVALID_GRES */
    { 2074, true,  { "qos" } },                     /* QOS_THRES */
    { 2090, true,  { NULL } },                      /* INTERNAL */
    { 2101, true,  { "partition" } },               /* PARTITION_DOWN */
    { 2102, false, { "gpus" } },                    /* DUPLICATE_GRES */
    { 2105, true,  { NULL } },                      /* SUBMISSIONS_DISABLED */
    { 2114, false, { "constraint" } },              /* BATCH_CONSTRAINT */
    { 2118, true,  { NULL } },                      /* RESERVATION_MAINT */
    { 2119, false, { "gpus" } },                    /* INVALID_GRES_TYPE */
    { 2120, true,  { NULL } },                      /* REBOOT_IN_PROGRESS */
    { 2122, false, { "gpus" } },                    /* UNSUPPORTED_GRES */
    { 2125, true,  { NULL } },                      /* DEFER */
    { 2130, false, { "partition", "account" } },    /* PARTITION_ASSOC */
    { 2134, false, { "gpus" } },                    /* INSUFFICIENT_GRES */
    { 8000, false, { "time" } },                    /* MISSING_TIME_LIMIT */
    /* clang-format on */
};

static const struct refusal *find(int number)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (refusals[i].number == number)
            return &refusals[i];
    return NULL;
}

bool slurm_refusal_passes(int number)
{
    const struct refusal *r = find(number);
    return r && r->passes;
}

/* Not of a spec that leaves it to Slurm. */
static const json_t *set(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const bool free = json_is_null(value) || (json_is_string(value) && strcmp(json_string_value(value), "auto") == 0) ||
                      (json_is_integer(value) && json_integer_value(value) == 0);
    return free ? NULL : value;
}

/* Where the spec has an option: its key, and its value, NULL: it is not set. */
static const json_t *lookup(char key[64], const char *option, const json_t *spec)
{
    static const struct { const char *option, *part, *name; } places[] = {
        { "partition", "slurm", "partition" }, { "account", "slurm", "account" }, { "time", "slurm", "time" },
        { "nodes", "resources", "nodes" }, { "cpus-per-task", "resources", "cpus" }, { "gpus", "slurm", "gres" },
        { "gpus", "resources", "gpus" },
    };
    const json_t *value = set(json_object_get(json_object_get(spec, "slurm"), "extra"), option);
    snprintf(key, 64, "slurm.extra.%s", option);
    for (size_t i = 0; i < ARRAY_LEN(places) && !value; i++) {
        if (strcmp(places[i].option, option) != 0)
            continue;
        snprintf(key, 64, "%s.%s", places[i].part, places[i].name);
        value = set(json_object_get(spec, places[i].part), places[i].name);
    }
    return value;
}

static void add_value(char *out, size_t size, const char *key, const json_t *value)
{
    if (json_is_string(value))
        text_append(out, size, "%.*s", VALUE, json_string_value(value));
    else if (strcmp(key, "slurm.time") == 0)
        text_append(out, size, "%.0f s", json_number_value(value));
    else
        text_append(out, size, "%.0f", json_number_value(value));
}

static bool is_listed(const json_t *list, const char *name, size_t n)
{
    size_t i;
    json_t *one;
    json_array_foreach (list, i, one)
        if (json_string_length(one) == n && strncmp(json_string_value(one), name, n) == 0)
            return true;
    return false;
}

static void add_partitions(char *out, size_t size, const json_t *list)
{
    const size_t end = strlen(out) + LIST;
    size_t i;
    json_t *one;
    json_array_foreach (list, i, one) {
        if (strlen(out) + json_string_length(one) > end) {
            text_append(out, size, " and %zu more", json_array_size(list) - i);
            return;
        }
        text_append(out, size, "%s%s", i ? ", " : "; partitions: ", json_string_value(one));
    }
}

/* "gpu does not exist", of "main,gpu". */
static void add_unknown(char *out, size_t size, const char *names, const json_t *list)
{
    int unknown = 0;
    for (const char *at = names; *at;) {
        const size_t n = strcspn(at, ",");
        if (!is_listed(list, at, n))
            text_append(out, size, "%s%.*s", unknown++ ? ", " : "", n < VALUE ? (int)n : VALUE, at);
        at += n + (at[n] == ',');
    }
    text_append(out, size, "%s", unknown > 1 ? " do not exist" : unknown ? " does not exist" : names);
}

static void of_partition(char *out, size_t size, const json_t *answer, const json_t *value)
{
    const json_t *list = json_object_get(answer, "partitions");
    const char *names = json_string_value(value);
    snprintf(out, size, "slurm.partition: ");
    if (!names)
        text_append(out, size, "not set, and this cluster has no default");
    else if (json_integer_value(json_object_get(answer, "number")) == 2000 && json_array_size(list) > 0)
        add_unknown(out, size, names, list);
    else
        text_append(out, size, "%.*s is refused by Slurm: %.150s", VALUE, names, field_text(answer, "error"));
    add_partitions(out, size, list);
}

/* "slurm.extra.constraint: a100 is refused by Slurm: Invalid feature specification" */
static bool of_options(char *out, size_t size, const struct refusal *r, const json_t *answer, const json_t *spec)
{
    int told = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(r->options) && r->options[i]; i++) {
        char key[64];
        const json_t *value = lookup(key, r->options[i], spec);
        if (!value)
            continue;
        text_append(out, size, "%s%s: ", told++ ? ", " : "", key);
        add_value(out, size, key, value);
    }
    if (told > 0)
        text_append(out, size, " %s refused by Slurm: %.150s", told > 1 ? "are" : "is", field_text(answer, "error"));
    return told > 0;
}

void slurm_refusal_text(char *out, size_t size, const json_t *answer, const json_t *spec)
{
    char key[64];
    const struct refusal *r = find((int)json_integer_value(json_object_get(answer, "number")));
    if (r && r->options[0] && strcmp(r->options[0], "partition") == 0 && !r->options[1])
        of_partition(out, size, answer, lookup(key, "partition", spec));
    else if (!r || !of_options(out, size, r, answer, spec))
        snprintf(out, size, "Slurm refuses it: %.300s", field_text(answer, "error"));
    err_make_printable(out);
}
