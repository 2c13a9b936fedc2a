/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_log.c - see nccl_log.h */
#include "agent/monitor/nccl_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static const char *const way_names[NCCL_WAYS] = {"P2P", "SHM", "NET"};
static const char *const way_keys[NCCL_WAYS] = {"p2p", "shm", "net"};

/* --- parsing --------------------------------------------------------------------------------- */

void nccl_log_init(struct nccl_log *log)
{
    *log = (struct nccl_log){.channels = -1, .nvls = -1};
}

/* Copies the first word after `mark`, up to one of `ends`. */
static bool take_word(char *out, size_t size, const char *line, const char *mark, const char *ends)
{
    const char *at = strstr(line, mark);
    if (!at)
        return false;
    at += strlen(mark);
    at += strspn(at, " ");
    size_t n = strcspn(at, ends);
    snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), at);
    for (char *c = out; *c; c++)
        *c = *c < ' ' || *c > '~' ? '?' : *c; /* printable ASCII only: it is stored as JSON */
    return n > 0;
}

static struct nccl_pair *pair_of(struct nccl_log *log, int a, int b)
{
    const int low = a < b ? a : b, high = a < b ? b : a;
    for (int i = 0; i < log->pairs; i++)
        if (log->pair[i].a == low && log->pair[i].b == high)
            return &log->pair[i];
    if (log->pairs == NCCL_LOG_PAIRS || low == high || low < 0)
        return NULL;
    log->pair[log->pairs] = (struct nccl_pair){.a = low, .b = high};
    return &log->pair[log->pairs++];
}

/* "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0": the bracket after a rank is its device. */
static bool take_channel(struct nccl_log *log, const char *line)
{
    int a, b;
    char words[24];
    const char *ranks = strstr(line, "Channel "), *arrow = strstr(line, " -> ");
    if (!ranks || !arrow || !(ranks = strstr(ranks, " : ")) ||
        sscanf(ranks, " : %d[", &a) != 1 || sscanf(arrow, " -> %d[", &b) != 1 ||
        !take_word(words, sizeof(words), arrow, " via ", " \r\n"))
        return false;
    for (int way = 0; way < NCCL_WAYS; way++) {
        if (strncmp(words, way_names[way], 3) != 0)
            continue;
        struct nccl_pair *p = pair_of(log, a, b);
        if (p && (!p->words[0] || (int)p->way < way)) {
            p->way = (enum nccl_way)way;
            snprintf(p->words, sizeof(p->words), "%s", words);
        }
        return true;
    }
    return false;
}

bool nccl_log_line(struct nccl_log *log, const char *line)
{
    const char *at = strstr(line, "NCCL version ");
    if (at)
        return take_word(log->version, sizeof(log->version), at, "NCCL version ", "+ \r\n");
    at = strstr(line, "NCCL INFO ");
    if (!at)
        return false;
    if (take_channel(log, at) || take_word(log->network, sizeof(log->network), at,
                                           "Using network ", "\r\n"))
        return true;
    if (strstr(at, "Bootstrap"))
        return take_word(log->interface, sizeof(log->interface), at, "sing ", ": \r\n");
    if (strstr(at, " coll channels")) {
        const char *nvls = strstr(at, " nvls channels");
        log->channels = atoi(at + strlen("NCCL INFO "));
        while (nvls && nvls > at && nvls[-1] >= '0' && nvls[-1] <= '9')
            nvls--;
        log->nvls = nvls ? atoi(nvls) : -1;
        return true;
    }
    return false;
}

bool nccl_log_is_telling(const struct nccl_log *log)
{
    return log->pairs > 0;
}

/* --- comparing with the plan ----------------------------------------------------------------- */

struct judge {
    const struct nccl_log *log;
    const json_t          *plan, *facts;
    json_t                *unlike;
};

/* Who has set a variable: "the job's env", ...; NULL: only the plan, or nobody. */
static const char *who_set(const struct judge *j, const char *name, const char **value)
{
    size_t i;
    const json_t *row;
    static const char *const places[][2] = {{"environment", "the inherited environment"},
                                            {"nccl_conf", "a file nccl.conf"}};
    json_array_foreach(json_object_get(j->plan, "user_env"), i, row)
    {
        if (strcmp(field_text(row, "name"), name) == 0) {
            *value = field_text(row, "value");
            return "the job's env";
        }
    }
    for (int p = 0; p < 2; p++)
        if (json_object_get(json_object_get(j->facts, places[p][0]), name)) {
            *value = field_text(json_object_get(j->facts, places[p][0]), name);
            return places[p][1];
        }
    return NULL;
}

static bool plan_has_set(const struct judge *j, const char *name)
{
    const char *value = "";
    return plan_env(j->plan, name) && !who_set(j, name, &value);
}

