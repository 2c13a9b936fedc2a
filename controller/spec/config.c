/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - see config.h */
#include "controller/spec/config.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log.h"
#include "agent/os/tcp_listen.h"
#include "controller/base/yaml.h"
#include "controller/spec/notify_events.h"
#include "controller/spec/notify_target.h"
#include "controller/spec/spec_rules.h"
#include "controller/spec/spec_suggest.h"
#include "controller/spec/spec_units.h"
#include "engine/base/err.h"
#include "engine/base/json_text.h"

static int config_path(char *out, size_t size, struct err *err)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = 0;
    if (xdg && xdg[0] == '/')
        n = snprintf(out, size, "%s/jobctl/config.yaml", xdg);
    else if (home && home[0] == '/')
        n = snprintf(out, size, "%s/.config/jobctl/config.yaml", home);
    if (n <= 0 || (size_t)n >= size)
        return err_set(err, ERR_USAGE, "HOME is not set; set HOME, or XDG_CONFIG_HOME to the directory that contains "
                                       "jobctl/config.yaml");
    return 0;
}

/* For free(); "" if there is no file, NULL if it cannot be read. */
static char *read_text(const char *path, struct err *err)
{
    FILE *f = fopen(path, "re");
    if (!f && (errno == ENOENT || errno == ENOTDIR))
        return strdup("");
    if (!f)
        err_set(err, ERR_USAGE, "cannot read %s: %m", path);
    return f ? yaml_read(f, path, err) : NULL;
}

/* Prefixes the place. */
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
                err_set(err, ERR_USAGE, "expected a host name");
            err_prefix(err, "groups.%.60s: ", g->key);
            wrong(path, &h->at, err);
            goto fail;
        }
        json_array_append_new(hosts, json_text(h->text));
    }
    return json_object_set_new(groups, g->key, hosts);
fail:
    json_decref(hosts);
    return -1;
}

static int take_groups(struct config *c, const struct yaml_node *list, const char *path, struct err *err)
{
    if (list->kind != YAML_MAP && !yaml_is_null(list)) {
        err_set(err, ERR_USAGE, "groups: expected names with lists of hosts, such as gpus: [gpu1, gpu2]");
        return wrong(path, &list->at, err);
    }
    for (const struct yaml_node *g = list->kind == YAML_MAP ? list->first : NULL; g; g = g->next)
        if (take_group(c->groups, g, path, err) < 0)
            return -1;
    return 0;
}

/* Too short a time turns every pause into a loss; too long a time never detects one. */
static int take_ms(int64_t *ms, const struct yaml_node *n, const char *path, struct err *err)
{
    double seconds = 0;
    if (n->kind != YAML_SCALAR)
        err_set(err, ERR_USAGE, "expected a duration, such as 30s");
    else if (spec_duration_parse(&seconds, n->text, err) == 0 && (seconds < 1 || seconds > 86400))
        err_set(err, ERR_USAGE, "\"%.40s\" is not between 1 s and 24 h", n->text);
    if (err->code) {
        err_prefix(err, "%s: ", n->key);
        return wrong(path, &n->at, err);
    }
    *ms = (int64_t)(seconds * 1000);
    return 0;
}

static int take_host_lost(struct config *c, const struct yaml_node *n, const char *path, struct err *err)
{
    return take_ms(&c->host_lost_ms, n, path, err);
}

static int take_node_lost(struct config *c, const struct yaml_node *n, const char *path, struct err *err)
{
    return take_ms(&c->node_lost_ms, n, path, err);
}

static int take_call_address(struct config *c, const struct yaml_node *n, const char *path, struct err *err)
{
    if (n->kind != YAML_SCALAR || !n->text[0] || strlen(n->text) >= sizeof(c->call_address)) {
        err_set(err, ERR_USAGE, "call_address: expected addresses or interfaces, such as 10.0.0.1 or "
                "\"ib0,eth1\", or none");
        return wrong(path, &n->at, err);
    }
    snprintf(c->call_address, sizeof(c->call_address), "%s", n->text);
    return 0;
}

