/* SPDX-License-Identifier: Apache-2.0 */
/* spec_paths.c - see spec_paths.h */
#include "controller/spec/spec_paths.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_suggest.h"
#include "engine/base/err.h"
#include "engine/base/json_text.h"
#include "engine/hub/hub_name.h"

/* All paths of a spec. Those that need not exist are created by the job. */
static const struct {
    const char *map, *key, *whole;
    bool        must_exist, hub; /* may be hf://OWNER/REPO */
} paths[] = {
    {"data", "path", "train.data.path", true, false},
    {"prior", "path", "train.prior.path", true, false},
    {"data", "vae", "train.data.vae", true, true},
    {"data", "text_encoder", "train.data.text_encoder", true, true},
    {"data", "tokenizer", "train.data.tokenizer", true, true},
    {"data", "instruction", "train.data.instruction", true, false},
    {"data", "cache", "train.data.cache", false, false},
    {"data", "text_features", "train.data.text_features", true, false},
    {"model", "weights", "train.model.weights", true, true},
    {"checkpoint", "dir", "checkpoint.dir", false, false},
    {"checkpoint", "mirror", "checkpoint.mirror", true, false},
    {NULL, "resume", "resume", true, false},
};

int spec_path_absolute(char *out, size_t size, const char *base, const char *path, struct err *err)
{
    char joined[PATH_MAX];
    const char *home = getenv("HOME");
    int n = path[0] == '/' ? snprintf(joined, sizeof(joined), "%s", path)
            : (strcmp(path, "~") == 0 || strncmp(path, "~/", 2) == 0) && home
                ? snprintf(joined, sizeof(joined), "%s%s", home, path + 1)
                : snprintf(joined, sizeof(joined), "%s/%s", base, path);
    if (n < 0 || (size_t)n >= sizeof(joined) || (size_t)n >= size)
        return err_set(err, ERR_USAGE, "the path %.60s... is too long", path);
    /* Drops empty and "." parts; keeps "..", which may follow a symbolic link. */
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

static void fault(struct spec_diagnostics *diagnostics, const char *key, const struct err *err)
{
    spec_diagnostic_of(diagnostics, key, "%s: %s", key, err->text);
    spec_diagnostics_suppress(diagnostics, key);
}

/* A name on a hub is not a path: it is checked as a name, and stays as it is. */
static bool is_hub(size_t i, const char *given, struct spec_diagnostics *diagnostics)
{
    struct hub_name name;
    struct err err = {.code = ERR_NONE};
    if (!hub_name_is(given))
        return false;
    if (!paths[i].hub)
        err_set(&err, ERR_USAGE, "a model on a hub is not possible for this key; expected a path");
    if (err.code != ERR_NONE || hub_name_parse(&name, given, &err) < 0)
        fault(diagnostics, paths[i].whole, &err);
    return true;
}

static bool is_word(const char *text)
{
    return strcmp(text, "auto") == 0 || strcmp(text, "latest") == 0 || strcmp(text, "none") == 0;
}

/* A batch system may run the job where the same directory has another real name. */
static bool runs_here(const json_t *spec)
{
    const char *launch = json_string_value(json_object_get(spec, "launch"));
    return !launch || (strcmp(launch, "slurm") != 0 && strcmp(launch, "ssh") != 0);
}

/* Can the path be checked here? Not if the job runs on another or an unknown machine. */
static bool is_here(const json_t *spec, const struct spec_diagnostics *diagnostics)
{
    const char *launch = json_string_value(json_object_get(spec, "launch"));
    return spec_diagnostics_trust(diagnostics, "launch") && (!launch || strcmp(launch, "ssh") != 0);
}

/* Only these two are known to be absent: a disk that fails has not said so. */
static bool is_absent(int errnum)
{
    return errnum == ENOENT || errnum == ENOTDIR;
}

static int check_workdir(const char *workdir, struct err *err)
{
    struct stat st;
    if (stat(workdir, &st) == 0)
        return S_ISDIR(st.st_mode) ? 0 : err_set(err, ERR_USAGE, "%s is not a directory", workdir);
    return is_absent(errno) ? err_set(err, ERR_USAGE, "directory %s does not exist", workdir)
                            : err_set_errno(err, errno, "cannot look at directory %s", workdir);
}

static void resolve_workdir(json_t *spec, const char *base, char *workdir, size_t size,
                            struct spec_diagnostics *diagnostics)
{
    struct err err = {.code = ERR_NONE};
    const char *given = json_string_value(json_object_get(spec, "workdir"));
    const bool here = is_here(spec, diagnostics);
    if (spec_path_absolute(workdir, size, base, given[0] ? given : ".", &err) == 0 && here)
        check_workdir(workdir, &err);
    if (err.code != ERR_NONE)
        fault(diagnostics, "workdir", &err);
    else if (here || given[0])
        json_object_set_new(spec, "workdir", json_text(workdir));
}

/* Replaces the part of `path` that exists by the same without symbolic links: two jobs that name one directory
 * in two ways are found (controller/nodes/shared_dir.h), and a link that changes does not move a job. */
static void follow_links(char path[PATH_MAX])
{
    char head[PATH_MAX], whole[PATH_MAX], rest[PATH_MAX];
    snprintf(head, sizeof(head), "%s", path);
    for (char *slash; !realpath(head, whole); *slash = '\0')
        if (!(slash = strrchr(head, '/')) || slash == head)
            return;
    snprintf(rest, sizeof(rest), "%s", path + strlen(head));
    const int n = snprintf(head, sizeof(head), "%s%s", strcmp(whole, "/") == 0 && rest[0] ? "" : whole, rest);
    if (n < 1024)
        snprintf(path, PATH_MAX, "%s", head);
}

/* Makes the value of `key` absolute; -1 with a sentence without the key. */
static int resolve(char *absolute, size_t size, const char *workdir, const char *key,
                   const char *given, bool must_exist, struct err *err)
{
    char near[64];
    struct stat st;
    if (spec_path_absolute(absolute, size, workdir, given, err) < 0)
        return -1;
    if (strlen(absolute) >= 1024)
        return err_set(err, ERR_USAGE, "the path is longer than 1023 bytes");
    if (!must_exist || stat(absolute, &st) == 0)
        return 0;
    if (!is_absent(errno))
        return err_set_errno(err, errno, "cannot look at %.300s", absolute);
    spec_nearest_choice(near, sizeof(near), "latest|none", given);
    if (strcmp(key, "resume") == 0 && near[0] && !strchr(given, '/'))
        return err_set(err, ERR_USAGE, "expected latest, none or a path, not \"%.60s\"; did you mean "
                       "%s?", given, near);
    return err_set(err, ERR_USAGE, "%.300s does not exist%s", absolute,
                   given[0] == '/' ? "" : "; relative paths start at workdir");
}

/* The map that holds the path of a row. */
static json_t *map_of(const json_t *spec, size_t i)
{
    if (!paths[i].map)
        return (json_t *)(uintptr_t)spec;
    if (strncmp(paths[i].whole, "train.", 6) == 0)
        spec = json_object_get(spec, "train");
    return json_object_get(spec, paths[i].map);
}

void spec_paths_resolve(json_t *spec, const char *base, struct spec_diagnostics *diagnostics)
{
    char workdir[PATH_MAX] = "", absolute[PATH_MAX];
    if (spec_diagnostics_trust(diagnostics, "workdir"))
        resolve_workdir(spec, base, workdir, sizeof(workdir), diagnostics);
    const bool rooted = spec_diagnostics_trust(diagnostics, "workdir"), here = is_here(spec, diagnostics);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct err err = {.code = ERR_NONE};
        json_t *map = map_of(spec, i);
        const char *given = json_string_value(json_object_get(map, paths[i].key));
        if (!given || is_word(given) || (!rooted && given[0] != '/' && given[0] != '~' && !hub_name_is(given)) ||
            !spec_diagnostics_trust(diagnostics, paths[i].whole) || is_hub(i, given, diagnostics))
            continue;
        if (resolve(absolute, sizeof(absolute), workdir, paths[i].whole, given, paths[i].must_exist && here, &err) < 0)
            fault(diagnostics, paths[i].whole, &err);
        else if (runs_here(spec) && strcmp(paths[i].whole, "checkpoint.dir") == 0)
            follow_links(absolute);
        if (err.code == ERR_NONE)
            json_object_set_new(map, paths[i].key, json_text(absolute));
    }
}

