/* SPDX-License-Identifier: Apache-2.0 */
/* jobspec.c - the steps in order: tree, overrides, rows, rules, paths, the engine's own check */
#include "controller/spec/jobspec.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/yaml.h"
#include "controller/spec/config.h"
#include "controller/spec/host_groups.h"
#include "controller/spec/notify_target.h"
#include "controller/spec/recipe.h"
#include "controller/spec/spec_check.h"
#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_image.h"
#include "controller/spec/spec_paths.h"
#include "controller/spec/spec_rows.h"
#include "controller/spec/spec_rules.h"
#include "controller/spec/spec_set.h"
#include "controller/spec/spec_suggest.h"
#include "controller/spec/sweep_tree.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

/* A job name derived from a file name must be valid. */
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

/* Ids become numbers, so that they differ from names. */
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

int jobspec_base(char *out, size_t size, const char *file, const char *cwd, struct err *err)
{
    char dir[PATH_MAX];
    if (snprintf(dir, sizeof(dir), "%s", file) >= (int)sizeof(dir))
        return err_set(err, ERR_USAGE, "the file's name is too long");
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    return spec_path_absolute(out, size, cwd, slash ? dir : ".", err);
}

/* The engine checks combinations of its own keys. Its messages begin with the key. */
static int check_engine(const json_t *spec, struct spec_diagnostics *diagnostics, struct err *err)
{
    if (!json_is_object(json_object_get(spec, "train")))
        return 0;
    struct train_spec *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return err_set(err, ERR_MEMORY, "out of memory while checking train");
    train_spec_fill(engine, spec);
    for (const struct train_rule *r = train_spec_rules(); r->reads; r++) {
        char path[SPEC_PATH];
        struct err why = {.code = ERR_NONE};
        if (!spec_diagnostics_trust(diagnostics, r->reads) || r->check(engine, spec, &why) == 0)
            continue;
        snprintf(path, sizeof(path), "%.*s", (int)strcspn(why.text, ":"), why.text);
        spec_diagnostic_err(diagnostics, path, &why);
    }
    free(engine);
    return 0;
}

static void expand_hosts(json_t *spec, struct spec_diagnostics *diagnostics)
{
    struct err why = {.code = ERR_NONE};
    if (host_groups_expand(json_object_get(spec, "hosts"), &why) == 0)
        return;
    spec_diagnostic_err(diagnostics, "hosts", &why);
    spec_diagnostics_suppress(diagnostics, "hosts");
}

static int no_target(const char *name, const json_t *targets, struct err *err)
{
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *known = field_text(json_array_get(targets, i), "name");
        if (spec_distance(known, name) <= 2)
            return err_set(err, ERR_USAGE, "notify.to: unknown target \"%.60s\"; did you mean %.64s?", name, known);
    }
    return err_set(err, ERR_USAGE, "notify.to: unknown target \"%.60s\"; define it in config.yaml, such as notify: "
                   "{%.60s: {webhook: \"${SLACK_URL}\"}}", name, name);
}

/* Each name in `to`, a list or NULL, must be a target in config.yaml. */
static int check_names(const json_t *to, struct err *err)
{
    struct config config = { .groups = NULL };
    int rc = json_array_size(to) > 0 ? config_load(&config, err) : 0;
    for (size_t i = 0; rc == 0 && i < json_array_size(to); i++) {
        const char *name = json_string_value(json_array_get(to, i));
        if (!notify_target_find(config.notify, name))
            rc = no_target(name, config.notify, err);
    }
    config_fini(&config);
    return rc;
}

static void check_targets(const json_t *spec, struct spec_diagnostics *diagnostics)
{
    struct err why = {.code = ERR_NONE};
    if (check_names(json_object_get(json_object_get(spec, "notify"), "to"), &why) < 0)
        spec_diagnostic_err(diagnostics, "notify.to", &why);
}

int jobspec_check_whole(json_t *spec, const char *base, struct spec_diagnostics *diagnostics, struct err *err)
{
    number_ids(json_object_get(spec, "after"));
    spec_rules_check(spec, diagnostics);
    if (base)
        spec_paths_resolve(spec, base, diagnostics);
    else
        spec_paths_check_absolute(spec, diagnostics);
    spec_image_check(spec, base != NULL, diagnostics);
    return check_engine(spec, diagnostics, err);
}

