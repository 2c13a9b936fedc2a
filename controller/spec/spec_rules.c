/* SPDX-License-Identifier: Apache-2.0 */
/* spec_rules.c - one function per rule, with the keys it reads; see spec_rules.h */
#include "controller/spec/spec_rules.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/printed/line_pattern.h"
#include "agent/printed/progress_pattern.h"
#include "controller/spec/jobspec.h"
#include "controller/spec/notify_events.h"
#include "controller/spec/sbatch_text.h"
#include "controller/spec/spec_after.h"
#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/sweep_points.h"
#include "engine/base/err.h"

enum { HOST_NAME_CHARS = 63 };

struct rule_context {
    const json_t            *spec, *resources;
    struct spec_diagnostics *diagnostics;
};

static const char *text_of(const struct rule_context *c, const char *key)
{
    return json_string_value(json_object_get(c->spec, key));
}

int spec_name_check(const char *name, struct err *err)
{
    size_t n = strlen(name);
    if (n == 0 || n > JOB_NAME_MAX)
        return err_set(err, ERR_USAGE, "a name has 1 to %d characters, not %zu", JOB_NAME_MAX, n);
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
            return err_set(err, ERR_USAGE, "\"%.64s\" may contain only letters, digits, '.', '_' and "
                           "'-'", name);
    if (name[0] == '-' || name[0] == '.')
        return err_set(err, ERR_USAGE, "\"%.64s\" must begin with a letter or a digit", name);
    if (name[strspn(name, "0123456789-.")] == '\0')
        return err_set(err, ERR_USAGE, "\"%.64s\" looks like an id; add a letter", name);
    if (strcmp(name, "last") == 0 || strcmp(name, "all") == 0)
        return err_set(err, ERR_USAGE, "\"%s\" is a reserved word; choose another name", name);
    return 0;
}

/* Of a job: a member of a sweep adds its index, as in lr[17]. */
static int check_job_name(const char *name, struct err *err)
{
    char base[JOB_NAME_MAX + 2];
    size_t n = strlen(name), digits = 0;
    while (n > 1 && name[n - 1] == ']' && digits < n - 1 && isdigit((unsigned char)name[n - 2 - digits]))
        digits++;
    if (n > JOB_NAME_MAX || digits == 0 || n < digits + 3 || name[n - 2 - digits] != '[')
        return spec_name_check(name, err);
    snprintf(base, sizeof(base), "%.*s", (int)(n - digits - 2), name);
    return spec_name_check(base, err);
}

static void rule_name(struct rule_context *c)
{
    struct err why = {.code = ERR_NONE};
    if (check_job_name(text_of(c, "name"), &why) < 0)
        spec_diagnostic_of(c->diagnostics, "name", "name: %s", why.text);
}

static void rule_payload(struct rule_context *c)
{
    bool run = json_is_string(json_object_get(c->spec, "run"));
    bool train = json_is_object(json_object_get(c->spec, "train"));
    if (run && train)
        spec_diagnostic_of(c->diagnostics, "train",
                           "train: the spec has both run and train; remove one of them");
    if (!run && !train)
        spec_diagnostic_of(c->diagnostics, "",
                           "the spec has neither run nor train; add one of them, for example run: python train.py");
}

static void rule_slurm(struct rule_context *c)
{
    if (json_is_object(json_object_get(c->spec, "slurm")) && strcmp(text_of(c, "launch"), "slurm") != 0)
        spec_diagnostic_of(c->diagnostics, "slurm",
                           "slurm: needs launch: slurm; add that, or remove the slurm settings");
}

/* Values that a batch script cannot contain. */
static void rule_slurm_texts(struct rule_context *c)
{
    static const char *const texts[] = {"partition", "account", "gres"};
    const json_t *slurm = json_object_get(c->spec, "slurm");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct err why = {.code = ERR_NONE};
        const char *text = json_string_value(json_object_get(slurm, texts[i]));
        if (text && sbatch_text_check(text, &why) < 0)
            spec_diagnostic_of(c->diagnostics, "slurm", "slurm.%s: %s", texts[i], why.text);
    }
}

