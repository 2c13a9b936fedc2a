/* SPDX-License-Identifier: Apache-2.0 */
/* probe_host.c - facts about CPUs, memory, disk and the resource limits of this process */
#include <stdbool.h>
#include <stdint.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/os/cpu_list.h"
#include "agent/os/sysroot.h"
#include "agent/probe/probe.h"
#include "engine/base/cgroup.h"
#include "engine/base/json_make.h"

static json_t *number_or_null(double v)
{
    return v < 0 ? json_null() : json_real(v);
}

static json_t *integer_or_null(int64_t v)
{
    return v < 0 ? json_null() : json_integer((json_int_t)v);
}

static json_t *text_or_null(const char *text)
{
    return text[0] ? json_text(text) : json_null();
}

/* --- CPUs --------------------------------------------------------------------------------- */

static bool add_numa_node(void *arg, const char *name)
{
    char path[128], cpus[512];
    char *end;
    if (strncmp(name, "node", 4) != 0)
        return true;
    long node = strtol(name + 4, &end, 10);
    if (end == name + 4 || *end)
        return true;
    snprintf(path, sizeof(path), "/sys/devices/system/node/%.32s/cpulist", name);
    sysroot_line(cpus, sizeof(cpus), path);
    json_array_append_new(arg, json_make("{s:i, s:s}", "node", (int)node, "cpus", cpus));
    return true;
}

static void add_cpus(json_t *facts)
{
    char list[1024], model[128];
    sysroot_value(list, sizeof(list), "/proc/self/status", "Cpus_allowed_list");
    if (!list[0])
        sysroot_line(list, sizeof(list), "/sys/devices/system/cpu/online");
    sysroot_value(model, sizeof(model), "/proc/cpuinfo", "model name");
    int cpus = cpu_list_count(list);
    if (cpus <= 0)
        cpus = sysroot_replayed() ? 1 : (int)sysconf(_SC_NPROCESSORS_ONLN);
    json_t *numa = json_array();
    sysroot_each("/sys/devices/system/node", add_numa_node, numa);
    json_object_set_new(facts, "cpus", json_integer(cpus));
    json_object_set_new(facts, "cpu_list", text_or_null(list));
    json_object_set_new(facts, "cpu_model", json_text(model[0] ? model : "unknown"));
    json_object_set_new(facts, "numa", numa);
}

/* --- limits -------------------------------------------------------------------------------- */

/* The smallest value of a limit from this process's cgroup up to the root; parse() returns < 0
 * for none. */
static double least_limit(const char *file, double (*parse)(const char *))
{
    char dir[1100] = "/sys/fs/cgroup", path[1200], line[128];
    double least = -1;
    if (!sysroot_replayed()) /* a recording has only the root cgroup */
        cgroup_dir(dir, sizeof(dir));
    while (strlen(dir) >= strlen("/sys/fs/cgroup")) {
        snprintf(path, sizeof(path), "%s/%s", dir, file);
        sysroot_line(line, sizeof(line), path);
        double v = line[0] ? parse(line) : -1;
        if (v >= 0 && (least < 0 || v < least))
            least = v;
        char *slash = strrchr(dir, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    return least;
}

static double parse_cpu_max(const char *line)
{
    double quota, period;
    return sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period : -1;
}

static double parse_bytes(const char *line)
{
    double v;
    return sscanf(line, "%lf", &v) == 1 ? v : -1;
}

static double cpu_quota(void)
{
    double v = least_limit("cpu.max", parse_cpu_max);
    if (v >= 0)
        return v;
    int64_t quota = sysroot_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    int64_t period = sysroot_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    return quota > 0 && period > 0 ? (double)quota / (double)period : -1;
}

/* A number of bytes, or the word "unlimited". */
static json_t *memlock(void)
{
    char line[128];
    sysroot_value(line, sizeof(line), "/proc/self/limits", "Max locked memory");
    line[strcspn(line, " ")] = '\0';
    if (strcmp(line, "unlimited") == 0)
        return json_text(line);
    return line[0] ? json_integer(strtoll(line, NULL, 10)) : json_null();
}

/* --- memory and disk ----------------------------------------------------------------------- */

static int64_t memory_bytes(void)
{
    char line[64];
    sysroot_value(line, sizeof(line), "/proc/meminfo", "MemTotal");
    return line[0] ? strtoll(line, NULL, 10) * 1024 : -1;
}

static int64_t fs_bytes(const char *path, bool total)
{
    struct statvfs v;
    if (!path || statvfs(path, &v) < 0)
        return -1;
    return (int64_t)(total ? v.f_blocks : v.f_bavail) * (int64_t)v.f_frsize;
}

/* In a recording: the size in the mount options, "size=65536k". */
static int64_t mounted_bytes(const char *mount)
{
    char options[512], *end;
    sysroot_value(options, sizeof(options), "/proc/mounts", mount);
    const char *size = strstr(options, "size=");
    int64_t v = size ? strtoll(size + 5, &end, 10) : -1;
    return !size ? -1 : *end == 'k' ? v << 10 : *end == 'm' ? v << 20 : *end == 'g' ? v << 30 : v;
}

static int64_t shm_bytes(void)
{
    return sysroot_replayed() ? mounted_bytes("tmpfs /dev/shm") : fs_bytes("/dev/shm", true);
}

/* The device number of the file system, "0:25": containers of one machine may have different
 * ones. */
static json_t *shm_device(void)
{
    char path[PATH_MAX], line[1024], device[32] = "", where[256], found[32] = "";
    sysroot_path(path, sizeof(path), "/proc/self/mountinfo");
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "%*s %*s %31s %*s %255s", device, where) == 2 &&
            strcmp(where, "/dev/shm") == 0)
            snprintf(found, sizeof(found), "%s", device);
    if (f)
        fclose(f);
    return found[0] ? json_text(found) : json_null();
}

/* --- everything --------------------------------------------------------------------------- */

int probe_host(json_t *facts, const char *disk)
{
    struct utsname u;
    char host[128], boot[64], kernel[128];
    if (uname(&u) < 0)
        return -1;
    sysroot_line(host, sizeof(host), "/proc/sys/kernel/hostname");
    sysroot_line(boot, sizeof(boot), "/proc/sys/kernel/random/boot_id");
    sysroot_line(kernel, sizeof(kernel), "/proc/sys/kernel/osrelease");
    json_t *host_facts = json_make(
        "{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "hostname",
        host[0] ? host : u.nodename, "boot_id", boot, "arch", u.machine, "kernel",
        kernel[0] ? kernel : u.release, "memory_bytes", integer_or_null(memory_bytes()),
        "memory_limit_bytes",
        integer_or_null((int64_t)least_limit("memory.max", parse_bytes)), "cgroup_cpus",
        number_or_null(cpu_quota()), "memlock_bytes", memlock(), "shm_bytes",
        integer_or_null(shm_bytes()), "shm_device", shm_device(), "disk_free_bytes", integer_or_null(fs_bytes(disk, false)),
        "disk", disk ? disk : "");
    int rc = host_facts ? json_object_update(facts, host_facts) : -1;
    json_decref(host_facts);
    add_cpus(facts);
    return rc;
}
