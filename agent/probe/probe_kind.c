/* SPDX-License-Identifier: Apache-2.0 */
/* probe_kind.c - facts about the kind of machine, its time limit, container and environment
 *
 * A daemon started elsewhere may lack the telltale variables in its environment, so paths are
 * checked too.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "agent/os/sysroot.h"
#include "agent/probe/probe.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { HOUR_S = 3600 };

/* --- host kind ----------------------------------------------------------------------------- */

/* In order of precedence: a Colab Enterprise VM has Colab's signs too. limit_s: the provider's
 * published time limit of the machine; 0 = none published. */
static const struct kind {
    const char *name;
    const char *variable, *value; /* value NULL: any */
    const char *path;             /* or NULL */
    int64_t     limit_s;
} kinds[] = {
    {"colab-enterprise", "VERTEX_PRODUCT", "COLAB_ENTERPRISE", NULL, 18 * HOUR_S},
    {"vertex", "VERTEX_PRODUCT", NULL, NULL, 0},
    {"kaggle", "KAGGLE_KERNEL_RUN_TYPE", NULL, "/kaggle/working", 12 * HOUR_S},
    {"colab", "COLAB_RELEASE_TAG", NULL, "/content/sample_data", 12 * HOUR_S},
    {"colab", "COLAB_GPU", NULL, NULL, 12 * HOUR_S},
    {"sagemaker", "SM_CURRENT_HOST", NULL, "/opt/ml/metadata/resource-metadata.json", 0},
    {"vertex", "CLOUD_ML_PROJECT_ID", NULL, NULL, 0},
    {"slurm", "SLURM_JOB_ID", NULL, NULL, 0},
    {"plain", NULL, NULL, NULL, 0},
};

static bool is_kind(const struct kind *k)
{
    const char *have = k->variable ? getenv(k->variable) : NULL;
    if (have && *have && (!k->value || strcmp(have, k->value) == 0))
        return true;
    return !k->variable || (k->path && sysroot_has(k->path));
}

/* When the machine will end, as far as known. */
static json_t *session(const struct kind *k)
{
    const char *end = getenv("SLURM_JOB_END_TIME");
    int64_t age = sysroot_number("/proc/uptime");
    if (strcmp(k->name, "slurm") == 0 && end && atoll(end) > 0)
        return json_make("{s:n, s:n, s:I}", "limit_s", "age_s", "ends_at_s", (json_int_t)atoll(end));
    if (k->limit_s == 0)
        return json_null();
    return json_make("{s:I, s:o, s:n}", "limit_s", (json_int_t)k->limit_s, "age_s",
                     age < 0 ? json_null() : json_integer((json_int_t)age), "ends_at_s");
}

/* --- container and virtual machine --------------------------------------------------------- */

static json_t *container(void)
{
    char name[64];
    if (getenv("KUBERNETES_SERVICE_HOST"))
        return json_string("kubernetes");
    if (sysroot_has("/.dockerenv"))
        return json_string("docker");
    if (sysroot_has("/run/.containerenv"))
        return json_string("podman");
    if (getenv("APPTAINER_CONTAINER") || getenv("SINGULARITY_CONTAINER"))
        return json_string("apptainer");
    sysroot_line(name, sizeof(name), "/run/systemd/container");
    return name[0] ? json_string(name) : json_null();
}

static bool is_wsl(void)
{
    char version[512];
    sysroot_line(version, sizeof(version), "/proc/version");
    return strcasestr(version, "microsoft") || sysroot_has("/dev/dxg");
}

/* true, false, or null if the CPU does not report it. */
static json_t *is_virtual(void)
{
    char flags[8192];
    sysroot_value(flags, sizeof(flags), "/proc/cpuinfo", "flags");
    if (strstr(flags, " hypervisor"))
        return json_true();
    return flags[0] ? json_false() : json_null();
}

static bool count_one(void *arg, const char *name)
{
    (void)name;
    ++*(int *)arg;
    return true;
}

/* Does an IOMMU translate device accesses?  An empty class means no, a missing one unknown. */
static json_t *iommu(void)
{
    int units = 0;
    if (!sysroot_has("/sys/class/iommu"))
        return json_null();
    sysroot_each("/sys/class/iommu", count_one, &units);
    return json_boolean(units > 0);
}

static json_t *vendor(void)
{
    char maker[128], product[128];
    sysroot_line(maker, sizeof(maker), "/sys/class/dmi/id/sys_vendor");
    sysroot_line(product, sizeof(product), "/sys/class/dmi/id/product_name");
    if (!maker[0] && !product[0])
        return json_null();
    return json_text_f("%s%s%s", maker, maker[0] && product[0] ? " " : "", product);
}

/* --- the environment that ranks inherit ---------------------------------------------------- */

extern char **environ;

/* Variables of NCCL and CUDA, others that determine the visible GPUs, and those that a plan sets only where they are
 * unset. */
static bool matters(const char *entry)
{
    static const char *const prefixes[] = {"NCCL_", "CUDA_", "NVIDIA_VISIBLE_DEVICES=",
                                           "TORCH_NCCL_", "OMP_NUM_THREADS=", "PYTHONUNBUFFERED="};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void add_entry(json_t *out, const char *entry)
{
    size_t len = strcspn(entry, "=");
    char name[128];
    if (entry[len] != '=' || len >= sizeof(name))
        return;
    snprintf(name, sizeof(name), "%.*s", (int)len, entry);
    json_t *value = json_string(entry + len + 1);
    if (value) /* NULL: not valid UTF-8 */
        json_object_set_new(out, name, value);
}

json_t *probe_environment(char *const *environment)
{
    json_t *out = json_object();
    for (char *const *e = environment; *e; e++)
        if (matters(*e))
            add_entry(out, *e);
    return out;
}

/* NCCL reads NAME=VALUE lines from these files for variables not set in the environment. */
static void add_conf(json_t *out, const char *path)
{
    char line[1024];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\r\n")] = '\0';
        const char *p = line + strspn(line, " \t");
        if (strncmp(p, "NCCL_", 5) == 0)
            add_entry(out, p);
    }
    if (f)
        fclose(f);
}

static json_t *nccl_conf(void)
{
    char path[4096];
    const char *home = getenv("HOME");
    json_t *out = json_object();
    sysroot_path(path, sizeof(path), "/etc/nccl.conf");
    add_conf(out, path);
    if (home && (size_t)snprintf(path, sizeof(path), "%s/.nccl.conf", home) < sizeof(path))
        add_conf(out, path);
    return out;
}

int probe_kind(json_t *facts)
{
    const struct kind *k = kinds;
    while (!is_kind(k))
        k++;
    json_t *found = json_make(
        "{s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "host_kind", k->name, "session",
        session(k), "container", container(), "virtual", is_virtual(), "wsl", (int)is_wsl(),
        "iommu", iommu(), "vendor", vendor(), "environment", probe_environment(environ), "nccl_conf",
        nccl_conf());
    int rc = found ? json_object_update(facts, found) : -1;
    json_decref(found);
    return rc;
}
