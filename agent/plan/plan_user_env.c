/* SPDX-License-Identifier: Apache-2.0 */
/* plan_user_env.c - keeps the user's variables unchanged, and warns about harmful ones
 *
 * Pure: no clock, no I/O.
 * A variable set by the user is never overridden. If the facts show that it is likely harmful or
 * has no effect, the plan says so: forum posts pass on settings that were right on one machine
 * once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/plan_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum verdict { FINE, NO_EFFECT, HARMFUL };

/* --- values -------------------------------------------------------------------------------- */

static bool is_on(const char *value)
{
    return value[0] && strcmp(value, "0") != 0;
}

/* A variable's value as seen by the ranks: the job's, inherited, or from nccl.conf. */
static const char *seen(const struct plan_view *v, const char *name)
{
    static const char *const places[] = {"environment", "nccl_conf"};
    const char *own = field_text(json_object_get(v->spec, "env"), name);
    for (size_t i = 0; i < ARRAY_LEN(places) && !own[0]; i++)
        own = field_text(json_object_get(v->facts, places[i]), name);
    return own;
}

/* --- one check per variable ---------------------------------------------------------------- */

static enum verdict judge_p2p_level(const struct plan_view *v, const char *value, char *why, size_t size)
{
    struct plan_pairs p;
    plan_count_pairs(&p, v);
    bool none = strcmp(value, "LOC") == 0 || strcmp(value, "0") == 0;
    bool links_only = strcmp(value, "NVL") == 0 || strcmp(value, "1") == 0;
    int lost = p.near + (v->gpus <= 2 && strstr(field_text(v->facts, "cpu_model"), "AMD") ? p.far
                                                                                         : 0);
    int linked = p.direct + p.through_switch;
    if (v->np < 2) {
        snprintf(why, size, "no effect with one rank per node");
        return NO_EFFECT;
    }
    if (none && linked + lost > 0) {
        snprintf(why, size, "all %d pairs of GPUs would use host memory, although %d have NVLink", p.pairs, linked);
        return HARMFUL;
    }
    if (!none && !links_only)
        return FINE;
    /* In a partial NVLink mesh other pairs route through a GPU in between, which NVL forbids. */
    if (p.direct > 0 && p.direct < p.pairs) {
        snprintf(why, size,
                 "%d of %d pairs of GPUs have no direct NVLink and would go "
                 "through host memory instead of PCIe or a GPU in between",
                 p.pairs - p.direct, p.pairs);
        return HARMFUL;
    }
    if (lost > 0) {
        snprintf(why, size, "%d pairs of GPUs without NVLink would lose PCIe P2P and go through "
                 "host memory", lost);
        return HARMFUL;
    }
    snprintf(why, size,
             linked == p.pairs && linked > 0 ? "all pairs have NVLink, which NCCL uses anyway"
                                             : "no pair would use P2P here anyway");
    return NO_EFFECT;
}

static enum verdict judge_p2p_disable(const struct plan_view *v, const char *value, char *why, size_t size)
{
    return is_on(value) ? judge_p2p_level(v, "LOC", why, size) : FINE;
}

static enum verdict judge_ib_disable(const struct plan_view *v, const char *value, char *why, size_t size)
{
    int ports = plan_rdma_ports(v);
    if (!is_on(value))
        return FINE;
    if (v->nodes < 2) {
        snprintf(why, size, "a single node uses NVLink, PCIe and shared memory only");
        return NO_EFFECT;
    }
    if (ports == 0) {
        snprintf(why, size, "no active RDMA port that NCCL could use");
        return NO_EFFECT;
    }
    snprintf(why, size, "%d RDMA port%s active, and sockets are much slower", ports, ports == 1 ? " is" : "s are");
    return HARMFUL;
}

/* Does a list match the interface: "=a,b" exactly, "^a" all others, "a" as a prefix? */
static bool list_has(const char *list, const char *name)
{
    bool not = *list == '^', exact = false;
    list += not;
    exact = *list == '=';
    list += exact;
    bool found = false;
    for (size_t n; *list && !found; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        found = n > 0 && strncmp(list, name, n) == 0 && (!exact || name[n] == '\0');
    }
    return found != not;
}

static enum verdict judge_ifname(const struct plan_view *v, const char *value, char *why, size_t size)
{
    size_t i, matching = 0;
    const json_t *net;
    const char *route = plan_interface(v);
    json_array_foreach(json_object_get(v->facts, "net"), i, net)
    {
        matching += list_has(value, field_text(net, "name"));
    }
    if (i > 0 && matching == 0 && !list_has(value, "lo")) {
        snprintf(why, size,
                 "it matches no interface of this node%s%s%s, and NCCL does not start without one",
                 route[0] ? " (the default route uses " : "", route, route[0] ? ")" : "");
        return HARMFUL;
    }
    if (v->nodes < 2) {
        snprintf(why, size, "a single node works with any interface");
        return NO_EFFECT;
    }
    if (route[0] && !list_has(value, route)) {
        snprintf(why, size, "the default route uses %s; this interface may not reach all nodes", route);
        return HARMFUL;
    }
    return FINE;
}

