/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_engine.c - what the engine reports about itself and a spec; disk space; see doctor.h */
#include <arpa/inet.h>
#include <dirent.h>
#include <limits.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "agent/doctor/doctor.h"
#include "agent/container/container_try.h"
#include "agent/os/hub_query.h"
#include "agent/os/subprocess.h"
#include "agent/os/sysroot.h"
#include "agent/plan/gpu_selftest.h"
#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "agent/plan/probe_cache.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/contract/manifest.h"

/* Counting a large data set takes long; a version does not. */
enum { PATIENCE_MS = 60000, VERSION_MS = 5000 };

/* "jobctl-train 0.2.0\nprocessor: ...; kernels: cpu-avx2" */
static void read_version(json_t *looked, const char *said)
{
    char version[64] = "", kernels[64] = "";
    const char *told = strstr(said, "kernels: ");
    if (sscanf(said, "%*s %63s", version) == 1)
        json_object_set_new(json_object_get(looked, "versions"), "jobctl-train", json_text(version));
    if (told && sscanf(told, "kernels: %63s", kernels) == 1)
        json_object_set_new(looked, "kernels", json_text(kernels));
}

/* The engine's version and kernels, or the error with which it fails to start. */
static void ask_version(json_t *looked, const char *train)
{
    struct buf out[2] = {{0}, {0}};
    const struct subprocess_spec s = {.argv = (const char *const[]){train, "version", "-v", NULL},
                                      .out = SUBPROCESS_PIPE,
                                      .err = SUBPROCESS_PIPE};
    if (subprocess_run(&s, out, VERSION_MS, NULL) == 0)
        read_version(looked, subprocess_text(&out[0]));
    else if (out[1].data)
        json_object_set_new(looked, "start_error", json_text_n(out[1].data, strcspn(out[1].data, "\n")));
    buf_fini(&out[0]);
    buf_fini(&out[1]);
}

static void ask_train(json_t *looked, const char *train, const char *spec_path)
{
    struct buf out[2] = {{0}, {0}};
    const struct subprocess_spec s = {
        .argv = (const char *const[]){train, "plan", "--json", "--spec", spec_path, NULL},
        .out = SUBPROCESS_PIPE,
        .err = SUBPROCESS_PIPE};
    int code = subprocess_run(&s, out, PATIENCE_MS, NULL);
    json_t *plan = code == 0 ? json_loads(subprocess_text(&out[0]), 0, NULL) : NULL;
    if (plan) {
        json_object_set_new(looked, "train", plan);
    } else {
        char *said = out[1].data ? out[1].data : (char[]){"jobctl-train wrote no output"};
        said[strcspn(said, "\n")] = '\0';
        static const char who[] = "jobctl-train plan: ";
        const size_t skip = strncmp(said, who, sizeof(who) - 1) == 0 ? sizeof(who) - 1 : 0;
        json_object_set_new(looked, "train_error", json_text(said + skip));
    }
    buf_fini(&out[0]);
    buf_fini(&out[1]);
}

/* Models of a hub: in the cache of this node, or to be had. */
static void ask_models(json_t *looked, const json_t *spec)
{
    struct err err = {0};
    json_t *answer = hub_query(spec, NULL, &err);
    if (answer || err.code)
        json_object_set_new(looked, "models", answer ? answer : json_make("{s:s}", "error", err.text));
}

/* Free space for checkpoints: in the nearest existing parent directory. */
static void look_at_disk(json_t *looked, const char *dir)
{
    char path[PATH_MAX];
    struct statvfs v;
    snprintf(path, sizeof(path), "%s", dir);
    while (statvfs(path, &v) < 0) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            return;
        *slash = '\0';
    }
    json_object_set_new(looked, "checkpoint_dir", json_text(path));
    json_object_set_new(looked, "checkpoint_free_bytes", json_integer((json_int_t)v.f_bavail * (json_int_t)v.f_frsize));
}

/* Size of a checkpoint, from any existing one. */
static void look_at_checkpoints(json_t *looked, const char *dir)
{
    char path[PATH_MAX];
    struct manifest m;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' ||
            (size_t)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= sizeof(path) ||
            manifest_read(&m, path, NULL) < 0)
            continue;
        json_object_set_new(looked, "checkpoint_bytes", json_integer((json_int_t)m.bytes));
        break;
    }
    if (d)
        closedir(d);
}

static json_t *clock_synchronised(void)
{
    struct timex t = {.modes = 0};
    int state = sysroot_replayed() ? -1 : adjtimex(&t);
    return state < 0 ? json_null() : json_boolean(state != TIME_ERROR);
}

/* The other `hosts` of the job, as this machine resolves them. */
static json_t *find_peers(const json_t *hosts)
{
    size_t i;
    const json_t *host;
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    json_t *out = json_array();
    json_array_foreach(hosts, i, host)
    {
        char text[INET_ADDRSTRLEN] = "", self[256] = "";
        struct addrinfo *found = NULL;
        const char *name = json_string_value(host);
        gethostname(self, sizeof(self) - 1);
        if (!name || strcmp(name, self) == 0)
            continue;
        if (getaddrinfo(name, NULL, &hints, &found) == 0) {
            const struct sockaddr_in *in = (const void *)found->ai_addr;
            inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
            freeaddrinfo(found);
        }
        json_array_append_new(out, json_make("{s:s, s:o}", "host", name, "address",
                                             text[0] ? json_text(text) : json_null()));
    }
    return out;
}

json_t *doctor_look(const char *train, const json_t *spec, const char *spec_path, const char *dir)
{
    const char *own = field_text(json_object_get(spec, "checkpoint"), "dir");
    bool engine = json_is_object(json_object_get(spec, "train"));
    json_t *looked = json_make("{s:{s:s}, s:o, s:I}", "versions", "jobctl-agent", JOBCTL_VERSION, "clock_synchronised",
                               clock_synchronised(), "now_s", (json_int_t)time(NULL));
    if (looked && train) {
        json_object_set_new(json_object_get(looked, "versions"), "jobctl-train", json_null());
        ask_version(looked, train);
    }
    if (looked && spec_path)
        json_object_set_new(looked, "peers", find_peers(json_object_get(spec, "hosts")));
    dir = own[0] && strcmp(own, "auto") != 0 ? own : dir;
    if (looked && engine) {
        look_at_disk(looked, dir);
        look_at_checkpoints(looked, dir);
    }
    if (looked && spec_path)
        ask_models(looked, spec);
    if (looked && engine && spec_path && train)
        ask_train(looked, train, spec_path);
    return looked;
}

void doctor_try(json_t *facts, const char *train, const char *state)
{
    json_t *plan = NULL, *any = json_make("{s:s}", "run", "true");
    container_try(json_object_get(facts, "containers"));
    gpu_selftest_try(facts, NULL, train, GPU_SELFTEST_ALL_MS);
    if (plan_make(&plan, facts, any, NULL) == 0)
        gpu_selftest_sum(facts, plan, train, true, GPU_SELFTEST_ALL_MS);
    if (state)
        probe_cache_keep(facts, state);
    json_decref(plan);
    json_decref(any);
}