/* `spec` has every key; now the values that the file's place and the user's configuration decide. */
static int finish(json_t *spec, const char *file, const char *cwd, struct spec_diagnostics *diagnostics,
                  struct err *err)
{
    char name[JOB_NAME_MAX + 8], base[PATH_MAX];
    if (!json_string_length(json_object_get(spec, "name"))) {
        default_name(name, sizeof(name), file);
        json_object_set_new(spec, "name", json_text(name));
    }
    if (jobspec_base(base, sizeof(base), file, cwd, err) < 0)
        return -1;
    expand_hosts(spec, diagnostics);
    check_targets(spec, diagnostics);
    return jobspec_check_whole(spec, base, diagnostics, err);
}

/* The root of the tree after --set; NULL: an error was reported. The value of an invalid --set is
 * missing. */
static struct yaml_node *find_root(struct yaml_doc *doc, const char *const *set, int nset,
                                   struct spec_diagnostics *diagnostics, struct err *err)
{
    struct yaml_node *root = yaml_root(doc);
    if (!root && nset == 0) {
        err_set(err, ERR_USAGE, "the file is empty; a minimal job is run: python train.py");
        diagnostics_add(&diagnostics->found, 1, 1, err);
        return NULL;
    }
    if (!root && !(root = yaml_new_map(doc, NULL, err)))
        return NULL;
    if (root->kind != YAML_MAP) {
        spec_diagnostic_at(diagnostics, root, SPOT_VALUE,
                           "a job spec is a map of keys, such as run: python "
                           "train.py, not %s", root->kind == YAML_LIST ? "a list" : "a text");
        return NULL;
    }
    for (int i = 0; i < nset; i++) {
        struct err why = {.code = ERR_NONE};
        if (spec_set(doc, root, set[i], &why) == 0)
            continue;
        diagnostics_add(&diagnostics->found, 0, 0, &why);
        spec_diagnostics_stranger(diagnostics, "");
    }
    return root;
}

void jobspec_check_members(const json_t *spec, struct spec_diagnostics *diagnostics)
{
    char path[SPEC_PATH];
    struct err why = {.code = ERR_NONE};
    if (!spec_diagnostics_trust(diagnostics, "sweep|array|max_parallel") || sweep_points_check(spec, &why) == 0)
        return;
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(why.text, ":"), why.text);
    spec_diagnostic_err(diagnostics, path, &why);
}

/* "0-99%8" is an array and its limit. */
static void part_array(json_t *spec)
{
    struct index_list list;
    struct err ignored = {.code = ERR_NONE};
    const char *text = json_string_value(json_object_get(spec, "array"));
    if (!text || index_list_parse(&list, text, &ignored) < 0 || !list.at_once || json_object_get(spec, "max_parallel"))
        return;
    json_object_set_new(spec, "array", json_text_n(text, strcspn(text, "%")));
    json_object_set_new(spec, "max_parallel", json_integer(list.at_once));
}

/* The tree as canonical JSON, or NULL; mistakes are added to the diagnostics. */
static json_t *check_root(struct yaml_node *root, const char *file, const char *cwd,
                          struct spec_diagnostics *diagnostics, struct err *err)
{
    json_t *checked = NULL, *spec = json_make("{s:i}", "schema", 1); /* its first key */
    if (spec && spec_check(&checked, root, diagnostics, err) == 0 &&
        json_object_update(spec, checked) == 0 && finish(spec, file, cwd, diagnostics, err) == 0) {
        json_decref(checked);
        return spec;
    }
    json_decref(checked);
    json_decref(spec);
    return NULL;
}

/* Every point of a sweep is checked as if it were the whole file; the first one that is wrong is reported. */
static json_t *check_points(struct sweep_tree *t, struct yaml_node *root, const char *file, const char *cwd,
                            struct spec_diagnostics *diagnostics, struct err *err)
{
    json_t *first = NULL;
    for (int i = 0; i < t->points && diagnostics->found.count == 0; i++) {
        json_t *spec = sweep_tree_put(t, root, i, diagnostics, err) < 0
                       ? NULL : check_root(root, file, cwd, diagnostics, err);
        if (!spec)
            break;
        sweep_tree_note(t, i, spec);
        if (i == 0)
            first = json_incref(spec);
        json_decref(spec);
    }
    if (first && diagnostics->found.count == 0)
        json_object_set_new(first, "sweep", sweep_tree_canonical(t));
    return first;
}

