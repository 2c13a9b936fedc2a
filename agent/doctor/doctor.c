/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - see doctor.h; one function per check, in the order shown */
#include "agent/doctor/doctor.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doctor/doctor_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { KIB = 1 << 10, DISK_LOW = 2 };

/* --- programs, CPUs, memory ---------------------------------------------------------------- */

static void check_programs(struct checkup *c)
{
    const json_t *versions = json_object_get(c->looked, "versions");
    const char *agent = field_text(versions, "jobctl-agent");
    const char *train = field_text(versions, "jobctl-train");
    const char *refusal = field_text(c->looked, "start_error");
    if (!json_object_get(versions, "jobctl-train"))
        return; /* not asked: the job does not use it */
    if (!train[0] && refusal[0])
        row(c, "programs", ROW_FAIL, "", "jobctl-agent is %s; %s", agent, refusal);
    else if (!train[0])
        row(c, "programs", ROW_FAIL, "install jobctl-train next to jobctl-agent; make builds both",
            "jobctl-agent is %s; jobctl-train does not start", agent);
    else if (strcmp(agent, train) != 0)
        row(c, "programs", ROW_FAIL, "install all programs in the same version",
            "jobctl-agent is %s but jobctl-train is %s", agent, train);
    else
        row(c, "programs", ROW_OK, "", "jobctl-agent and jobctl-train are %s", agent);
}

/* "8, AMD EPYC 7313 16-Core Processor, kernels: cpu-avx2" */
static void check_processors(struct checkup *c)
{
    const char *kernels = field_text(c->looked, "kernels");
    const char *word = kernels[0] ? ", kernels: " : "";
    json_int_t cpus = field_int(c->facts, "cpus", -1);
    const json_t *quota = json_object_get(c->facts, "cgroup_cpus");
    if (json_is_number(quota) && json_number_value(quota) < (double)cpus)
        row(c, "processors", ROW_OK, "", "%.4g of %lld (cgroup limit)%s%s",
            json_number_value(quota), (long long)cpus, word, kernels);
    else
        row(c, "processors", ROW_OK, "", "%lld, %s%s%s", (long long)cpus,
            field_text(c->facts, "cpu_model"), word, kernels);
}

static void check_machine(struct checkup *c)
{
    const json_t *machine = json_object_get(c->facts, "machine");
    const char *why = field_text(machine, "text");
    if (!machine)
        return;
    if (!why[0])
        row(c, "other users", ROW_OK, "", "GPUs and CPU slots are shared by the locks in %s",
            field_text(machine, "dir"));
    else if (field_true(machine, "wrong"))
        row(c, "other users", ROW_WARN, "ask the administrator for: install -d -m 1777 -o root /run/jobctl",
            "jobctl does not wait for jobs of other users: %s", why);
    else
        row(c, "other users", ROW_OK, "", "jobctl does not wait for them: %s (to share the machine, root "
            "creates /run/jobctl: docs/SHARED-BOX.md)", why);
}

static void check_memory(struct checkup *c)
{
    json_int_t all = field_int(c->facts, "memory_bytes", -1);
    json_int_t limit = field_int(c->facts, "memory_limit_bytes", -1);
    if (all < 0)
        row(c, "memory", ROW_UNKNOWN, "", "unknown: /proc/meminfo has no MemTotal");
    else if (limit >= 0 && limit < all)
        row(c, "memory", ROW_OK, "", "%.1f of %.1f GiB (cgroup limit)", doctor_gib(limit), doctor_gib(all));
    else
        row(c, "memory", ROW_OK, "", "%.1f GiB", doctor_gib(all));
}

static void check_shm(struct checkup *c)
{
    json_int_t shm = field_int(c->facts, "shm_bytes", -1);
    if (shm < 0)
        row(c, "/dev/shm", ROW_UNKNOWN, "", "size unknown");
    else if (shm < (json_int_t)1 << 30)
        row(c, "/dev/shm", ROW_WARN,
            field_text(c->facts, "container")[0] ? "start the container with --shm-size=1g"
                                                : "mount -o remount,size=8g /dev/shm",
            "%lld MiB: NCCL and data loaders of several ranks may exhaust it (SIGBUS)",
            (long long)(shm >> 20));
    else
        row(c, "/dev/shm", ROW_OK, "", "%.1f GiB", doctor_gib(shm));
}

