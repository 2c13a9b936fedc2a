/* SPDX-License-Identifier: Apache-2.0 */
/* probe_host.c - processors, memory, disk, and what kind of machine this is */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/probe.h"
#include "engine/cgroup.h"

/* The first line of a file without its newline; "" when there is none. */
static void first_line(const char *path, char *out, size_t size)
{
    out[0] = '\0';
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    if (!fgets(out, (int)size, f))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    fclose(f);
}

static int allowed_cpus(void)
{
    /* More than the 1024 of a plain cpu_set_t. */
    cpu_set_t *set = CPU_ALLOC(8192);
    size_t size = CPU_ALLOC_SIZE(8192);
    int n = 0;
    if (set && sched_getaffinity(0, size, set) == 0)
        n = CPU_COUNT_S(size, set);
    if (set)
        CPU_FREE(set);
    return n > 0 ? n : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* The least value of a limit from our group up to the root; parse() returns < 0 for none. */
static double least_limit(const char *file, double (*parse)(const char *))
{
    char dir[1100], path[1200], line[128];
    double least = -1;
    cgroup_dir(dir, sizeof(dir));
    while (strlen(dir) >= strlen("/sys/fs/cgroup")) {
        snprintf(path, sizeof(path), "%s/%s", dir, file);
        first_line(path, line, sizeof(line));
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
    char quota[64], period[64];
    first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof(quota));
    first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof(period));
    return atof(quota) > 0 && atof(period) > 0 ? atof(quota) / atof(period) : -1;
}

static void cpu_model(char *out, size_t size)
{
    char line[256];
    snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " "));
            break;
        }
    }
    if (f)
        fclose(f);
}

static json_int_t free_bytes(const char *path, bool total)
{
    struct statvfs v;
    if (!path || statvfs(path, &v) < 0)
        return -1;
    return (json_int_t)(total ? v.f_blocks : v.f_bavail) * (json_int_t)v.f_frsize;
}

/* Signs in the environment may be missing in a daemon, so paths count too. */
static const char *notebook_kind(void)
{
    const char *vertex = getenv("VERTEX_PRODUCT");
    if (vertex && *vertex)
        return "vertex";
    if (getenv("KAGGLE_KERNEL_RUN_TYPE") || access("/kaggle/working", F_OK) == 0)
        return "kaggle";
    if (getenv("COLAB_RELEASE_TAG") || getenv("COLAB_GPU") ||
        access("/content/sample_data", F_OK) == 0)
        return "colab";
    if (getenv("SM_CURRENT_HOST") || access("/opt/ml/metadata/resource-metadata.json", F_OK) == 0)
        return "sagemaker";
    return NULL;
}

static json_t *number_or_null(double v)
{
    return v < 0 ? json_null() : json_real(v);
}

static json_t *bytes_or_null(json_int_t v)
{
    return v < 0 ? json_null() : json_integer(v);
}

int probe_host(json_t *facts, const char *disk)
{
    struct utsname u;
    struct sysinfo info;
    char boot[64], model[128];
    if (uname(&u) < 0 || sysinfo(&info) < 0)
        return -1;
    first_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
    cpu_model(model, sizeof(model));
    const char *kind = notebook_kind();
    json_t *host = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:s, s:I, s:o, s:o, s:o, s:o, s:s, s:o}", "hostname", u.nodename,
        "boot_id", boot, "arch", u.machine, "kernel", u.release, "cpus", allowed_cpus(),
        "cpu_model", model, "memory_bytes", (json_int_t)info.totalram * (json_int_t)info.mem_unit,
        "memory_limit_bytes", bytes_or_null((json_int_t)least_limit("memory.max", parse_bytes)),
        "cgroup_cpus", number_or_null(cpu_quota()), "shm_bytes",
        bytes_or_null(free_bytes("/dev/shm", true)), "disk_free_bytes",
        bytes_or_null(free_bytes(disk, false)), "disk", disk ? disk : "", "notebook",
        kind ? json_string(kind) : json_null());
    int rc = host ? json_object_update(facts, host) : -1;
    json_decref(host);
    return rc;
}
