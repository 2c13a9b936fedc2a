/* SPDX-License-Identifier: Apache-2.0 */
/* plan_nccl.c - table of the NCCL variables to set, and the transport that NCCL is expected to use
 *
 * Pure: no clock, no I/O.
 * NCCL finds good paths by itself. A row is one variable: under which facts NCCL's own choice is
 * wrong, the value to set instead, and why. A row that no longer earns its place is deleted: a
 * forgotten variable keeps costing speed long after its reason is gone. There is no row for
 * GPUDirect or for algorithms: NCCL detects the former, and its manual reserves the latter for
 * debugging.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/field.h"

#include "agent/plan/plan_internal.h"
#include "engine/base/json_text.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { FAST_ETHERNET_MBPS = 40000, SHM_PER_RANK = 64 << 20 };

/* Result of a row: the value, and the fact behind it. */
struct finding {
    char value[320];
    char fact[200];
};

/* --- queries ------------------------------------------------------------------------------- */

static int ranks_in_all(const struct plan_view *v)
{
    return v->np * v->nodes;
}

static const json_t *default_interface(const struct plan_view *v)
{
    size_t i;
    const json_t *net;
    json_array_foreach(json_object_get(v->facts, "net"), i, net)
    {
        if (field_true(net, "default_route") && field_true(net, "up"))
            return net;
    }
    return NULL;
}

const char *plan_interface(const struct plan_view *v)
{
    return field_text(default_interface(v), "name");
}

/* 0x1d0f is Amazon: NCCL itself cannot use elastic fabric adapters (EFA) as verbs devices. */
static bool is_efa(const json_t *port)
{
    return strcmp(field_text(port, "vendor"), "0x1d0f") == 0;
}

static bool has_efa(const struct plan_view *v)
{
    size_t i;
    const json_t *port;
    json_array_foreach(json_object_get(v->facts, "rdma"), i, port)
    {
        if (is_efa(port))
            return true;
    }
    return false;
}

static int count_ports(const struct plan_view *v, const char *link)
{
    size_t i;
    const json_t *port;
    int n = 0;
    json_array_foreach(json_object_get(v->facts, "rdma"), i, port)
    {
        n += field_true(port, "active") && !is_efa(port) &&
             (!link || strcmp(field_text(port, "link"), link) == 0);
    }
    return n;
}

int plan_rdma_ports(const struct plan_view *v)
{
    return count_ports(v, NULL);
}

bool plan_rdma_is_ethernet(const struct plan_view *v)
{
    return count_ports(v, "infiniband") == 0 && count_ports(v, "ethernet") > 0;
}

/* Cloud vendors' settings must be taken as a whole, and change with each release. */
static bool has_vendor_script(const struct plan_view *v)
{
    return strncmp(field_text(v->facts, "fabric_software"), "gcp-", 4) == 0;
}

/* Is "550.40.07" older than "550.54"?  An unknown version is older than nothing. */
static bool driver_before(const struct plan_view *v, int major, int minor, int patch)
{
    int have[3] = {0, 0, 0};
    const int limit[3] = {major, minor, patch};
    if (sscanf(field_text(v->facts, "driver"), "%d.%d.%d", &have[0], &have[1], &have[2]) < 1)
        return false;
    for (int i = 0; i < 3; i++)
        if (have[i] != limit[i])
            return have[i] < limit[i];
    return false;
}

/* --- the rows ------------------------------------------------------------------------------ */

/* NCCL may log everything to files that the agent reads (agent/monitor/nccl_watch.h), unless the
 * user has configured NCCL's log. */
static bool may_tell_all(const struct plan_view *v)
{
    static const char *const names[] = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};
    const json_t *places[] = {json_object_get(v->facts, "environment"),
                              json_object_get(v->facts, "nccl_conf"),
                              json_object_get(v->spec, "env")};
    for (size_t n = 0; n < ARRAY_LEN(names); n++)
        for (size_t p = 0; p < ARRAY_LEN(places); p++)
            if (json_object_get(places[p], names[n]))
                return false;
    return ranks_in_all(v) > 1 && field_text(v->facts, "nccl_log")[0];
}