static void check_disk(struct checkup *c)
{
    json_int_t left = field_int(c->facts, "disk_free_bytes", -1);
    const char *disk = field_text(c->facts, "disk");
    if (left < 0)
        row(c, "disk", ROW_UNKNOWN, "", "free space in %s unknown", disk);
    else
        row(c, "disk", left < (json_int_t)DISK_LOW << 30 ? ROW_WARN : ROW_OK,
            "free disk space: checkpoints and logs are written there", "%.1f GiB free in %s", doctor_gib(left), disk);
}

/* --- network ------------------------------------------------------------------------------- */

static void check_network(struct checkup *c)
{
    size_t i;
    const json_t *net;
    json_array_foreach(json_object_get(c->facts, "net"), i, net)
    {
        json_int_t mbps = field_int(net, "speed_mbps", -1);
        if (!field_true(net, "default_route"))
            continue;
        if (mbps > 0)
            row(c, "network", ROW_OK, "", "the default route uses %s, %g Gbit/s",
                field_text(net, "name"), (double)mbps / 1000);
        else
            row(c, "network", ROW_OK, "", "the default route uses %s", field_text(net, "name"));
        return;
    }
    row(c, "network", ROW_UNKNOWN, "", "no interface has a default route: single-node jobs only");
}

static void check_rdma(struct checkup *c)
{
    size_t i, down = 0;
    const json_t *port, *ports = json_object_get(c->facts, "rdma");
    const json_t *lock = json_object_get(c->facts, "memlock_bytes");
    if (json_array_size(ports) == 0)
        return;
    json_array_foreach(ports, i, port)
    {
        down += !field_true(port, "active");
    }
    row(c, "RDMA ports", down == json_array_size(ports) ? ROW_WARN : ROW_OK, "check them with ibstat",
        "%zu of %zu active", json_array_size(ports) - down, json_array_size(ports));
    if (json_is_integer(lock))
        row(c, "locked memory", ROW_WARN, "ulimit -l unlimited; containers: --ulimit memlock=-1",
            "%lld KiB: too little for RDMA between nodes to register memory",
            (long long)(json_integer_value(lock) / KIB));
}

/* --- the machine --------------------------------------------------------------------------- */

static void check_clock(struct checkup *c)
{
    const json_t *good = json_object_get(c->looked, "clock_synchronised");
    if (!json_is_boolean(good))
        row(c, "clock", ROW_UNKNOWN, "", "synchronisation state unknown");
    else
        row(c, "clock", json_is_true(good) ? ROW_OK : ROW_WARN, "start chrony or systemd-timesyncd",
            json_is_true(good) ? "synchronised"
                               : "not synchronised: event times of different nodes may be out of order");
}

static void check_session(struct checkup *c)
{
    const json_t *session = json_object_get(c->facts, "session");
    json_int_t limit = field_int(session, "limit_s", -1), age = field_int(session, "age_s", -1);
    const char *kind = field_text(c->facts, "host_kind");
    if (limit < 0)
        row(c, "machine", ROW_OK, "", "%s%s%s", kind[0] ? kind : "plain",
            field_text(c->facts, "container")[0] ? ", in a container of " : "", field_text(c->facts, "container"));
    else
        row(c, "machine", ROW_WARN, "copy checkpoints elsewhere with checkpoint.mirror",
            "%s: reclaimed after at most %lld h, up for %.1f h", kind, (long long)(limit / 3600),
            (double)(age > 0 ? age : 0) / 3600);
}

