/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_points.c - see sweep_points.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/spec/sweep_points.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

enum { PART = 96, NAME_MAX_OF_JOB = 64 };

/* Keys of a spec that make it a sweep; a member has none of them. */
static const char *const keys[] = {"array", "sweep", "max_parallel"};

/* Iterating does not change it. */
static json_t *loose(const json_t *v)
{
    return (json_t *)(uintptr_t)v;
}

static const json_t *grid_of(const json_t *spec)
{
    const json_t *sweep = json_object_get(spec, "sweep");
    return json_is_object(sweep) || json_is_array(sweep) ? sweep : NULL;
}

bool sweep_points_is(const json_t *spec)
{
    return grid_of(spec) || json_is_string(json_object_get(spec, "array"));
}

int sweep_points_count(const json_t *spec)
{
    const json_t *sweep = grid_of(spec), *values;
    const char *path;
    long count = 1;
    if (!sweep)
        return 0;
    if (json_is_array(sweep))
        return (int)json_array_size(sweep);
    json_object_foreach (loose(sweep), path, values)
        if ((count *= (long)json_array_size(values)) > INDEX_COUNT_MAX)
            return INDEX_COUNT_MAX + 1;
    return (int)count;
}

/* The keys of the first point. */
static const json_t *first_of(const json_t *sweep)
{
    return json_is_array(sweep) ? json_array_get(sweep, 0) : sweep;
}

static int check_keys(const json_t *sweep, struct err *err)
{
    const size_t size = json_object_size(first_of(sweep));
    const char *path;
    json_t *value;
    if (size == 0)
        return err_set(err, ERR_USAGE, "sweep: is empty; give at least one key, such as {train.seed: [1, 2]}");
    if (size > SWEEP_KEYS_MAX)
        return err_set(err, ERR_USAGE, "sweep: %zu keys, but a point has at most %d", size, SWEEP_KEYS_MAX);
    json_object_foreach (loose(first_of(sweep)), path, value) {
        if (strlen(path) == 0 || strlen(path) >= PART)
            return err_set(err, ERR_USAGE, "sweep: \"%.60s\" is not the path of a key", path);
        if (json_is_object(sweep) && json_array_size(value) == 0)
            return err_set(err, ERR_USAGE, "sweep: %s: the list is empty; give at least one value", path);
    }
    return 0;
}

/* A list: the keys of each point are those of the first. */
static int check_same(const json_t *sweep, struct err *err)
{
    const json_t *first = first_of(sweep), *point;
    const char *path;
    json_t *value;
    size_t i;
    json_array_foreach (sweep, i, point) {
        json_object_foreach (loose(first), path, value)
            if (!json_object_get(point, path))
                return err_set(err, ERR_USAGE, "sweep: point %zu has no value for %s, which the first point has",
                               i, path);
        if (json_object_size(point) != json_object_size(first))
            return err_set(err, ERR_USAGE, "sweep: point %zu has other keys than the first point", i);
    }
    return 0;
}

/* A directory that all members would write. */
static int check_dirs(const json_t *spec, struct err *err)
{
    const json_t *checkpoint = json_object_get(spec, "checkpoint"), *given = first_of(grid_of(spec));
    const char *dir = field_text(checkpoint, "dir");
    if (json_object_get(given, "checkpoint"))
        return 0;
    if (dir[0] && strcmp(dir, "auto") != 0 && !json_object_get(given, "checkpoint.dir"))
        return err_set(err, ERR_USAGE, "checkpoint.dir: all members would write there; leave it out, so that each has "
                       "its own, or give it in sweep");
    if (field_text(checkpoint, "mirror")[0] && !json_object_get(given, "checkpoint.mirror"))
        return err_set(err, ERR_USAGE, "checkpoint.mirror: all members would write there; leave it out, or give it in "
                       "sweep");
    return 0;
}

static int check_sweep(const json_t *sweep, struct err *err)
{
    return check_keys(sweep, err) < 0 || (json_is_array(sweep) && check_same(sweep, err) < 0) ? -1 : 0;
}

static int check_array(const json_t *spec, int points, struct err *err)
{
    struct index_list list;
    struct err why = {.code = ERR_NONE};
    if (index_list_parse(&list, field_text(spec, "array"), &why) < 0)
        return err_set(err, ERR_USAGE, "array: %s", why.text);
    if (list.at_once && json_is_integer(json_object_get(spec, "max_parallel")) &&
        json_integer_value(json_object_get(spec, "max_parallel")) != list.at_once)
        return err_set(err, ERR_USAGE, "max_parallel: array has %%%d already; remove one of them", list.at_once);
    const int beyond = points > 0 ? index_list_next(&list, points - 1) : -1;
    if (beyond >= 0)
        return err_set(err, ERR_USAGE, "array: there is no point %d; the points of sweep are 0-%d", beyond, points - 1);
    return 0;
}