static void check_absolute(const char *key, const char *given, struct spec_diagnostics *diagnostics)
{
    char absolute[PATH_MAX];
    struct err err = {.code = ERR_NONE};
    if (given[0] != '/')
        err_set(&err, ERR_USAGE, "expected an absolute path, not \"%.60s\"", given);
    else if (resolve(absolute, sizeof(absolute), "/", key, given, false, &err) == 0 &&
             strcmp(absolute, given) != 0)
        err_set(&err, ERR_USAGE, "expected %.300s, not %.300s", absolute, given);
    if (err.code != ERR_NONE)
        fault(diagnostics, key, &err);
}

void spec_paths_check_absolute(const json_t *spec, struct spec_diagnostics *diagnostics)
{
    const char *launch = json_string_value(json_object_get(spec, "launch"));
    const char *workdir = json_string_value(json_object_get(spec, "workdir"));
    const bool ssh = launch && strcmp(launch, "ssh") == 0; /* "": the user's home on the host */
    if (workdir && spec_diagnostics_trust(diagnostics, "workdir") && (workdir[0] || !ssh))
        check_absolute("workdir", workdir, diagnostics);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        const char *given = json_string_value(json_object_get(map_of(spec, i), paths[i].key));
        if (given && !is_word(given) && spec_diagnostics_trust(diagnostics, paths[i].whole) &&
            !is_hub(i, given, diagnostics))
            check_absolute(paths[i].whole, given, diagnostics);
    }
}