static bool warnings(const struct plan_view *v, struct finding *f)
{
    snprintf(f->value, sizeof(f->value), "WARN");
    snprintf(f->fact, sizeof(f->fact), "%d ranks on GPUs", ranks_in_all(v));
    return ranks_in_all(v) > 1 && !may_tell_all(v);
}

static bool what_it_does(const struct plan_view *v, struct finding *f)
{
    snprintf(f->value, sizeof(f->value), "INFO");
    snprintf(f->fact, sizeof(f->fact), "%d ranks on GPUs", ranks_in_all(v));
    return may_tell_all(v);
}

static bool only_connecting(const struct plan_view *v, struct finding *f)
{
    what_it_does(v, f);
    snprintf(f->value, sizeof(f->value), "INIT,NET");
    return may_tell_all(v);
}

static bool into_files(const struct plan_view *v, struct finding *f)
{
    const char *place = field_text(v->facts, "nccl_log");
    what_it_does(v, f);
    return may_tell_all(v) &&
           (size_t)snprintf(f->value, sizeof(f->value), "%s", place) < sizeof(f->value);
}

static bool interface(const struct plan_view *v, struct finding *f)
{
    const char *name = plan_interface(v);
    if (v->nodes < 2 || has_vendor_script(v))
        return false;
    if (has_efa(v)) {
        snprintf(f->value, sizeof(f->value), "^lo,docker");
        snprintf(f->fact, sizeof(f->fact), "Amazon EFA adapters are present");
        return true;
    }
    snprintf(f->value, sizeof(f->value), "=%s", name);
    snprintf(f->fact, sizeof(f->fact), "the default route uses %s", name);
    return name[0] != '\0';
}

static bool several_sockets(const struct plan_view *v, struct finding *f)
{
    const json_t *speed = json_object_get(default_interface(v), "speed_mbps");
    if (v->nodes < 2 || has_vendor_script(v) || has_efa(v) || plan_rdma_ports(v) > 0 ||
        json_integer_value(speed) < FAST_ETHERNET_MBPS)
        return false;
    snprintf(f->value, sizeof(f->value), "4");
    snprintf(f->fact, sizeof(f->fact), "%s has %lld Gbit/s, no RDMA", plan_interface(v),
             (long long)(json_integer_value(speed) / 1000));
    return true;
}

/* If ports of both kinds are active, the InfiniBand ports carry the data. */
static bool adapters(const struct plan_view *v, struct finding *f)
{
    size_t i, used = 1;
    const json_t *port;
    int good = count_ports(v, "infiniband"), others = count_ports(v, "ethernet");
    if (v->nodes < 2 || good == 0 || others == 0)
        return false;
    snprintf(f->value, sizeof(f->value), "=");
    json_array_foreach(json_object_get(v->facts, "rdma"), i, port)
    {
        if (field_true(port, "active") && strcmp(field_text(port, "link"), "infiniband") == 0 &&
            used < sizeof(f->value) - 24)
            used += (size_t)snprintf(f->value + used, sizeof(f->value) - used, "%s%.16s",
                                     used > 1 ? "," : "", field_text(port, "name"));
    }
    snprintf(f->fact, sizeof(f->fact), "%d InfiniBand and %d Ethernet ports are active", good, others);
    return true;
}

static bool host_memory(const struct plan_view *v, struct finding *f)
{
    struct plan_pairs p;
    plan_count_pairs(&p, v);
    snprintf(f->value, sizeof(f->value), "0");
    snprintf(f->fact, sizeof(f->fact), "%d of %d pairs of GPUs have no P2P, driver %.20s",
             p.unreadable, p.pairs, field_text(v->facts, "driver"));
    return p.unreadable > 0 && !driver_before(v, 560, 0, 0) && driver_before(v, 580, 0, 0);
}

