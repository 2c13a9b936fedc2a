/* SPDX-License-Identifier: Apache-2.0 */
/* spec_paths.c - see spec_paths.h */
#include "controller/spec_paths.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "controller/spec_suggest.h"
#include "engine/err.h"

/* The paths there are. Those that need not exist are made by the job. */
static const struct {
    const char *map, *key, *whole;
    bool        must_exist;
} paths[] = {
    {"data", "path", "train.data.path", true},
    {"checkpoint", "dir", "checkpoint.dir", false},
    {"checkpoint", "mirror", "checkpoint.mirror", true},
    {NULL, "load_from", "load_from", true},
    {NULL, "resume", "resume", true},
};

int spec_path_absolute(char *out, size_t size, const char *base, const char *path,
                       struct err *err)
{
    char joined[PATH_MAX];
    const char *home = getenv("HOME");
    int n = path[0] == '/' ? snprintf(joined, sizeof(joined), "%s", path)
            : (strcmp(path, "~") == 0 || strncmp(path, "~/", 2) == 0) && home
                ? snprintf(joined, sizeof(joined), "%s%s", home, path + 1)
                : snprintf(joined, sizeof(joined), "%s/%s", base, path);
    if (n < 0 || (size_t)n >= sizeof(joined) || (size_t)n >= size)
        return err_set(err, ERR_USAGE, "the path %.60s... is too long", path);
    /* Parts that are empty or "." go; ".." stays, it may cross a symbolic link. */
    size_t at = 0;
    for (const char *p = joined; *p;) {
        p += strspn(p, "/");
        size_t len = strcspn(p, "/");
        if (len == 0)
            break;
        if (len != 1 || *p != '.') {
            out[at++] = '/';
            memcpy(out + at, p, len);
            at += len;
        }
        p += len;
    }
    if (at == 0)
        out[at++] = '/';
    out[at] = '\0';
    return 0;
}

static bool is_word(const char *text)
{
    return strcmp(text, "auto") == 0 || strcmp(text, "latest") == 0 || strcmp(text, "none") == 0;
}

/* Of another machine nothing can be seen here. */
static bool is_elsewhere(const json_t *spec)
{
    const char *launch = json_string_value(json_object_get(spec, "launch"));
    return launch && strcmp(launch, "ssh") == 0;
}

static int resolve_workdir(json_t *spec, const char *base, char *workdir, size_t size,
                           struct err *err)
{
    struct stat st;
    const char *given = json_string_value(json_object_get(spec, "workdir"));
    if (spec_path_absolute(workdir, size, base, given[0] ? given : ".", err) < 0)
        return err_prefix(err, "workdir: ");
    if (is_elsewhere(spec))
        return given[0] ? json_object_set_new(spec, "workdir", json_string(workdir)) : 0;
    if (stat(workdir, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(err, ERR_USAGE, "workdir: there is no directory %s", workdir);
    return json_object_set_new(spec, "workdir", json_string(workdir));
}

int spec_paths_resolve(json_t *spec, const char *base, const char **key, struct err *err)
{
    char workdir[PATH_MAX], absolute[PATH_MAX], near[64];
    *key = "workdir";
    if (resolve_workdir(spec, base, workdir, sizeof(workdir), err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        json_t *map = !paths[i].map ? spec
                      : strncmp(paths[i].whole, "train.", 6) == 0
                          ? json_object_get(json_object_get(spec, "train"), paths[i].map)
                          : json_object_get(spec, paths[i].map);
        const char *given = json_string_value(json_object_get(map, paths[i].key));
        struct stat st;
        if (!given || is_word(given))
            continue;
        *key = paths[i].whole;
        if (spec_path_absolute(absolute, sizeof(absolute), workdir, given, err) < 0)
            return err_prefix(err, "%s: ", *key);
        if (strlen(absolute) >= 1024)
            return err_set(err, ERR_USAGE, "%s: the path is longer than 1023 bytes", *key);
        if (paths[i].must_exist && !is_elsewhere(spec) && stat(absolute, &st) < 0) {
            spec_nearest_choice(near, sizeof(near), "latest|none", given);
            if (strcmp(*key, "resume") == 0 && near[0])
                return err_set(err, ERR_USAGE, "resume: expected latest, none or a path, not "
                               "\"%.60s\"; did you mean %s?", given, near);
            return err_set(err, ERR_USAGE, "%s: there is no %.300s%s", *key, absolute,
                           given[0] == '/' ? "" : "; relative paths start at workdir");
        }
        json_object_set_new(map, paths[i].key, json_string(absolute));
    }
    return 0;
}