/* "4.3.1, without root, GPUs by CDI": one row for each runtime that is installed. */
static void check_container(struct checkup *c, const json_t *r)
{
    const char *name = field_text(r, "runtime"), *version = field_text(r, "version");
    const bool podman = strcmp(name, "podman") == 0, gpus = json_array_size(json_object_get(c->facts, "gpus")) > 0;
    const char *how = strcmp(name, "docker") == 0 || podman ? field_true(r, "rootless") ? ", without root" : ", as root"
                                                            : "";
    if (field_text(r, "why")[0])
        row(c, name, ROW_UNKNOWN, "", "%s %s", name, field_text(r, "why"));
    else if (field_text(r, "error")[0])
        row(c, name, ROW_WARN, "repair the runtime, or name another one in image.runtime: jobs with an image fail on "
            "this machine", "%s", field_text(r, "error"));
    else if (podman && gpus && !field_true(r, "cdi"))
        row(c, name, ROW_WARN, "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            "%s%s; no CDI description of the GPUs, so jobs with an image get no GPU",
            version[0] ? version : "installed", how);
    else
        row(c, name, ROW_OK, "", "%s%s%s", version[0] ? version : "installed", how,
            !gpus ? "" : podman ? ", GPUs by CDI" : strcmp(name, "docker") == 0 ? ", GPUs by --gpus" : ", GPUs");
}

static void check_containers(struct checkup *c)
{
    size_t i;
    const json_t *r;
    json_array_foreach (json_object_get(c->facts, "containers"), i, r)
        check_container(c, r);
}

/* Rows reported at the start of an attempt: failures, and warnings about this job. */
static bool concerns_attempt(const json_t *r)
{
    static const char *const checks[] = {"checkpoints", "time", "environment"};
    if (strcmp(field_text(r, "status"), "fail") == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        if (strcmp(field_text(r, "check"), checks[i]) == 0)
            return strcmp(field_text(r, "status"), "warn") == 0;
    return false;
}

/* A program that does not start reports a better error when it is started. */
static bool of_two_versions(const json_t *looked)
{
    return field_text(json_object_get(looked, "versions"), "jobctl-train")[0];
}

json_t *doctor_preflight(int *rc, const char *train, const json_t *facts, const json_t *spec,
                         const char *dir, const json_t *history, struct err *err)
{
    size_t i;
    json_t *r, *rows = json_array();
    const bool engine = json_is_object(json_object_get(spec, "train"));
    json_t *looked = doctor_look(engine ? train : NULL, spec, NULL, dir);
    if (looked && history) {
        json_object_set(looked, "step_ms", json_object_get(history, "step_ms"));
        json_object_set(looked, "last_step", json_object_get(history, "last_step"));
    }
    json_t *answer = looked ? doctor_check(facts, spec, looked) : NULL;
    *rc = 0;
    json_array_foreach(json_object_get(answer, "rows"), i, r)
    {
        if (concerns_attempt(r))
            json_array_append(rows, r);
        if (strcmp(field_text(r, "check"), "programs") == 0 &&
            strcmp(field_text(r, "status"), "fail") == 0 && of_two_versions(looked) &&
            engine)
            *rc = err_set(err, ERR_CONFLICT, "%s: %s", field_text(r, "seen"), field_text(r, "todo"));
    }
    json_decref(looked);
    json_decref(answer);
    const json_t *first = json_array_get(rows, 0);
    json_t *body = first ? json_make("{s:o, s:O}", "text",
                                     json_text_f("%s: %s", field_text(first, "check"),
                                                 field_text(first, "seen")), "rows", rows)
                         : NULL;
    json_decref(rows);
    return body;
}

json_t *doctor_check(const json_t *facts, const json_t *spec, const json_t *looked)
{
    static void (*const of_node[])(struct checkup *) = {
        check_programs, check_processors, check_machine, check_memory, check_shm, check_disk, doctor_check_gpus,
        check_network, check_rdma, check_clock, check_session, check_containers,
    };
    struct checkup c = {.facts = facts, .spec = spec, .looked = looked};
    doctor_rows_init(&c.rows);
    for (size_t i = 0; i < ARRAY_LEN(of_node); i++)
        of_node[i](&c);
    if (spec)
        doctor_check_job(&c);
    return doctor_rows_end(&c.rows);
}