__attribute__((format(printf, 4, 5))) static void unlike(struct judge *j, const char *because,
                                                         const char *todo, const char *fmt, ...)
{
    char seen[240];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(seen, sizeof(seen), fmt, ap);
    va_end(ap);
    json_array_append_new(j->unlike, json_make("{s:s, s:s, s:s}", "seen", seen, "because", because,
                                               "todo", todo));
}

/* A user's variable as the reason, and the advice to remove it. */
static bool blame_variable(const struct judge *j, const char *name, char because[160], char todo[160])
{
    const char *value = "", *who = who_set(j, name, &value);
    if (!who)
        return false;
    snprintf(because, 160, "%s sets %s=%.40s", who, name, value);
    snprintf(todo, 160, "remove %s, and compare", name);
    return true;
}

/* The GPU of a rank of this node, by global rank number, in the facts. */
static json_int_t gpu_of(const struct judge *j, int rank)
{
    size_t i;
    const json_t *row, *gpu;
    const char *uuid = "";
    json_array_foreach(json_object_get(j->plan, "ranks"), i, row)
    {
        if (field_int(row, "rank", -1) == rank)
            uuid = field_text(row, "gpu");
    }
    json_array_foreach(json_object_get(j->facts, "gpus"), i, gpu)
    {
        if (uuid[0] && strcmp(field_text(gpu, "uuid"), uuid) == 0)
            return field_int(gpu, "index", -1);
    }
    return -1;
}

static const json_t *facts_of_pair(const struct judge *j, const struct nccl_pair *p)
{
    size_t i;
    const json_t *pair;
    const json_int_t a = gpu_of(j, p->a), b = gpu_of(j, p->b);
    json_array_foreach(json_object_get(j->facts, "pairs"), i, pair)
    {
        const json_int_t x = field_int(pair, "a", -1), y = field_int(pair, "b", -1);
        if (a >= 0 && ((x == a && y == b) || (x == b && y == a)))
            return pair;
    }
    return NULL;
}

/* "NVLink", "PCIe P2P", or NULL: host memory was expected. */
static const char *fast_way(const json_t *pair)
{
    const char *path = field_text(pair, "path");
    const bool ok = strcmp(field_text(pair, "p2p"), "ok") == 0;
    if (field_int(pair, "nvlinks", -1) > 0 && (ok || !field_text(pair, "p2p")[0]))
        return "NVLink";
    return ok && (strcmp(path, "PIX") == 0 || strcmp(path, "PXB") == 0) ? "PCIe P2P" : NULL;
}

static void explain_slow(const struct judge *j, char because[160], char todo[160])
{
    if (blame_variable(j, "NCCL_P2P_DISABLE", because, todo) ||
        blame_variable(j, "NCCL_P2P_LEVEL", because, todo) ||
        blame_variable(j, "NCCL_IGNORE_DISABLED_P2P", because, todo))
        return;
    if (field_text(j->facts, "container")[0]) {
        snprintf(because, 160, "ranks in containers must see all GPUs and the same /dev/shm");
        snprintf(todo, 160, "run all ranks in one container, with --gpus all --ipc=host");
    } else if (field_true(j->facts, "iommu")) {
        snprintf(because, 160, "an IOMMU is enabled, so NCCL may avoid P2P");
        snprintf(todo, 160, "disable it (amd_iommu=off, intel_iommu=off) on bare metal");
    } else {
        snprintf(because, 160, "NCCL or the driver refused P2P");
        snprintf(todo, 160, "run `jobctl doctor`, and search NCCL's log for 'P2P'");
    }
}

/* Checks the transport between two ranks of this node. */
static void judge_pair(struct judge *j, const struct nccl_pair *p)
{
    char because[160], todo[160];
    const json_t *pair = facts_of_pair(j, p);
    const char *fast = pair ? fast_way(pair) : NULL;
    if (!pair || p->way == NCCL_WAY_P2P)
        return;
    if (fast && !plan_has_set(j, "NCCL_P2P_DISABLE") && !plan_has_set(j, "NCCL_P2P_LEVEL")) {
        explain_slow(j, because, todo);
        unlike(j, because, todo, "expected %s between ranks %d and %d, NCCL used %s", fast, p->a, p->b, p->words);
    } else if (p->way == NCCL_WAY_NET) {
        if (!blame_variable(j, "NCCL_SHM_DISABLE", because, todo) &&
            !blame_variable(j, "NCCL_HOSTID", because, todo)) {
            snprintf(because, sizeof(because), "they do not share /dev/shm, or it is full");
            snprintf(todo, sizeof(todo), "run all ranks in one container, with --shm-size=1g");
        }
        unlike(j, because, todo,
               "ranks %d and %d are on one machine, but NCCL uses the network (%s)",
               p->a, p->b, p->words);
    }
}