/* The values of `train.config` go below those of the file itself. */
static int read_recipe(struct yaml_doc *doc, struct yaml_node *root, const char *file, const char *cwd, struct err *err)
{
    char base[PATH_MAX], path[PATH_MAX];
    const struct yaml_node *train = yaml_get(root, "train");
    const struct yaml_node *config = train && train->kind == YAML_MAP ? yaml_get(train, "config") : NULL;
    if (!config || config->kind != YAML_SCALAR || yaml_is_null(config))
        return 0;
    if (jobspec_base(base, sizeof(base), file, cwd, err) < 0 ||
        spec_path_absolute(path, sizeof(path), base, config->text, err) < 0)
        return -1;
    const int fd = safe_open_linked(path, O_RDONLY, NULL);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f)
        return err_set(err, ERR_USAGE, "train.config: cannot read %s: %s", path, strerror(errno));
    char *text = yaml_read(f, config->text, err);
    const int rc = text ? recipe_apply(doc, root, text, config->text, err) : -1;
    free(text);
    return rc;
}

static json_t *read_root(struct yaml_doc *doc, struct yaml_node *root, const char *file, const char *cwd,
                         struct spec_diagnostics *diagnostics, struct err *err)
{
    struct sweep_tree t;
    json_t *spec = NULL;
    if (!yaml_get(root, "sweep"))
        return check_root(root, file, cwd, diagnostics, err);
    if (sweep_tree_read(&t, doc, root, diagnostics, err) == 0)
        spec = check_points(&t, root, file, cwd, diagnostics, err);
    sweep_tree_fini(&t);
    return spec;
}

/* A member takes one GPU, unless the file says something else. */
static void default_gpus(struct yaml_doc *doc, struct yaml_node *root, struct spec_diagnostics *diagnostics)
{
    struct err why = {.code = ERR_NONE};
    const struct yaml_node *resources = yaml_get(root, "resources");
    const bool map = resources && resources->kind == YAML_MAP;
    if ((!yaml_get(root, "sweep") && !yaml_get(root, "array")) || (map && yaml_get(resources, "gpus")) ||
        (resources && !map && !yaml_is_null(resources)))
        return;
    if (spec_set(doc, root, "resources.gpus=one", &why) < 0)
        diagnostics_add(&diagnostics->found, 0, 0, &why);
}

static json_t *read_tree(struct yaml_doc *doc, const char *file, const char *cwd, const char *const *set, int nset,
                         struct spec_diagnostics *diagnostics, struct err *err)
{
    struct yaml_node *root = find_root(doc, set, nset, diagnostics, err);
    struct err why = {.code = ERR_NONE};
    diagnostics->root = root;
    if (root)
        default_gpus(doc, root, diagnostics);
    if (root && read_recipe(doc, root, file, cwd, &why) < 0) {
        spec_diagnostic_err(diagnostics, "train.config", &why);
        return NULL;
    }
    json_t *spec = root ? read_root(doc, root, file, cwd, diagnostics, err) : NULL;
    if (!spec && diagnostics->found.count == 0)
        err_set(err, ERR_MEMORY, "out of memory while checking the spec");
    if (spec && diagnostics->found.count == 0) {
        part_array(spec);
        jobspec_check_members(spec, diagnostics);
    }
    return spec;
}

int jobspec_parse(json_t **canonical, const char *text, const char *file, const char *cwd,
                  const char *const *set, int nset, struct diagnostics *found, struct err *err)
{
    struct yaml_doc *doc = NULL;
    struct yaml_mark at = {0, 0};
    struct spec_diagnostics diagnostics;
    *canonical = NULL;
    *found = (struct diagnostics){.count = 0};
    if (spec_diagnostics_init(&diagnostics, err) < 0)
        return -1;
    if (yaml_parse(&doc, text, &at, err) < 0)
        diagnostics_add(&diagnostics.found, at.line, at.column, err);
    else
        *canonical = read_tree(doc, file, cwd, set, nset, &diagnostics, err);
    if (diagnostics_first(&diagnostics.found, err) < 0) {
        json_decref(*canonical);
        *canonical = NULL;
    }
    *found = diagnostics.found;
    spec_diagnostics_fini(&diagnostics);
    yaml_destroy(doc);
    return *canonical ? 0 : -1;
}

void jobspec_add_mistake(struct diagnostics *found, const char *text, const char *const *set, int nset,
                         const char *path, const struct err *why)
{
    struct yaml_doc *doc = NULL;
    struct yaml_mark at;
    struct err ignored = {.code = ERR_NONE};
    struct spec_diagnostics diagnostics = {.root = NULL};
    if (spec_diagnostics_init(&diagnostics, &ignored) < 0 || yaml_parse(&doc, text, &at, &ignored) < 0)
        diagnostics_add(found, 0, 0, why);
    else {
        diagnostics.root = find_root(doc, set, nset, &diagnostics, &ignored);
        diagnostics.found = *found;
        spec_diagnostic_err(&diagnostics, path, why);
        *found = diagnostics.found;
    }
    spec_diagnostics_fini(&diagnostics);
    yaml_destroy(doc);
}