int sweep_points_check(const json_t *spec, struct err *err)
{
    const json_t *sweep = grid_of(spec), *array = json_object_get(spec, "array");
    const size_t name = strlen(field_text(spec, "name"));
    if (!sweep_points_is(spec))
        return json_is_integer(json_object_get(spec, "max_parallel"))
               ? err_set(err, ERR_USAGE, "max_parallel: needs sweep or array; remove it, or add one of them") : 0;
    if (sweep && check_sweep(sweep, err) < 0)
        return -1;
    const int points = sweep_points_count(spec);
    if (points > INDEX_COUNT_MAX)
        return err_set(err, ERR_USAGE, "sweep: more than %d points; split it, or leave out some values",
                       INDEX_COUNT_MAX);
    if (json_is_string(array) && check_array(spec, points, err) < 0)
        return -1;
    if (name + SWEEP_NAME_MORE > NAME_MAX_OF_JOB)
        return err_set(err, ERR_USAGE, "name: at most %d characters with sweep or array, because members add their "
                       "index, as in name[17]", NAME_MAX_OF_JOB - SWEEP_NAME_MORE);
    return check_dirs(spec, err);
}

int sweep_points_indices(struct index_list *list, const json_t *spec, struct err *err)
{
    const json_t *array = json_object_get(spec, "array");
    if (json_is_string(array))
        return index_list_parse(list, json_string_value(array), err);
    *list = (struct index_list){.count = 0};
    for (int i = 0; i < sweep_points_count(spec); i++)
        index_list_add(list, i);
    return 0;
}

/* The last key varies fastest. */
static json_t *grid_at(const json_t *grid, int index, int count)
{
    json_t *point = json_object(), *values;
    const char *path;
    json_object_foreach (loose(grid), path, values) {
        const int size = (int)json_array_size(values);
        count /= size;
        json_object_set(point, path, json_array_get(values, (size_t)(index / count)));
        index %= count;
    }
    return point;
}

json_t *sweep_points_at(const json_t *spec, int index)
{
    const json_t *sweep = grid_of(spec);
    const int count = sweep_points_count(spec);
    if (!sweep)
        return json_object();
    if (index < 0 || index >= count || count > INDEX_COUNT_MAX)
        return NULL;
    return json_is_array(sweep) ? json_incref(json_array_get(sweep, (size_t)index)) : grid_at(sweep, index, count);
}

json_t *sweep_points_value(const json_t *map, const char *path)
{
    const char *dot;
    for (; (dot = strchr(path, '.')); path = dot + 1) {
        char part[PART];
        snprintf(part, sizeof(part), "%.*s", (int)(dot - path), path);
        map = json_object_get(map, part);
    }
    return json_object_get(map, path);
}

/* Maps above that are missing or null are made. */
static int put(json_t *spec, const char *path, const json_t *value)
{
    const char *dot;
    for (; (dot = strchr(path, '.')); path = dot + 1) {
        char part[PART];
        snprintf(part, sizeof(part), "%.*s", (int)(dot - path), path);
        if (!json_is_object(json_object_get(spec, part)) && json_object_set_new(spec, part, json_object()) < 0)
            return -1;
        spec = json_object_get(spec, part);
    }
    return json_object_set_new(spec, path, json_deep_copy(value));
}

/* `out` is a copy of the spec. */
static int make_member(json_t *out, const json_t *spec, const json_t *point, int index)
{
    const char *path;
    json_t *value;
    if (!out || !point)
        return -1;
    json_object_foreach (loose(point), path, value)
        if (put(out, path, value) < 0)
            return -1;
    if (!json_is_object(json_object_get(out, "env")))
        json_object_set_new(out, "env", json_object());
    json_object_set_new(out, "name", json_text_f("%s[%d]", field_text(spec, "name"), index));
    return json_object_set_new(json_object_get(out, "env"), SWEEP_INDEX_NAME, json_text_f("%d", index));
}

json_t *sweep_points_member(const json_t *spec, int index)
{
    json_t *rest = json_copy(loose(spec));      /* its grid may be large: it is not copied */
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        json_object_del(rest, keys[i]);
    json_t *out = json_deep_copy(rest), *point = sweep_points_at(spec, index);
    json_decref(rest);
    if (make_member(out, spec, point, index) < 0) {
        json_decref(out);
        out = NULL;
    }
    json_decref(point);
    return out;
}