static int take_show_names_to(struct config *c, const struct yaml_node *n, const char *path, struct err *err)
{
    if (n->kind != YAML_SCALAR || !n->text[0] || strlen(n->text) >= sizeof(c->show_names_to)) {
        err_set(err, ERR_USAGE, "show_names_to: expected the name of a group of this machine, such as lab");
        return wrong(path, &n->at, err);
    }
    snprintf(c->show_names_to, sizeof(c->show_names_to), "%s", n->text);
    return 0;
}

static int take_metrics_listen(struct config *c, const struct yaml_node *n, const char *path, struct err *err)
{
    if (n->kind == YAML_SCALAR && strlen(n->text) < sizeof(c->metrics_listen) && tcp_listen_check(n->text, err) == 0) {
        snprintf(c->metrics_listen, sizeof(c->metrics_listen), "%s", n->text);
        return 0;
    }
    if (!err->code)
        err_set(err, ERR_USAGE, "expected an address and a port, such as 127.0.0.1:9473");
    err_prefix(err, "metrics.listen: ");
    return wrong(path, &n->at, err);
}

static int take_metrics(struct config *c, const struct yaml_node *n, const char *path, struct err *err)
{
    const struct yaml_node *one = n->kind == YAML_MAP ? n->first : NULL;
    if (one && strcmp(one->key, "listen") == 0 && !one->next)
        return take_metrics_listen(c, one, path, err);
    err_set(err, ERR_USAGE, "metrics: expected one key, such as {listen: \"127.0.0.1:9473\"}");
    return wrong(path, &n->at, err);
}

static int take_notify(struct config *c, const struct yaml_node *n, const char *path, struct err *err)
{
    struct yaml_mark at = n->at;
    if (n->kind != YAML_MAP && !yaml_is_null(n)) {
        err_set(err, ERR_USAGE, "notify: expected names with targets, such as team: {webhook: \"${SLACK_URL}\"}");
        return wrong(path, &at, err);
    }
    for (const struct yaml_node *one = n->kind == YAML_MAP ? n->first : NULL; one; one = one->next)
        if (notify_target_parse(c->notify, one, &at, err) < 0)
            return wrong(path, &at, err);
    return 0;
}

static const struct key {
    struct config_key key;
    int (*take)(struct config *c, const struct yaml_node *n, const char *path, struct err *err);
} keys[] = {
    { { "groups", "names with lists of hosts",
        "names for lists of hosts, in `hosts` of a spec and as @NAME in jobctl nodes" }, take_groups },
    { { "host_lost", "duration",
        "launch: ssh: give up a host that is unreachable for this long; default 2m" }, take_host_lost },
    { { "node_lost", "duration",
        "several nodes: a node ends its ranks after this time without a message from the first node; default 15s" },
      take_node_lost },
    { { "call_address", "addresses or interfaces",
        "launch: slurm: the address to which agents connect, such as ib0; none = agents do not connect" },
      take_call_address },
    { { "notify", "names with targets",
        "targets of messages about jobs: for each a webhook, an email or a command, and `on`, a list of "
        NOTIFY_EVENTS "; default [done, failed]" }, take_notify },
    { { "show_names_to", "group",
        "a machine that several users share: the group whose members see the names of jobs that hold its GPUs or CPU "
        "slots; default: nobody else does" }, take_show_names_to },
    { { "metrics", "{listen: ADDRESS:PORT}",
        "where the daemon serves its metrics for Prometheus by TCP, such as 127.0.0.1:9473; read when the daemon "
        "starts; default: on its unix socket only" }, take_metrics },
};

enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

const struct config_key *config_key_at(size_t i)
{
    return i < KEYS ? &keys[i].key : NULL;
}