static bool peers(const struct plan_view *v, struct finding *f)
{
    struct plan_pairs p;
    plan_count_pairs(&p, v);
    const char *name = v->gpus ? field_text(v->gpu[0].facts, "name") : "";
    snprintf(f->value, sizeof(f->value), "1");
    snprintf(f->fact, sizeof(f->fact), "%.60s reports P2P support, driver %.20s", name, field_text(v->facts, "driver"));
    return p.broken == 0 && strstr(name, "GeForce RTX 40") && p.near + p.far > 0 &&
           driver_before(v, 550, 40, 7);
}

static bool broken_copies(const struct plan_view *v, struct finding *f)
{
    struct plan_pairs p;
    plan_count_pairs(&p, v);
    snprintf(f->value, sizeof(f->value), "1");
    snprintf(f->fact, sizeof(f->fact), "the copy self-test failed on %d of %d pairs of GPUs", p.broken, p.pairs);
    return p.broken > 0;
}

static const struct row {
    const char *name;
    bool      (*when)(const struct plan_view *, struct finding *);
    const char *why;
    const char *confidence;
} rows[] = {
    {"NCCL_DEBUG", warnings, "NCCL's warnings go to the rank's log, where jobctl looks for causes",
     "high"},
    {"NCCL_DEBUG", what_it_does, "jobctl compares NCCL's transports with the expected ones",
     "high"},
    {"NCCL_DEBUG_SUBSYS", only_connecting, "limits the log to connection setup, about a page",
     "high"},
    {"NCCL_DEBUG_FILE", into_files,
     "keeps ranks' logs readable; jobctl reads the warnings from the file", "high"},
    {"NCCL_SOCKET_IFNAME", interface,
     "otherwise NCCL tries every interface, including ones that reach no other node", "high"},
    {"NCCL_SOCKET_NTHREADS", several_sockets, "one thread cannot saturate this network", "medium"},
    {"NCCL_NSOCKS_PERTHREAD", several_sockets, "one connection cannot saturate this network",
     "medium"},
    {"NCCL_IB_HCA", adapters,
     "use the InfiniBand ports only; the others are on an Ethernet network", "medium"},
    {"NCCL_CUMEM_HOST_ENABLE", host_memory,
     "drivers 560 to 579 may fail to share host memory by cuMem between GPUs without P2P",
     "medium"},
    {"NCCL_P2P_DISABLE", peers,
     "GeForce RTX 40 before driver 550.40.07 reports P2P, then hangs or copies wrong data",
     "medium"},
    {"NCCL_P2P_DISABLE", broken_copies,
     "copies between GPUs hang or arrive corrupted although the driver permits them", "high"},
};

/* --- expected transport -------------------------------------------------------------------- */

bool plan_p2p_everywhere(const struct plan_view *v)
{
    return v->gpus <= 2 && strstr(field_text(v->facts, "cpu_model"), "AMD");
}

