/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_slurm.c - see doctor_slurm.h */
#include "controller/checks/doctor_slurm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doctor/doctor_rows.h"
#include "engine/base/buf.h"
#include "controller/base/program.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static json_int_t wanted(const json_t *spec, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(spec, "resources"), key));
}

/* Checks of programs and files also hold for the compute nodes if both machines share them. */
static void take_shared(struct doctor_rows *r, const json_t *here)
{
    static const char *const shared[] = {"programs", "disk", "data", "checkpoints"};
    size_t i;
    const json_t *row;
    r->node = "here";
    json_array_foreach (json_object_get(here, "rows"), i, row)
        for (size_t k = 0; k < sizeof(shared) / sizeof(shared[0]); k++)
            if (strcmp(field_text(row, "check"), shared[k]) == 0)
                doctor_rows_take(r, row);
}

/* The answer of jobctl-slurm; {"ok":false, "error"} if it gives none. */
static json_t *ask_slurm(const char *op)
{
    struct buf out = {0};
    struct err err = {0};
    json_t *request = json_make("{s:i, s:s}", "id", 1, "op", op);
    int rc = program_tell("jobctl-slurm", request, &out, &err);
    json_t *answer = rc >= 0 && out.size ? json_loadb(out.data, out.size, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    buf_fini(&out);
    json_decref(request);
    return answer ? answer
                  : json_make("{s:b, s:s}", "ok", 0, "error",
                              rc < 0 ? err.text
                                     : "jobctl-slurm ended without an answer: is there a slurm.conf?");
}

static bool is_in_service(const json_t *node)
{
    static const char *const out[] = {"down", "drain", "fail", "power", "unknown", "maint"};
    char state[64] = "";
    const char *said = field_text(node, "state");
    for (size_t i = 0; said[i] && i + 1 < sizeof(state); i++)
        state[i] = said[i] >= 'A' && said[i] <= 'Z' ? (char)(said[i] + 'a' - 'A') : said[i];
    for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
        if (strstr(state, out[i]))
            return false;
    return true;
}

/* "gpu:a100:8(S:0-1),license:2" gives 8; "gpu" alone gives 1. */
static json_int_t gpus_of(const char *gres)
{
    json_int_t n = 0;
    for (const char *p = gres; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
        const size_t size = strcspn(p, ",(");
        size_t digits = size;
        while (digits > 0 && p[digits - 1] >= '0' && p[digits - 1] <= '9')
            digits--;
        if (strncmp(p, "gpu", 3) == 0 && (size == 3 || p[3] == ':'))
            n += digits < size && p[digits - 1] == ':' ? strtoll(p + digits, NULL, 10) : 1;
    }
    return n;
}

/* Checks each partition of the comma-separated `slurm.partition`. */
static void check_partition(struct doctor_rows *r, const json_t *spec, const json_t *known)
{
    const char *wanted_one = field_text(json_object_get(spec, "slurm"), "partition");
    char list[400] = "";
    size_t i, at = 0;
    const json_t *name;
    json_array_foreach (known, i, name)
        if (at + 80 < sizeof(list))
            at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%.64s", i ? ", " : "", json_string_value(name));
    for (const char *p = wanted_one; *p && at; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
        const size_t size = strcspn(p, ",");
        bool found = false;
        json_array_foreach (known, i, name)
            found = found || (strlen(json_string_value(name)) == size &&
                              memcmp(json_string_value(name), p, size) == 0);
        if (!found)
            doctor_row(r, "partition", ROW_FAIL, "set slurm.partition to one of these",
                       "Slurm has no partition %.*s; its partitions: %s", (int)(size < 64 ? size : 64), p, list);
    }
}

static void check_cluster(struct doctor_rows *r, const json_t *spec)
{
    json_t *answer = ask_slurm("nodes");
    size_t i, all = 0, good = 0, fit = 0;
    char with[40] = "";
    const json_t *node;
    if (!json_is_true(json_object_get(answer, "ok"))) {
        doctor_row(r, "Slurm", ROW_FAIL, "check `sinfo` and SLURM_CONF", "%s", field_text(answer, "error"));
        json_decref(answer);
        return;
    }
    json_array_foreach (json_object_get(answer, "nodes"), i, node) {
        const bool gpus = gpus_of(field_text(node, "gres")) >= wanted(spec, "gpus");
        all++;
        good += is_in_service(node);
        fit += is_in_service(node) && (wanted(spec, "gpus") <= 0 || gpus);
    }
    check_partition(r, spec, json_object_get(answer, "partitions"));
    json_decref(answer);
    if (wanted(spec, "gpus") > 0)
        snprintf(with, sizeof(with), " with %lld GPU%s", (long long)wanted(spec, "gpus"),
                 wanted(spec, "gpus") == 1 ? "" : "s");
    if ((json_int_t)fit < wanted(spec, "nodes"))
        doctor_row(r, "Slurm", ROW_FAIL, "request fewer nodes; `sinfo -R` says why nodes are down",
                   "resources.nodes is %lld%s, but of %zu nodes %zu are in service and %zu fit",
                   (long long)wanted(spec, "nodes"), with, all, good, fit);
    else
        doctor_row(r, "Slurm", ROW_OK, "", "%zu of %zu nodes are in service, %zu fit", good, all, fit);
}

static void check_time(struct doctor_rows *r, const json_t *spec)
{
    const json_t *limit = json_object_get(json_object_get(spec, "slurm"), "time");
    const json_t *needs = json_object_get(spec, "max_duration");
    if (!json_is_number(limit) || !json_is_number(needs))
        return;
    const double has = json_number_value(limit) / 3600, asks = json_number_value(needs) / 3600;
    doctor_row(r, "time", asks > has ? ROW_WARN : ROW_OK,
               "none needed: jobctl saves a checkpoint in time and continues in a new allocation",
               "max_duration is %.1f h, an allocation lasts %.1f h", asks, has);
}

json_t *doctor_slurm(const json_t *here, const json_t *spec, struct err *err)
{
    struct doctor_rows r;
    doctor_rows_init(&r);
    take_shared(&r, here);
    r.node = "all";
    check_cluster(&r, spec);
    check_time(&r, spec);
    doctor_row(&r, "compute nodes", ROW_UNKNOWN,
               "submit the job: each attempt checks its nodes before its ranks start; see `jobctl logs --events`",
               "GPUs, driver, network, clocks and access to files can only be checked on the nodes");
    json_t *answer = doctor_rows_end(&r);
    if (!answer)
        err_set(err, ERR_MEMORY, "out of memory for the checks");
    return answer;
}