static enum verdict judge_shm(const struct plan_view *v, const char *value, char *why, size_t size)
{
    if (!is_on(value) || v->np < 2)
        return FINE;
    snprintf(why, size,
             "GPUs of this node without P2P would communicate over the network");
    return HARMFUL;
}

static enum verdict judge_hidden_fault(const struct plan_view *v, const char *value, char *why, size_t size)
{
    (void)v;
    snprintf(why, size, "it hides a hardware fault: broken P2P between linked GPUs");
    return is_on(value) ? HARMFUL : FINE;
}

static enum verdict judge_debugging(const struct plan_view *v, const char *value, char *why, size_t size)
{
    (void)v;
    (void)value;
    snprintf(why, size,
             "NCCL's manual reserves it for debugging; NCCL's own choice is rarely worse");
    return HARMFUL;
}

static enum verdict judge_blocking(const struct plan_view *v, const char *value, char *why, size_t size)
{
    (void)v;
    snprintf(why, size, "every kernel launch blocks: several times slower");
    return is_on(value) ? HARMFUL : FINE;
}

static const struct judge {
    const char *name;
    enum verdict (*judge)(const struct plan_view *, const char *value, char *why, size_t size);
} judges[] = {
    {"NCCL_P2P_LEVEL", judge_p2p_level},
    {"NCCL_P2P_DISABLE", judge_p2p_disable},
    {"NCCL_IB_DISABLE", judge_ib_disable},
    {"NCCL_SOCKET_IFNAME", judge_ifname},
    {"NCCL_SHM_DISABLE", judge_shm},
    {"NCCL_IGNORE_DISABLED_P2P", judge_hidden_fault},
    {"NCCL_ALGO", judge_debugging},
    {"NCCL_PROTO", judge_debugging},
    {"NCCL_BUFFSIZE", judge_debugging},
    {"CUDA_LAUNCH_BLOCKING", judge_blocking},
};

static enum verdict judge(const struct plan_view *v, const char *name, const char *value, char *why, size_t size)
{
    why[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(judges) && v->gpus > 0; i++)
        if (strcmp(judges[i].name, name) == 0)
            return judges[i].judge(v, value, why, size);
    return FINE;
}

/* --- taking them over ---------------------------------------------------------------------- */

static bool is_planned(const json_t *env, const char *name)
{
    size_t i;
    const json_t *row;
    json_array_foreach(env, i, row)
    {
        if (strcmp(field_text(row, "name"), name) == 0)
            return true;
    }
    return false;
}

/* Variables that identify a rank: a fixed value for all ranks would break the job. */
static bool is_identity(const char *name)
{
    static const char *const names[] = {"RANK",      "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                        "NODE_RANK", "GROUP_RANK", "ROLE_RANK"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    /* the index of an array is the same for all ranks: it is part of a member's spec */
    return strncmp(name, "JOBCTL_", 7) == 0 && strcmp(name, "JOBCTL_ARRAY_INDEX") != 0;
}

static void take_one(struct plan_view *v, json_t *user, const char *name, const char *value)
{
    char why[240], text[320];
    const char *base = is_planned(v->env, name) ? "set by the job, overriding jobctl's value" : "set by the job";
    enum verdict verdict = judge(v, name, value, why, sizeof(why));
    if (verdict == FINE)
        snprintf(text, sizeof(text), "%s", base);
    else
        snprintf(text, sizeof(text), "%s; %s here: %s", base, verdict == HARMFUL ? "likely harmful" : "no effect", why);
    if (verdict == HARMFUL)
        plan_note_harm(v, "env.%s=%.60s is likely harmful here: %s", name, value, why);
    json_array_append_new(user, json_make("{s:s, s:s, s:s}", "name", name, "value", value, "why", text));
}

/* Variables that the job did not set but its ranks inherit. */
static void judge_inherited(struct plan_view *v)
{
    static const struct {
        const char *key, *where;
    } places[] = {{"environment", "the inherited environment"}, {"nccl_conf", "nccl.conf"}};
    char why[240];
    for (size_t p = 0; p < ARRAY_LEN(places); p++)
        for (size_t i = 0; i < ARRAY_LEN(judges); i++) {
            const char *name = judges[i].name;
            const char *value = field_text(json_object_get(v->facts, places[p].key), name);
            if (value[0] && value == seen(v, name) && !is_planned(v->env, name) &&
                judge(v, name, value, why, sizeof(why)) == HARMFUL)
                plan_note_harm(v, "%s=%.60s of %s is likely harmful here: %s", name, value, places[p].where, why);
        }
}

int plan_take_user_env(struct plan_view *v, struct err *err)
{
    const char *name;
    json_t *value;
    json_t *user = json_array();
    json_object_set_new(v->plan, "user_env", user);
    json_object_foreach(json_object_get(v->spec, "env"), name, value)
    {
        if (!json_is_string(value))
            return err_set(err, ERR_USAGE, "env.%.60s is not a string", name);
        if (is_identity(name))
            return err_set(err, ERR_USAGE, "env.%.60s cannot be set: jobctl sets it for each rank", name);
        take_one(v, user, name, json_string_value(value));
    }
    judge_inherited(v);
    return 0;
}