static void rule_slurm_extra(struct rule_context *c)
{
    const json_t *slurm = json_object_get(c->spec, "slurm");
    const char *key;
    json_t *value;
    json_object_foreach (json_object_get(slurm, "extra"), key, value) {
        struct err why = {.code = ERR_NONE};
        const char *const *known = sbatch_text_extras();
        while (*known && strcmp(*known, key) != 0)
            known++;
        if (!*known)
            spec_diagnostic_of(c->diagnostics, "slurm.extra",
                               "slurm.extra: unknown option \"%.40s\"; allowed are constraint, exclude, exclusive, "
                               "licenses, mem, nodelist, qos and reservation", key);
        else if (sbatch_text_check(json_string_value(value), &why) < 0)
            spec_diagnostic_of(c->diagnostics, "slurm.extra", "slurm.extra.%s: %s", key, why.text);
    }
}

/* Values that Slurm requires. */
static void rule_slurm_gpus(struct rule_context *c)
{
    if (strcmp(text_of(c, "launch"), "slurm") == 0 &&
        !json_is_integer(json_object_get(c->resources, "gpus")))
        spec_diagnostic_of(c->diagnostics, "launch",
                           "resources.gpus: launch: slurm needs a number of GPUs per node; 0 for none");
}

int spec_host_check(const char *name, struct err *err)
{
    const size_t n = strlen(name);
    if (n == 0 || n > HOST_NAME_CHARS || !isalnum((unsigned char)name[0]))
        return err_set(err, ERR_USAGE, "\"%.64s\" is not a host name: a name begins "
                       "with a letter or a digit and has at most %d characters", name,
                       HOST_NAME_CHARS);
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-@", *p))
            return err_set(err, ERR_USAGE, "\"%s\" may contain only letters, digits, '.', '_', "
                           "'-' and '@'; set a port in ~/.ssh/config", name);
    return 0;
}

static void check_host(struct rule_context *c, const json_t *hosts, size_t i)
{
    struct err why = {.code = ERR_NONE};
    const json_t *host = json_array_get(hosts, i);
    const char *name = json_string_value(host);
    if (spec_host_check(name ? name : "", &why) < 0)
        spec_diagnostic_of(c->diagnostics, "hosts", "hosts: %s", why.text);
    for (size_t j = 0; j < i; j++)
        if (json_equal(json_array_get(hosts, j), host))
            spec_diagnostic_of(c->diagnostics, "hosts", "hosts: \"%s\" is listed twice", name);
}

static bool is_ssh(const struct rule_context *c)
{
    return strcmp(text_of(c, "launch"), "ssh") == 0;
}

static void rule_hosts(struct rule_context *c)
{
    const json_t *hosts = json_object_get(c->spec, "hosts");
    const size_t n = json_array_size(hosts);
    if (!is_ssh(c)) {
        if (n > 0)
            spec_diagnostic_of(c->diagnostics, "hosts",
                               "hosts: needs launch: ssh; add that, or remove hosts");
        return;
    }
    if (n == 0)
        spec_diagnostic_of(c->diagnostics, "hosts",
                           "hosts: required by launch: ssh; for example hosts: [gpu1], names as in ~/.ssh/config");
    for (size_t i = 0; i < n; i++)
        check_host(c, hosts, i);
}

static void rule_hosts_share(struct rule_context *c)
{
    const json_t *checkpoint = json_object_get(c->spec, "checkpoint");
    const char *dir = json_string_value(json_object_get(checkpoint, "dir"));
    if (is_ssh(c) && json_array_size(json_object_get(c->spec, "hosts")) > 1 && dir &&
        strcmp(dir, "auto") == 0 && json_is_object(json_object_get(c->spec, "train")))
        spec_diagnostic_of(c->diagnostics, "checkpoint.dir",
                           "checkpoint.dir: several hosts need a shared "
                           "directory, so that each can resume the checkpoints of the others");
}