static int unknown(const struct yaml_node *n, const char *path, struct err *err)
{
    for (int k = 0; k < KEYS; k++)
        if (spec_distance(n->key, keys[k].key.name) <= 2) {
            err_set(err, ERR_USAGE, "unknown key \"%.60s\"; did you mean %s?", n->key, keys[k].key.name);
            return wrong(path, &n->key_at, err);
        }
    err_set(err, ERR_USAGE, "unknown key \"%.60s\"; valid keys are groups, host_lost, node_lost, "
            "call_address, notify, show_names_to and metrics", n->key);
    return wrong(path, &n->key_at, err);
}

static int take_root(struct config *c, const struct yaml_node *root, const char *path, struct err *err)
{
    if (root->kind != YAML_MAP) {
        err_set(err, ERR_USAGE, "expected a map of keys: groups, host_lost, node_lost, "
                "call_address, notify, show_names_to, metrics");
        return wrong(path, &root->at, err);
    }
    for (const struct yaml_node *n = root->first; n; n = n->next) {
        int k = 0;
        while (k < KEYS && strcmp(n->key, keys[k].key.name) != 0)
            k++;
        if ((k < KEYS ? keys[k].take(c, n, path, err) : unknown(n, path, err)) < 0)
            return -1;
    }
    return 0;
}

int config_load(struct config *c, struct err *err)
{
    char path[PATH_MAX];
    struct yaml_doc *doc = NULL;
    struct yaml_mark at = { 0, 0 };
    char *text = NULL;
    int rc = -1;
    *c = (struct config){ .groups = json_object(), .notify = json_array() };
    if (config_path(path, sizeof(path), err) < 0 || !(text = read_text(path, err)))
        goto out;
    if (yaml_parse(&doc, text, &at, err) < 0)
        wrong(path, &at, err);
    else
        rc = yaml_root(doc) ? take_root(c, yaml_root(doc), path, err) : 0;
out:
    yaml_destroy(doc);
    free(text);
    if (rc < 0)
        config_fini(c);
    return rc;
}

void config_fini(struct config *c)
{
    json_decref(c->groups);
    json_decref(c->notify);
    *c = (struct config){ .groups = NULL };
}

/* ---- for the daemon ---- */

/* A text of the file; "": not set, or the file is wrong, which the commands tell. */
static void text_of(char out[64], size_t field)
{
    struct config c;
    struct err err = { 0 };
    out[0] = 0;
    if (config_load(&c, &err) < 0)
        return;
    snprintf(out, 64, "%s", (const char *)&c + field);
    config_fini(&c);
}

void config_show_names_to(char out[64])
{
    text_of(out, offsetof(struct config, show_names_to));
}

void config_metrics_listen(char out[64])
{
    text_of(out, offsetof(struct config, metrics_listen));
}

static int64_t settled(size_t field, int64_t unsaid)
{
    struct config c;
    struct err err = { 0 };
    if (config_load(&c, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        return unsaid;
    }
    const int64_t said = *(const int64_t *)(const void *)((const char *)&c + field);
    config_fini(&c);
    return said > 0 ? said : unsaid;
}

int64_t config_host_lost_ms(int64_t unsaid)
{
    const char *text = getenv("JOBCTL_HOST_LOST_S");
    const long s = text ? strtol(text, NULL, 10) : 0;
    return s > 0 ? (int64_t)s * 1000 : settled(offsetof(struct config, host_lost_ms), unsaid);
}

int64_t config_node_lost_ms(int64_t unsaid)
{
    return settled(offsetof(struct config, node_lost_ms), unsaid);
}

const char *config_call_address(char out[256])
{
    const char *text = getenv("JOBCTL_CALL_ADDRESS");
    struct config c;
    struct err err = { 0 };
    snprintf(out, 256, "%s", text ? text : "");
    if (out[0])
        return "JOBCTL_CALL_ADDRESS";
    if (config_load(&c, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        return "";
    }
    snprintf(out, 256, "%s", c.call_address);
    config_fini(&c);
    return "call_address in config.yaml";
}
