/* SPDX-License-Identifier: Apache-2.0 */
/* spec_rules.c - one function per rule, run in the order of the list; see spec_rules.h */
#include "controller/spec_rules.h"

#include <ctype.h>
#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "controller/jobspec.h"
#include "controller/sbatch.h"
#include "engine/err.h"

enum { HOST_NAME_CHARS = 63 };

struct rule_context {
    const json_t *spec, *resources;
    const char   *path;
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
            return err_set(err, ERR_USAGE, "\"%.64s\" may hold only letters, digits, '.', '_' and "
                           "'-'", name);
    if (name[0] == '-' || name[0] == '.')
        return err_set(err, ERR_USAGE, "\"%.64s\" must begin with a letter or a digit", name);
    if (name[strspn(name, "0123456789-.")] == '\0')
        return err_set(err, ERR_USAGE, "\"%.64s\" would be taken for an id; add a letter", name);
    if (strcmp(name, "last") == 0 || strcmp(name, "all") == 0)
        return err_set(err, ERR_USAGE, "\"%s\" has a meaning of its own; choose another name",
                       name);
    return 0;
}

static int rule_name(struct rule_context *c, struct err *err)
{
    c->path = "name";
    if (spec_name_check(text_of(c, "name"), err) < 0)
        return err_prefix(err, "name: ");
    return 0;
}

static int rule_payload(struct rule_context *c, struct err *err)
{
    bool run = json_is_string(json_object_get(c->spec, "run"));
    bool train = json_is_object(json_object_get(c->spec, "train"));
    c->path = run ? "train" : "";
    if (run && train)
        return err_set(err, ERR_USAGE, "train: the spec has both run and train; a job does one of "
                       "the two");
    if (!run && !train)
        return err_set(err, ERR_USAGE, "the spec has neither run nor train; say what the job is "
                       "to do, for example run: python train.py");
    return 0;
}

static int check_extra(const json_t *extra, struct err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)extra, key, value) {
        const char *const *known = sbatch_extras();
        while (*known && strcmp(*known, key) != 0)
            known++;
        if (!*known)
            return err_set(err, ERR_USAGE, "slurm.extra: \"%.40s\" is not known; constraint, exclude, "
                           "exclusive, licenses, mem, nodelist, qos and reservation are, the rest has "
                           "keys of its own", key);
        if (sbatch_text_check(json_string_value(value), err) < 0)
            return err_prefix(err, "slurm.extra.%s: ", key);
    }
    return 0;
}

/* What a batch script cannot carry, and what on a cluster must be said. */
static int rule_slurm(struct rule_context *c, struct err *err)
{
    static const char *const texts[] = {"partition", "account", "gres"};
    const json_t *slurm = json_object_get(c->spec, "slurm");
    bool chosen = strcmp(text_of(c, "launch"), "slurm") == 0;
    c->path = "slurm";
    if (json_is_object(slurm) && !chosen)
        return err_set(err, ERR_USAGE, "slurm: these settings are for launch: slurm; add that, or "
                       "leave them out");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *text = json_string_value(json_object_get(slurm, texts[i]));
        if (text && sbatch_text_check(text, err) < 0)
            return err_prefix(err, "slurm.%s: ", texts[i]);
    }
    c->path = "slurm.extra";
    if (check_extra(json_object_get(slurm, "extra"), err) < 0)
        return -1;
    if (!chosen)
        return 0;
    c->path = "launch";
    if (!json_is_integer(json_object_get(c->resources, "gpus")))
        return err_set(err, ERR_USAGE, "resources.gpus: Slurm must be asked for a number; say how many "
                       "GPUs a node is to give, 0 for none");
    return 0;
}