static void rule_hosts_mirror(struct rule_context *c)
{
    const json_t *checkpoint = json_object_get(c->spec, "checkpoint");
    if (is_ssh(c) && json_is_string(json_object_get(checkpoint, "mirror")))
        spec_diagnostic_of(c->diagnostics, "checkpoint.mirror",
                           "checkpoint.mirror: not supported yet with launch: "
                           "ssh; set checkpoint.dir to a durable directory of the host");
}

static void rule_min_nodes(struct rule_context *c)
{
    const json_t *least = json_object_get(c->resources, "min_nodes");
    const json_int_t n = json_integer_value(json_object_get(c->resources, "nodes"));
    if (json_is_integer(least) && json_integer_value(least) > n)
        spec_diagnostic_of(c->diagnostics, "resources.min_nodes",
                           "resources.min_nodes: %lld is more than "
                           "resources.nodes (%lld)", (long long)json_integer_value(least),
                           (long long)n);
}

static void rule_nodes(struct rule_context *c)
{
    const json_int_t n = json_integer_value(json_object_get(c->resources, "nodes"));
    const size_t hosts = json_array_size(json_object_get(c->spec, "hosts"));
    if (is_ssh(c) && hosts > 0 && (json_int_t)hosts < n)
        spec_diagnostic_of(c->diagnostics, "hosts",
                           "hosts: %zu hosts are too few for %lld nodes; add hosts, or set "
                           "resources.nodes to %zu", hosts, (long long)n, hosts);
}

/* Two ranks on one GPU fail inside NCCL; report it here, with the remedy. */
static void rule_ranks(struct rule_context *c)
{
    const json_t *gpus = json_object_get(c->resources, "gpus");
    const json_t *ranks = json_object_get(c->resources, "ranks");
    bool share = json_is_true(json_object_get(c->resources, "share_gpus"));
    json_int_t g = json_integer_value(gpus), r = json_integer_value(ranks);
    if (json_is_integer(gpus) && json_is_integer(ranks) && g > 0 && r > g && !share)
        spec_diagnostic_of(c->diagnostics, "resources.ranks",
                           "resources.ranks: %lld ranks would share %lld GPU%s; "
                           "set at most %lld, or add share_gpus: true if intended", (long long)r,
                           (long long)g, g == 1 ? "" : "s", (long long)g);
}

static void rule_mirror(struct rule_context *c)
{
    const json_t *checkpoint = json_object_get(c->spec, "checkpoint");
    if (json_is_string(json_object_get(checkpoint, "mirror")) &&
        !json_is_object(json_object_get(c->spec, "train")))
        spec_diagnostic_of(c->diagnostics, "checkpoint.mirror",
                           "checkpoint.mirror: not possible for run commands, whose checkpoints jobctl cannot verify; "
                           "make the command write a second copy");
}

static bool variable_name_ok(const char *name)
{
    if (!isalpha((unsigned char)name[0]) && name[0] != '_')
        return false;
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_')
            return false;
    return true;
}

static void rule_env(struct rule_context *c)
{
    const char *name;
    json_t *value;
    json_object_foreach (json_object_get(c->spec, "env"), name, value) {
        if (!variable_name_ok(name))
            spec_diagnostic_of(c->diagnostics, "env",
                               "env: \"%.60s\" is not a variable name; use letters, digits and '_'", name);
        if (strncmp(name, "JOBCTL_", 7) == 0 && strcmp(name, SWEEP_INDEX_NAME) != 0)
            spec_diagnostic_of(c->diagnostics, "env",
                               "env: %.60s cannot be set; names that begin with JOBCTL_ are reserved", name);
    }
}

static void rule_secrets(struct rule_context *c)
{
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(c->spec, "secrets"), i, entry) {
        const char *name = json_string_value(entry);
        if (!variable_name_ok(name))
            spec_diagnostic_of(c->diagnostics, "secrets",
                               "secrets: \"%.60s\" is not a variable name; list the names "
                               "of secrets, never their values", name);
        if (json_object_get(json_object_get(c->spec, "env"), name))
            spec_diagnostic_of(c->diagnostics, "secrets",
                               "secrets: %.60s is also listed under env; remove one of the two", name);
    }
}

