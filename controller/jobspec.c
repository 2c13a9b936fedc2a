/* SPDX-License-Identifier: Apache-2.0 */
/* jobspec.c - the steps, in order: tree, overrides, rows, rules, paths, the engine's own check */
#include "controller/jobspec.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/host_groups.h"
#include "controller/spec_check.h"
#include "controller/spec_paths.h"
#include "controller/spec_rows.h"
#include "controller/spec_rules.h"
#include "controller/spec_set.h"
#include "controller/yaml.h"
#include "engine/err.h"

/* The place of a node; a node from the command line is named in the sentence instead. */
static int point_at(const struct spec_place *place, struct spec_error *where, struct err *err)
{
    const struct yaml_node *n = place->node;
    if (!n)
        return -1;
    if (n->origin)
        return err_prefix(err, "%s: ", n->origin);
    const struct yaml_mark *m = place->is_key && n->key ? &n->key_at : &n->at;
    where->line = m->line;
    where->column = m->column;
    return -1;
}

/* The value of `path` in the tree, or the key of the deepest map above it that is there. */
static struct spec_place place_of(const struct yaml_node *root, const char *path)
{
    const struct yaml_node *at = root;
    while (*path) {
        char part[SPEC_PATH];
        size_t n = strcspn(path, ".");
        snprintf(part, sizeof(part), "%.*s", (int)n, path);
        const struct yaml_node *next = yaml_get(at, part);
        if (!next)
            return (struct spec_place){.node = at, .is_key = 1};
        at = next;
        path += n + (path[n] == '.');
    }
    return (struct spec_place){.node = at};
}

/* Names that jobspec makes of a file name must pass its own rule. */
static void default_name(char *out, size_t size, const char *file)
{
    struct err ignored = {0};
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    snprintf(out, size, "%.*s", JOB_NAME_MAX - 4, strcmp(file, "-") == 0 ? "job" : base);
    char *dot = strrchr(out, '.');
    if (dot && dot != out)
        *dot = '\0';
    for (char *p = out; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
            *p = '-';
    if (spec_name_check(out, &ignored) == 0)
        return;
    char made[JOB_NAME_MAX + 1];
    snprintf(made, sizeof(made), "job-%.*s", JOB_NAME_MAX - 4, out);
    snprintf(out, size, "%s", made);
}

/* Ids become numbers, so that a reader need not guess. */
static void number_ids(json_t *after)
{
    size_t i;
    json_t *entry;
    json_array_foreach (after, i, entry) {
        const char *text = json_string_value(entry);
        if (text && text[0] && strlen(text) < 18 && text[strspn(text, "0123456789")] == '\0')
            json_array_set_new(after, i, json_integer(strtoll(text, NULL, 10)));
    }
}

static int base_of(char *out, size_t size, const char *file, const char *cwd, struct err *err)
{
    char dir[PATH_MAX];
    if (snprintf(dir, sizeof(dir), "%s", file) >= (int)sizeof(dir))
        return err_set(err, ERR_USAGE, "the file's name is too long");
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    return spec_path_absolute(out, size, cwd, slash ? dir : ".", err);
}

/* The engine reads what it will be given: combinations of its keys are its own business. Its
 * sentence begins with the key. */
static int check_engine(const json_t *spec, const struct yaml_node *root, struct spec_place *place,
                        struct err *err)
{
    if (!json_is_object(json_object_get(spec, "train")))
        return 0;
    struct train_spec *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return err_set(err, ERR_MEMORY, "out of memory while checking train");
    struct err why = {0};
    int rc = train_spec_parse(engine, spec, &why);
    free(engine);
    if (rc == 0)
        return 0;
    char path[SPEC_PATH];
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(why.text, ":"), why.text);
    *place = place_of(root, path);
    return err_set(err, why.code, "%s", why.text);
}

/* `spec` has every key; now what needs the whole of it. */
static int finish(json_t *spec, const struct yaml_node *root, const char *file, const char *cwd,
                  struct spec_place *place, struct err *err)
{
    char name[JOB_NAME_MAX + 8], base[PATH_MAX];
    const char *path = "";
    if (!json_string_length(json_object_get(spec, "name"))) {
        default_name(name, sizeof(name), file);
        json_object_set_new(spec, "name", json_string(name));
    }
    number_ids(json_object_get(spec, "after"));
    if (host_groups_expand(json_object_get(spec, "hosts"), err) < 0) {
        *place = place_of(root, "hosts");
        return -1;
    }
    if (spec_rules_check(spec, &path, err) < 0 || base_of(base, sizeof(base), file, cwd, err) < 0 ||
        spec_paths_resolve(spec, base, &path, err) < 0) {
        *place = place_of(root, path);
        return -1;
    }
    return check_engine(spec, root, place, err);
}

static int parse_root(struct yaml_doc *doc, struct yaml_node **root, const char *const *set,
                      int nset, struct spec_error *where, struct err *err)
{
    *root = yaml_root(doc);
    if (!*root && nset == 0) {
        where->line = where->column = 1;
        return err_set(err, ERR_USAGE, "the file is empty; describe a job, for example "
                       "run: python train.py");
    }
    if (!*root && !(*root = yaml_new_map(doc, NULL, err)))
        return -1;
    if ((*root)->kind != YAML_MAP) {
        where->line = (*root)->at.line;
        where->column = (*root)->at.column;
        return err_set(err, ERR_USAGE, "a job spec is a map of keys, such as run: python train.py; "
                       "this is %s", (*root)->kind == YAML_LIST ? "a list" : "a text");
    }
    for (int i = 0; i < nset; i++)
        if (spec_set(doc, *root, set[i], err) < 0)
            return -1;
    return 0;
}

int jobspec_parse(json_t **canonical, const char *text, const char *file, const char *cwd,
                  const char *const *set, int nset, struct spec_error *where, struct err *err)
{
    struct yaml_doc *doc = NULL;
    struct yaml_node *root;
    struct yaml_mark at = {0, 0};
    struct spec_place place = {0};
    json_t *checked = NULL, *spec = NULL;
    int rc = -1;

    *canonical = NULL;
    *where = (struct spec_error){0, 0};
    if (yaml_parse(&doc, text, &at, err) < 0) {
        *where = (struct spec_error){at.line, at.column};
        return -1;
    }
    if (parse_root(doc, &root, set, nset, where, err) < 0)
        goto out;
    /* The schema number comes first in the canonical text. */
    spec = json_pack("{s:i}", "schema", 1);
    if (!spec) {
        err_set(err, ERR_MEMORY, "out of memory while checking the spec");
        goto out;
    }
    if (spec_check(&checked, root, &place, err) < 0 || json_object_update(spec, checked) < 0 ||
        finish(spec, root, file, cwd, &place, err) < 0) {
        point_at(&place, where, err);
        goto out;
    }
    *canonical = json_incref(spec);
    rc = 0;
out:
    json_decref(spec);
    json_decref(checked);
    yaml_destroy(doc);
    return rc;
}