int spec_host_check(const char *name, struct err *err)
{
    const size_t n = strlen(name);
    if (n == 0 || n > HOST_NAME_CHARS || !isalnum((unsigned char)name[0]))
        return err_set(err, ERR_USAGE, "\"%.64s\" cannot be the name of a host; it begins "
                       "with a letter or a digit and has at most %d characters", name,
                       HOST_NAME_CHARS);
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-@", *p))
            return err_set(err, ERR_USAGE, "\"%s\" may hold only letters, digits, '.', '_', "
                           "'-' and '@'; give a port in ~/.ssh/config", name);
    return 0;
}

static int check_host(const json_t *hosts, size_t i, struct err *err)
{
    const char *name = json_string_value(json_array_get(hosts, i));
    if (spec_host_check(name ? name : "", err) < 0)
        return err_prefix(err, "hosts: ");
    for (size_t j = 0; j < i; j++)
        if (strcmp(json_string_value(json_array_get(hosts, j)), name) == 0)
            return err_set(err, ERR_USAGE, "hosts: \"%s\" stands there twice", name);
    return 0;
}

static int rule_hosts(struct rule_context *c, struct err *err)
{
    const json_t *hosts = json_object_get(c->spec, "hosts");
    const json_t *checkpoint = json_object_get(c->spec, "checkpoint");
    const char *dir = json_string_value(json_object_get(checkpoint, "dir"));
    const size_t n = json_array_size(hosts);
    const bool ssh = strcmp(text_of(c, "launch"), "ssh") == 0;
    c->path = "hosts";
    if (!ssh)
        return n ? err_set(err, ERR_USAGE, "hosts: only launch: ssh goes to hosts; add that, or leave "
                           "hosts out") : 0;
    if (n == 0)
        return err_set(err, ERR_USAGE, "hosts: launch: ssh needs them, for example hosts: [gpu1], "
                       "names as in ~/.ssh/config");
    for (size_t i = 0; i < n; i++)
        if (check_host(hosts, i, err) < 0)
            return -1;
    c->path = "checkpoint.dir";
    if (n > 1 && dir && strcmp(dir, "auto") == 0 && json_is_object(json_object_get(c->spec, "train")))
        return err_set(err, ERR_USAGE, "checkpoint.dir: with several hosts it must be a directory "
                       "that all of them share; what one keeps for itself another cannot resume");
    c->path = "checkpoint.mirror";
    if (json_is_string(json_object_get(checkpoint, "mirror")))
        return err_set(err, ERR_USAGE, "checkpoint.mirror: not supported yet with launch: ssh; let "
                       "checkpoint.dir be a lasting directory of the host");
    return 0;
}

static int rule_nodes(struct rule_context *c, struct err *err)
{
    const json_t *least = json_object_get(c->resources, "min_nodes");
    const json_int_t n = json_integer_value(json_object_get(c->resources, "nodes"));
    const size_t hosts = json_array_size(json_object_get(c->spec, "hosts"));
    c->path = "resources.min_nodes";
    if (json_is_integer(least) && json_integer_value(least) > n)
        return err_set(err, ERR_USAGE, "resources.min_nodes: %lld is more than resources.nodes, which "
                       "is %lld", (long long)json_integer_value(least), (long long)n);
    c->path = "hosts";
    if (hosts > 0 && (json_int_t)hosts < n)
        return err_set(err, ERR_USAGE, "hosts: %zu of them cannot be %lld nodes; name more, or set "
                       "resources.nodes to %zu", hosts, (long long)n, hosts);
    return 0;
}

/* Two ranks on one GPU fail deep inside NCCL; say it here, with the way out. */
static int rule_ranks(struct rule_context *c, struct err *err)
{
    const json_t *gpus = json_object_get(c->resources, "gpus");
    const json_t *ranks = json_object_get(c->resources, "ranks");
    bool share = json_is_true(json_object_get(c->resources, "share_gpus"));
    json_int_t g = json_integer_value(gpus), r = json_integer_value(ranks);
    c->path = "resources.ranks";
    if (json_is_integer(gpus) && json_is_integer(ranks) && g > 0 && r > g && !share)
        return err_set(err, ERR_USAGE, "resources.ranks: %lld ranks would share %lld GPU%s; ask "
                       "for at most %lld, or write share_gpus: true if that is meant",
                       (long long)r, (long long)g, g == 1 ? "" : "s", (long long)g);
    return 0;
}