static void rule_watch(struct rule_context *c)
{
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(c->spec, "watch"), i, entry) {
        struct line_pattern *made = NULL;
        struct err why = {.code = ERR_NONE};
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *pattern = json_string_value(json_object_get(entry, "pattern"));
        if (line_pattern_create(&made, pattern ? pattern : "", &why) < 0)
            spec_diagnostic_of(c->diagnostics, "watch", "watch[%zu].pattern: \"%.60s\" cannot be used: %s", i,
                               pattern ? pattern : "", why.text);
        else if (json_is_number(json_object_get(entry, "below")) && line_pattern_groups(made) == 0)
            spec_diagnostic_of(c->diagnostics, "watch",
                               "watch[%zu]: below needs a number, but the pattern of %.60s "
                               "has no group, such as loss:([0-9.]+)", i, name ? name : "");
        line_pattern_destroy(made);
    }
}

static void rule_progress(struct rule_context *c)
{
    struct err why = {.code = ERR_NONE};
    const char *rule = json_string_value(json_object_get(c->spec, "progress"));
    if (!rule || strcmp(rule, "auto") == 0 || strcmp(rule, "off") == 0)
        return;
    if (progress_pattern_check(rule, &why) < 0)
        spec_diagnostic_of(c->diagnostics, "progress", "progress: expected auto, off or a pattern such as "
                           "\"it {step}/{steps} loss={loss}\": %s", why.text);
}

static void rule_after(struct rule_context *c)
{
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(c->spec, "after"), i, entry) {
        struct err why = {.code = ERR_NONE};
        const char *text = json_string_value(entry), *name = NULL;
        if (text)
            spec_after_parse(&name, text);
        const bool is_id = text && name > text && name[0] && name[strspn(name, "0123456789")] == '\0';
        if (name && !is_id && strcmp(name, "last") != 0 && check_job_name(name, &why) < 0)
            spec_diagnostic_of(c->diagnostics, "after", "after: expected ids or names of jobs, or afterany:JOB, "
                               "afternotok:JOB; %s", why.text);
    }
}

static void rule_notify(struct rule_context *c)
{
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(json_object_get(c->spec, "notify"), "on"), i, entry)
        if (!notify_events_has(json_string_value(entry)))
            spec_diagnostic_of(c->diagnostics, "notify.on", "notify.on: unknown event \"%.60s\"; expected "
                               NOTIFY_EVENTS, json_string_value(entry));
}

/* A rule and the keys it reads; it is skipped if one of them is invalid by itself. */
static const struct {
    const char *reads;
    void      (*check)(struct rule_context *);
} rules[] = {
    {"name", rule_name},
    {"run|train", rule_payload},
    {"launch|slurm", rule_slurm},
    {"slurm.partition|slurm.account|slurm.gres", rule_slurm_texts},
    {"slurm.extra", rule_slurm_extra},
    {"launch|resources.gpus", rule_slurm_gpus},
    {"launch|hosts", rule_hosts},
    {"launch|hosts|train|checkpoint.dir", rule_hosts_share},
    {"launch|checkpoint.mirror", rule_hosts_mirror},
    {"resources.min_nodes|resources.nodes", rule_min_nodes},
    {"launch|hosts|resources.nodes", rule_nodes},
    {"resources.gpus|resources.ranks|resources.share_gpus", rule_ranks},
    {"run|train|checkpoint.mirror", rule_mirror},
    {"env", rule_env},
    {"secrets|env", rule_secrets},
    {"progress", rule_progress},
    {"after", rule_after},
    {"watch", rule_watch},
    {"notify.on", rule_notify},
};

void spec_rules_check(const json_t *spec, struct spec_diagnostics *diagnostics)
{
    struct rule_context c = {.spec = spec, .resources = json_object_get(spec, "resources"),
                             .diagnostics = diagnostics};
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (spec_diagnostics_trust(diagnostics, rules[i].reads))
            rules[i].check(&c);
}
