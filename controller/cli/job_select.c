/* SPDX-License-Identifier: Apache-2.0 */
/* job_select.c - see job_select.h */
#include "controller/cli/job_select.h"

#include <stdlib.h>
#include <string.h>

#include "controller/base/client.h"
#include "engine/base/err.h"

enum { RANGE_MAX = 10000 };

/* True if the word consists of ids only ("7", "3-5", "3,5-8"). */
static int is_ids(const char *arg)
{
    return arg[0] >= '0' && arg[0] <= '9' && arg[strspn(arg, "0123456789,-")] == '\0';
}

static int add(json_t *rows, json_t *row)
{
    size_t i;
    json_t *have;
    json_array_foreach (rows, i, have)
        if (json_equal(json_object_get(have, "id"), json_object_get(row, "id")))
            return 0;
    return json_array_append(rows, row);
}

static json_t *find(json_t *rows, long long id)
{
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        if (json_integer_value(json_object_get(row, "id")) == id)
            return row;
    return NULL;
}

/* Asks the daemon why the job is missing: it may have been removed. */
static int say_missing(struct client *c, long long id, struct err *err)
{
    json_t *answer;
    if (client_get(c, &answer, err, "/v1/jobs/%lld", id) < 0)
        return -1;
    json_decref(answer);
    return err_set(err, ERR_CONFLICT, "job %lld was submitted just now; try again", id);
}

/* Selects the jobs of one "7" or "3-5" from the daemon's list. */
static int pick(struct client *c, json_t *rows, json_t *found, const char *part, struct err *err)
{
    char *end;
    long long low = strtoll(part, &end, 10), high = low;
    if (*end == '-' && end[1])
        high = strtoll(end + 1, &end, 10);
    if (*end != ',' && *end != '\0')
        return err_set(err, ERR_USAGE, "\"%.60s\" is not a list of ids; write 7, 3-5 or 3,5-8", part);
    if (high < low || high - low >= RANGE_MAX)
        return err_set(err, ERR_USAGE, "range %.60s is reversed or too long", part);
    int any = 0;
    for (long long id = low; id <= high; id++) {
        json_t *row = find(found, id);
        if (row && add(rows, row) < 0)
            return err_set(err, ERR_MEMORY, "out of memory while listing jobs");
        any |= row != NULL;
    }
    if (!any && low == high)
        return say_missing(c, low, err);
    if (!any)
        return err_set(err, ERR_NOT_FOUND, "no job has an id from %lld to %lld", low, high);
    return 0;
}

static int select_ids(struct client *c, json_t *rows, const char *arg, struct err *err)
{
    json_t *answer;
    if (client_get(c, &answer, err, "/v1/jobs?all=1&limit=%d&ids=%s", RANGE_MAX, arg) < 0)
        return -1;
    int rc = 0;
    for (const char *part = arg; part && rc == 0; part = strchr(part, ',')) {
        part += *part == ',';
        rc = pick(c, rows, json_object_get(answer, "jobs"), part, err);
    }
    json_decref(answer);
    return rc;
}

static int select_name(struct client *c, json_t *rows, const char *arg, struct err *err)
{
    json_t *answer;
    char *part = client_job_part(arg, err);
    if (!part)
        return -1;
    int rc = client_get(c, &answer, err, "/v1/jobs/%s", part);
    free(part);
    if (rc == 0)
        rc = add(rows, json_object_get(answer, "job"));
    json_decref(answer);
    return rc;
}

int job_select(struct client *c, json_t **rows, int nargs, char **args, struct err *err)
{
    json_t *list = json_array();
    int rc = 0;
    for (int i = 0; i < nargs && rc == 0; i++)
        rc = (is_ids(args[i]) ? select_ids : select_name)(c, list, args[i], err);
    if (rc < 0) {
        json_decref(list);
        list = NULL;
    }
    *rows = list;
    return rc;
}

int job_select_active(struct client *c, json_t **rows, struct err *err)
{
    json_t *answer;
    *rows = NULL;
    if (client_get(c, &answer, err, "/v1/jobs?all=0&limit=%d", RANGE_MAX) < 0)
        return -1;
    *rows = json_incref(json_object_get(answer, "jobs"));
    json_decref(answer);
    return 0;
}

json_t *job_select_members(struct client *c, const json_t *row, struct err *err)
{
    json_t *answer;
    const long long id = json_integer_value(json_object_get(row, "id"));
    if (!json_is_object(json_object_get(row, "members")))
        return json_array();
    if (client_get(c, &answer, err, "/v1/jobs?sweep=%lld&limit=%d", id, RANGE_MAX) < 0)
        return NULL;
    json_t *members = json_incref(json_object_get(answer, "jobs"));
    json_decref(answer);
    return members;
}

int job_select_expand(struct client *c, json_t **rows, struct err *err)
{
    json_t *out = json_array(), *row, *one;
    size_t i, k;
    json_array_foreach (*rows, i, row) {
        json_t *members = job_select_members(c, row, err);
        if (!members) {
            json_decref(out);
            return -1;
        }
        json_array_foreach (members, k, one)
            add(out, one);
        add(out, row);
        json_decref(members);
    }
    json_decref(*rows);
    *rows = out;
    return 0;
}