static int rule_mirror(struct rule_context *c, struct err *err)
{
    const json_t *checkpoint = json_object_get(c->spec, "checkpoint");
    c->path = "checkpoint.mirror";
    if (json_is_string(json_object_get(checkpoint, "mirror")) &&
        !json_is_object(json_object_get(c->spec, "train")))
        return err_set(err, ERR_USAGE, "checkpoint.mirror: what a run command saves has no form that "
                       "could be checked; let the command write its own second copy");
    return 0;
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

static int rule_env(struct rule_context *c, struct err *err)
{
    const char *name;
    json_t *value;
    c->path = "env";
    json_object_foreach (json_object_get(c->spec, "env"), name, value) {
        if (!variable_name_ok(name))
            return err_set(err, ERR_USAGE, "env: \"%.60s\" cannot be the name of a variable; use "
                           "letters, digits and '_'", name);
        if (strncmp(name, "JOBCTL_", 7) == 0)
            return err_set(err, ERR_USAGE, "env: %.60s cannot be set; variables that begin with "
                           "JOBCTL_ are jobctl's own", name);
    }
    return 0;
}

static int rule_secrets(struct rule_context *c, struct err *err)
{
    size_t i;
    json_t *entry;
    c->path = "secrets";
    json_array_foreach (json_object_get(c->spec, "secrets"), i, entry) {
        const char *name = json_string_value(entry);
        if (!variable_name_ok(name))
            return err_set(err, ERR_USAGE, "secrets: \"%.60s\" cannot be the name of a variable; "
                           "secrets are given by name, never by value", name);
        if (json_object_get(json_object_get(c->spec, "env"), name))
            return err_set(err, ERR_USAGE, "secrets: %.60s stands under env too; keep one of the "
                           "two", name);
    }
    return 0;
}

static int rule_watch(struct rule_context *c, struct err *err)
{
    size_t i;
    json_t *entry;
    c->path = "watch";
    json_array_foreach (json_object_get(c->spec, "watch"), i, entry) {
        regex_t re;
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *pattern = json_string_value(json_object_get(entry, "pattern"));
        int rc = regcomp(&re, pattern ? pattern : "(", REG_EXTENDED);
        if (rc != 0)
            return err_set(err, ERR_USAGE, "watch[%zu].pattern: \"%.60s\" is no extended regular "
                           "expression", i, pattern ? pattern : "");
        size_t groups = re.re_nsub;
        regfree(&re);
        if (json_is_number(json_object_get(entry, "below")) && groups == 0)
            return err_set(err, ERR_USAGE, "watch[%zu]: below needs a number, but the pattern of "
                           "%.60s has no group, such as loss:([0-9.]+)", i, name ? name : "");
    }
    return 0;
}

static int rule_after(struct rule_context *c, struct err *err)
{
    size_t i;
    json_t *entry;
    c->path = "after";
    json_array_foreach (json_object_get(c->spec, "after"), i, entry) {
        struct err why = {0};
        const char *name = json_string_value(entry);
        if (name && strcmp(name, "last") != 0 && spec_name_check(name, &why) < 0)
            return err_set(err, ERR_USAGE, "after: expected ids or names of jobs; %s", why.text);
    }
    return 0;
}

int spec_rules_check(const json_t *spec, const char **path, struct err *err)
{
    static int (*const rules[])(struct rule_context *, struct err *) = {
        rule_name, rule_payload, rule_slurm, rule_hosts, rule_nodes, rule_ranks, rule_mirror,
        rule_env, rule_secrets, rule_after, rule_watch,
    };
    struct rule_context c = {.spec = spec, .resources = json_object_get(spec, "resources")};
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i](&c, err) < 0) {
            *path = c.path;
            return -1;
        }
    return 0;
}