static void expect(struct plan_view *v)
{
    struct plan_pairs p;
    char text[240];
    size_t n = 0;
    plan_count_pairs(&p, v);
    bool far_too = plan_p2p_everywhere(v);
    const struct {
        int         pairs;
        const char *how;
    } ways[] = {
        {p.through_switch, "NVLink through switches"},
        {p.direct, "NVLink"},
        {p.near + (far_too ? p.far : 0), "PCIe P2P"},
        {p.unreadable + (far_too ? 0 : p.far), "host shared memory"},
        {p.unknown, "unknown"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        if (ways[i].pairs > 0)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s (%d of %d pairs)",
                                  n ? ", " : "", ways[i].how, ways[i].pairs, p.pairs);
    if (n > 0)
        json_object_set_new(v->plan, "expects", json_text(text));
}

/* --- warnings ------------------------------------------------------------------------------ */

static void heed_network(struct plan_view *v)
{
    const json_t *lock = json_object_get(v->facts, "memlock_bytes");
    if (v->nodes < 2)
        return;
    if (has_vendor_script(v))
        plan_note(v,
                  "%s is installed: its NCCL settings change with each release, so source its script in `run:` (under "
                  "/usr/local/gib/scripts or /var/lib/tcpx*); jobctl adds nothing",
                  field_text(v->facts, "fabric_software"));
    else if (has_efa(v))
        plan_note(v, "Amazon EFA needs the plugin aws-ofi-nccl on the library path; "
                     "without it NCCL falls back to sockets (\"Using network Socket\")");
    else if (!plan_interface(v)[0])
        plan_note(v,
                  "no interface has a default route: name the one that reaches the other nodes in "
                  "env.NCCL_SOCKET_IFNAME");
    if (plan_rdma_ports(v) > 0 && json_is_integer(lock))
        plan_note(v,
                  "locked memory is limited to %lld KiB, too little for RDMA: "
                  "start containers with --ulimit memlock=-1, or raise memlock in limits.conf",
                  (long long)(json_integer_value(lock) >> 10));
    if (plan_rdma_is_ethernet(v))
        plan_note(v, "RDMA over Ethernet stalls if the network drops packets: if the first "
                     "collective fails, set env.NCCL_IB_DISABLE=1 and compare");
}

static void heed_shm(struct plan_view *v)
{
    const json_t *shm = json_object_get(v->facts, "shm_bytes");
    const char *container = field_text(v->facts, "container");
    if (v->np < 2 || !json_is_integer(shm) || json_integer_value(shm) >= (json_int_t)1 << 30)
        return;
    plan_note(v,
              "/dev/shm has only %lld MiB: data loader workers or NCCL may exhaust it (a "
              "rank then dies with SIGBUS)%s%s",
              (long long)(json_integer_value(shm) >> 20),
              json_integer_value(shm) < (json_int_t)SHM_PER_RANK * v->np ? "; too little for these ranks"
                                                                         : "",
              container[0] ? "; start the container with --shm-size=1g" : "");
}

static void heed_gpus(struct plan_view *v)
{
    struct plan_pairs p;
    plan_count_pairs(&p, v);
    int major = v->gpus ? atoi(field_text(v->gpu[0].facts, "compute")) : 0;
    int minor = 0;
    if (v->gpus)
        sscanf(field_text(v->gpu[0].facts, "compute"), "%*d.%d", &minor);
    if (field_true(v->facts, "iommu") &&
        json_is_false(json_object_get(v->facts, "virtual")) && p.near > 0)
        plan_note(v, "an IOMMU is enabled on a physical machine: copies between GPUs may be "
                     "slow or hang although the driver permits them; if so, disable it "
                     "(amd_iommu=off, intel_iommu=off) or set env.NCCL_P2P_DISABLE=1");
    if (major > 0 && (major < 7 || (major == 7 && minor < 5)))
        plan_note(v,
                  "compute capability %d.%d: not supported by CUDA 13, and no "
                  "bf16: use programs built with CUDA 12, with fp16 or fp32",
                  major, minor);
    else if (major == 7)
        plan_note(v, "compute capability %d.%d has no bf16: use fp16 or fp32", major, minor);
}

static void heed_session(struct plan_view *v)
{
    const json_t *session = json_object_get(v->facts, "session");
    json_int_t limit = json_integer_value(json_object_get(session, "limit_s"));
    if (limit > 0)
        plan_note(
            v,
            "this is a %s machine: it is reclaimed after at most %lld h; store results on another machine",
            field_text(v->facts, "host_kind"), (long long)(limit / 3600));
}

void plan_set_nccl(struct plan_view *v)
{
    const json_t *inherited = json_object_get(v->facts, "environment");
    struct finding f;
    for (size_t i = 0; i < ARRAY_LEN(rows) && v->gpus > 0; i++)
        if (!json_object_get(inherited, rows[i].name) && rows[i].when(v, &f))
            plan_set(v, rows[i].name, f.value, rows[i].why, f.fact, rows[i].confidence);
    expect(v);
    heed_network(v);
    heed_shm(v);
    heed_gpus(v);
    heed_session(v);
}
