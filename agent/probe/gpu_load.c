/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_load.c - see gpu_load.h */
#include "agent/probe/gpu_load.h"

#include <stdbool.h>

#include "agent/probe/nvml.h"
#include "agent/probe/probe.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

struct gpu {
    nvml_device device;
    unsigned    index;
    char        uuid[NVML_TEXT], name[NVML_TEXT];
};

static int open_all(struct nvml *n, struct gpu gpus[PROBE_GPUS_MOST], struct err *err)
{
    unsigned count = 0;
    int found = 0;
    if (nvml_open(n) < 0 || n->init() != NVML_OK)
        return err_set(err, ERR_NO_DEVICE, "there is no NVIDIA driver here");
    n->count(&count);
    for (unsigned i = 0; i < count && found < PROBE_GPUS_MOST; i++) {
        struct gpu *g = &gpus[found];
        *g = (struct gpu){.index = i};
        if (n->handle(i, &g->device) != NVML_OK || n->uuid(g->device, g->uuid, sizeof(g->uuid)) != NVML_OK)
            continue;
        n->name(g->device, g->name, sizeof(g->name));
        found++;
    }
    return found ? found : err_set(err, ERR_NO_DEVICE, "no GPU responds");
}

static bool is_lost(const struct nvml *n, const struct gpu *g)
{
    char uuid[NVML_TEXT];
    return n->uuid(g->device, uuid, sizeof(uuid)) == NVML_LOST;
}

static json_t *load_of(const struct nvml *n, nvml_device d)
{
    struct nvml_utilization u = {0, 0};
    return n->utilization && n->utilization(d, &u) == NVML_OK ? json_integer(u.gpu) : json_null();
}

static json_t *celsius_of(const struct nvml *n, nvml_device d)
{
    unsigned celsius = 0;
    return n->temperature && n->temperature(d, NVML_TEMPERATURE_GPU, &celsius) == NVML_OK ? json_integer(celsius) : json_null();
}

static json_t *watts_of(const struct nvml *n, nvml_device d)
{
    unsigned milliwatts = 0;
    return n->power && n->power(d, &milliwatts) == NVML_OK ? json_real(milliwatts / 1000.0) : json_null();
}

static void add_memory(json_t *row, const struct nvml *n, nvml_device d)
{
    struct nvml_memory m = {0, 0, 0};
    const bool known = n->memory(d, &m) == NVML_OK;
    json_object_set_new(row, "memory_used_bytes", known ? json_integer((json_int_t)m.used) : json_null());
    json_object_set_new(row, "memory_bytes", known ? json_integer((json_int_t)m.total) : json_null());
}

static void print_gpu(FILE *out, const struct nvml *n, const struct gpu *g)
{
    const bool lost = is_lost(n, g);
    json_t *row = json_make("{s:s, s:i, s:s, s:b}", "uuid", g->uuid, "index", (int)g->index, "name", g->name, "lost",
                            (int)lost);
    if (row && !lost) {
        json_object_set_new(row, "load", load_of(n, g->device));
        add_memory(row, n, g->device);
        json_object_set_new(row, "celsius", celsius_of(n, g->device));
        json_object_set_new(row, "watts", watts_of(n, g->device));
        json_object_set_new(row, "processes", probe_processes(n, g->device));
    }
    if (row && json_dumpf(row, out, JSON_COMPACT) == 0)
        fputc('\n', out);
    json_decref(row);
}

int gpu_load_print(FILE *out, struct err *err)
{
    static struct gpu gpus[PROBE_GPUS_MOST];
    struct nvml n;
    const int count = open_all(&n, gpus, err);
    if (count < 0)
        return -1;
    for (;;) {
        for (int i = 0; i < count; i++)
            print_gpu(out, &n, &gpus[i]);
        if (fflush(out) != 0)
            return 0;
        clock_wait(-1, GPU_LOAD_MS);
    }
}