static int count_ports(const json_t *facts, bool efa)
{
    size_t i;
    const json_t *port;
    int n = 0;
    json_array_foreach(json_object_get(facts, "rdma"), i, port)
    {
        n += field_true(port, "active") && (strcmp(field_text(port, "vendor"), "0x1d0f") == 0) == efa;
    }
    return n;
}

static void judge_network(struct judge *j)
{
    char because[160], todo[160];
    const bool sockets = strcmp(j->log->network, "Socket") == 0;
    const int ports = count_ports(j->facts, false), efa = count_ports(j->facts, true);
    if (field_int(j->plan, "nodes", -1) < 2 || !sockets || ports + efa == 0 ||
        plan_has_set(j, "NCCL_IB_DISABLE"))
        return;
    if (!blame_variable(j, "NCCL_IB_DISABLE", because, todo) &&
        !blame_variable(j, "NCCL_NET", because, todo)) {
        snprintf(because, sizeof(because), "%s",
                 efa ? "the plugin aws-ofi-nccl was not found"
                     : "libibverbs or /dev/infiniband is missing");
        snprintf(todo, sizeof(todo), "%s",
                 efa ? "add it to LD_LIBRARY_PATH"
                     : "install rdma-core; containers need --device /dev/infiniband and --ulimit "
                       "memlock=-1");
    }
    unlike(j, because, todo,
           "%d RDMA port%s active, but NCCL uses sockets, at least ten times slower",
           ports + efa, ports + efa == 1 ? " is" : "s are");
}

static void judge_interface(struct judge *j)
{
    const char *want = plan_env(j->plan, "NCCL_SOCKET_IFNAME"), *have = j->log->interface;
    if (field_int(j->plan, "nodes", -1) < 2 || !have[0] || !want || want[0] != '=' ||
        strcmp(want + 1, have) == 0)
        return;
    unlike(j, "NCCL_SOCKET_IFNAME is overridden", "check nccl.conf and other places that set it",
           "expected interface %s, NCCL uses %s", want + 1, have);
}

/* "NCCL 2.21.5: P2P between 8 pairs, network IB, 24 channels" */
static void describe(const struct nccl_log *log, const int ways[NCCL_WAYS], char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "NCCL%s%s", log->version[0] ? " " : "", log->version);
    const char *between = ": ";
    for (int w = 0; w < NCCL_WAYS && n < size; w++)
        if (ways[w] > 0) {
            n += (size_t)snprintf(out + n, size - n, "%s%s between %d pair%s", between, way_names[w],
                                  ways[w], ways[w] == 1 ? "" : "s");
            between = ", ";
        }
    if (log->network[0] && n < size)
        n += (size_t)snprintf(out + n, size - n, ", network %s", log->network);
    if (log->channels > 0 && n < size)
        snprintf(out + n, size - n, ", %d channels", log->channels);
}

static json_t *text_or_null(const char *text)
{
    return text[0] ? json_text(text) : json_null();
}

/* The path that NCCL uses between two GPUs of this node: [{"a", "b", "way", "words"}], a and b as in the facts. */
static json_t *taken(const struct judge *j)
{
    json_t *out = json_array();
    for (int i = 0; i < j->log->pairs; i++) {
        const struct nccl_pair *p = &j->log->pair[i];
        const json_int_t a = gpu_of(j, p->a), b = gpu_of(j, p->b);
        if (a >= 0 && b >= 0)
            json_array_append_new(out, json_make("{s:I, s:I, s:s, s:s}", "a", a, "b", b, "way", way_keys[p->way],
                                                 "words", p->words));
    }
    return out;
}

json_t *nccl_log_judge(const struct nccl_log *log, const json_t *plan, const json_t *facts)
{
    struct judge j = {.log = log, .plan = plan, .facts = facts, .unlike = json_array()};
    int ways[NCCL_WAYS] = {0};
    char text[600];
    for (int i = 0; i < log->pairs; i++) {
        ways[log->pair[i].way]++;
        if (json_array_size(j.unlike) == 0) /* one pair is enough */
            judge_pair(&j, &log->pair[i]);
    }
    judge_network(&j);
    judge_interface(&j);
    const json_t *first = json_array_get(j.unlike, 0);
    describe(log, ways, text, sizeof(text));
    if (first)
        snprintf(text, sizeof(text), "%.230s: %.150s; %.150s", field_text(first, "seen"),
                 field_text(first, "because"), field_text(first, "todo"));
    return json_make("{s:s, s:b, s:o, s:o, s:o, s:i, s:o, s:{s:i, s:i, s:i}, s:o}", "text", text,
                     "expected", first == NULL, "version", text_or_null(log->version), "network",
                     text_or_null(log->network), "interface", text_or_null(log->interface),
                     "channels", log->channels, "pairs", taken(&j), "ways", "p2p", ways[NCCL_WAY_P2P], "shm",
                     ways[NCCL_WAY_SHM], "net", ways[NCCL_WAY_NET], "unlike", j.unlike);
}
