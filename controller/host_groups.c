/* SPDX-License-Identifier: Apache-2.0 */
/* host_groups.c - see host_groups.h */
#include "controller/host_groups.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/spec_rules.h"
#include "controller/spec_suggest.h"
#include "controller/yaml.h"
#include "engine/err.h"

enum { GROUPS_MAX = 1000 };

static int config_path(char *out, size_t size, struct err *err)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = 0;
    if (xdg && xdg[0] == '/')
        n = snprintf(out, size, "%s/jobctl/config.yaml", xdg);
    else if (home && home[0] == '/')
        n = snprintf(out, size, "%s/.config/jobctl/config.yaml", home);
    if (n <= 0 || (size_t)n >= size)
        return err_set(err, ERR_USAGE, "HOME is not set; set it, or XDG_CONFIG_HOME to the directory "
                       "that has jobctl/config.yaml");
    return 0;
}

/* For free(); "" where there is no file, NULL where it cannot be read. */
static char *read_text(const char *path, struct err *err)
{
    char *text = calloc(1, YAML_TEXT_MAX + 2);
    FILE *f = text ? fopen(path, "re") : NULL;
    if (!text) {
        err_set(err, ERR_MEMORY, "out of memory while reading %s", path);
        return NULL;
    }
    if (!f && (errno == ENOENT || errno == ENOTDIR))
        return text;
    size_t n = f ? fread(text, 1, YAML_TEXT_MAX + 1, f) : 0;
    if (!f || ferror(f))
        err_set(err, ERR_USAGE, "cannot read %s: %m", path);
    else if (n > YAML_TEXT_MAX || memchr(text, 0, n))
        err_set(err, ERR_USAGE, "%s is larger than 1 MiB or holds a NUL byte", path);
    if (f)
        fclose(f);
    if (err->code) {
        free(text);
        return NULL;
    }
    return text;
}

/* Says where. */
static int wrong(const char *path, const struct yaml_mark *at, struct err *err)
{
    return err_prefix(err, "%s:%d:%d: ", path, at->line, at->column);
}

static int take_group(json_t *groups, const struct yaml_node *g, const char *path, struct err *err)
{
    json_t *hosts = json_array();
    if (spec_name_check(g->key, err) < 0) {
        wrong(path, &g->key_at, err);
        goto fail;
    }
    if (g->kind != YAML_LIST || g->count == 0) {
        err_set(err, ERR_USAGE, "groups.%.60s: expected a list of hosts, such as [gpu1, gpu2]", g->key);
        wrong(path, &g->at, err);
        goto fail;
    }
    for (const struct yaml_node *h = g->first; h; h = h->next) {
        if (h->kind != YAML_SCALAR || spec_host_check(h->text, err) < 0) {
            if (h->kind != YAML_SCALAR)
                err_set(err, ERR_USAGE, "expected the name of a host");
            err_prefix(err, "groups.%.60s: ", g->key);
            wrong(path, &h->at, err);
            goto fail;
        }
        json_array_append_new(hosts, json_string(h->text));
    }
    return json_object_set_new(groups, g->key, hosts);
fail:
    json_decref(hosts);
    return -1;
}

static int take_groups(json_t *groups, const struct yaml_node *list, const char *path,
                       struct err *err)
{
    if (list->kind != YAML_MAP && !yaml_is_null(list)) {
        err_set(err, ERR_USAGE, "groups: expected names with lists of hosts, such as "
                "gpus: [gpu1, gpu2]");
        return wrong(path, &list->at, err);
    }
    for (const struct yaml_node *g = list->kind == YAML_MAP ? list->first : NULL; g; g = g->next)
        if (take_group(groups, g, path, err) < 0)
            return -1;
    return 0;
}

static int take_root(json_t *groups, const struct yaml_node *root, const char *path, struct err *err)
{
    if (root->kind != YAML_MAP) {
        err_set(err, ERR_USAGE, "expected a map of keys; there is one: groups");
        return wrong(path, &root->at, err);
    }
    for (const struct yaml_node *n = root->first; n; n = n->next) {
        if (strcmp(n->key, "groups") != 0) {
            const bool near = spec_distance(n->key, "groups") <= 2;
            err_set(err, ERR_USAGE, "unknown key \"%.60s\"; %s", n->key,
                    near ? "did you mean groups?" : "there is one: groups");
            return wrong(path, &n->key_at, err);
        }
        if (take_groups(groups, n, path, err) < 0)
            return -1;
    }
    return 0;
}

json_t *host_groups_load(struct err *err)
{
    char path[PATH_MAX];
    struct yaml_doc *doc = NULL;
    struct yaml_mark at = { 0, 0 };
    json_t *groups = json_object();
    char *text = NULL;
    int rc = -1;
    if (config_path(path, sizeof(path), err) < 0 || !(text = read_text(path, err)))
        goto out;
    if (yaml_parse(&doc, text, &at, err) < 0)
        wrong(path, &at, err);
    else
        rc = yaml_root(doc) ? take_root(groups, yaml_root(doc), path, err) : 0;
out:
    yaml_destroy(doc);
    free(text);
    if (rc == 0)
        return groups;
    json_decref(groups);
    return NULL;
}

static bool has(const json_t *list, const json_t *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), name))
            return true;
    return false;
}

static int no_group(const char *name, const json_t *groups, struct err *err)
{
    char near[80] = "";
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)groups, key, value)
        if (!near[0] && spec_distance(key, name) <= 2)
            snprintf(near, sizeof(near), "; did you mean @%.60s?", key);
    return err_set(err, ERR_USAGE, "hosts: there is no group @%.60s%s", name,
                   near[0] ? near : json_object_size(groups) ? ""
                   : "; groups stand in ~/.config/jobctl/config.yaml, such as groups: {gpus: [gpu1]}");
}

int host_groups_expand(json_t *hosts, struct err *err)
{
    json_t *groups = json_array_size(hosts) > 0 ? host_groups_load(err) : NULL;
    json_t *all = json_array();
    int rc = groups && all ? 0 : json_array_size(hosts) == 0 ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < json_array_size(hosts); i++) {
        json_t *one = json_array_get(hosts, i), *member;
        const char *name = json_string_value(one);
        const bool meant = name && name[0] == '@';
        const json_t *group = name ? json_object_get(groups, name + meant) : NULL;
        size_t k;
        if (meant && !group)
            rc = no_group(name + 1, groups, err);
        else if (!group)
            json_array_append(all, one);
        json_array_foreach (group, k, member)
            if (!has(all, member))
                json_array_append(all, member);
    }
    if (rc == 0 && json_array_size(hosts) > 0) {
        json_array_clear(hosts);
        json_array_extend(hosts, all);
    }
    json_decref(groups);
    json_decref(all);
    return rc;
}
