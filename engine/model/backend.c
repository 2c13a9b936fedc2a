/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c - see backend.h */
#include "engine/model/backend.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/env.h"
#include "engine/base/err.h"
#include "engine/contract/install.h"
#include "engine/contract/progress.h"
#include "kernels/cuda.h"
#include "kernels/kernels.h"

#define PLUGIN "libjobctl_cuda.so"

static struct {
    const struct kern_ops *ops;  /* NULL: not chosen yet */
    const struct kern_streams *streams;
    const struct kern_graphs *graphs;
    const struct kern_profile *profile;
    void (*remember)(const char *file);
    bool                   bf16;
    char                   device[128];
    char                   note[600];
} chosen;

/* --- counting allocations instead of making them ---------------------------------------------- */

static struct {
    struct backend_count *to; /* NULL: allocations are real */
    struct kern_ops       ops;
} counting;

static void *no_alloc(size_t bytes)
{
    (void)bytes;
    return (void *)(uintptr_t)(1 << 20); /* aligned, not NULL, not mapped */
}

static void no_release(void *p)
{
    (void)p;
}

static void no_move(void *to, const void *from, size_t bytes)
{
    (void)to;
    (void)from;
    (void)bytes;
}

void backend_count_begin(struct backend_count *count, bool device, bool bf16)
{
    *count = (struct backend_count){{0}};
    counting.ops = *backend_ops();
    counting.ops.host = counting.ops.keeps = !device;
    counting.ops.narrow = device && bf16 ? 2 : sizeof(float);
    counting.ops.alloc = no_alloc;
    counting.ops.release = no_release;
    counting.ops.upload = counting.ops.download = no_move;
    counting.to = count;
}

void backend_count_end(void)
{
    counting.to = NULL;
}

static void count(enum backend_use use, size_t bytes)
{
    counting.to->bytes[use] += (int64_t)bytes;
}

/* --- real allocations ------------------------------------------------------------------------ */

const struct kern_ops *backend_ops(void)
{
    if (counting.to)
        return &counting.ops;
    return chosen.ops ? chosen.ops : kern_cpu();
}

const struct kern_streams *backend_streams(void)
{
    return chosen.streams;
}

const struct kern_graphs *backend_graphs(void)
{
    return chosen.graphs;
}

const struct kern_profile *backend_profile(void)
{
    return chosen.profile;
}

void backend_remember(const char *file)
{
    if (chosen.remember)
        chosen.remember(file);
}

bool backend_is_bf16(void)
{
    return chosen.bf16;
}

const char *backend_device(void)
{
    return chosen.device[0] ? chosen.device : "cpu";
}

const char *backend_note(void)
{
    return chosen.note;
}

int backend_check(const struct kern_ops *ops, struct err *err)
{
    char why[256];
    switch (ops->state(why, sizeof(why))) {
    case KERN_OK:
        return 0;
    case KERN_NO_MEMORY:
        return err_set(err, ERR_DEVICE_MEMORY, "out of GPU memory: %s; a smaller batch.micro needs "
                       "less", why);
    case KERN_BROKEN:
        return err_set(err, ERR_DEVICE, "the GPU failed: %s", why);
    case KERN_FAULT:
        break;
    }
    return err_set(err, ERR_CUDA, "a CUDA call failed: %s", why);
}

const char *backend_use_name(enum backend_use use)
{
    static const char *const names[USES] = {
        [USE_WEIGHTS] = "weights",         [USE_GRADIENTS] = "gradients",
        [USE_OPTIMIZER] = "optimizer state", [USE_EMA] = "averaged weights",
        [USE_ACTIVATIONS] = "activations", [USE_BACKWARD] = "backward pass",
        [USE_INPUTS] = "inputs",           [USE_PICTURES] = "drawing pictures",
        [USE_WORKSPACE] = "workspace",     [USE_EXCHANGE] = "exchange",
        [USE_HOST] = "copies in host memory",
    };
    return names[use];
}

static void no_memory(size_t bytes, enum backend_use use, struct err *err)
{
    err_set(err, ERR_MEMORY, "no memory for %.1f MiB of %s", (double)bytes / 0x1p20, backend_use_name(use));
}

void *backend_alloc(const struct kern_ops *ops, size_t bytes, enum backend_use use, struct err *err)
{
    void *p = ops->alloc(bytes);
    if (p && counting.to)
        count(use, bytes);
    if (!p && ops->host)
        no_memory(bytes, use, err);
    else if (!p)
        err_set(err, ERR_DEVICE_MEMORY, "out of GPU memory: %.1f MiB of %s do not fit; a "
                "smaller batch.micro needs less", (double)bytes / 0x1p20, backend_use_name(use));
    return p;
}

void *backend_host(size_t bytes, struct err *err)
{
    void *p = counting.to ? no_alloc(bytes) : calloc(1, bytes);
    if (p && counting.to)
        count(USE_HOST, bytes);
    if (!p)
        no_memory(bytes, USE_HOST, err);
    return p;
}

void backend_host_free(void *p)
{
    if (!counting.to)
        free(p);
}

/* NULL with a sentence if the plugin is missing or cannot be loaded. */
static void *load_plugin(struct err *err)
{
    static const char *const places[] = {PLUGIN, "../lib/" PLUGIN};
    const char *named = getenv("JOBCTL_CUDA");
    char path[PATH_MAX];
    bool found = named && *named;
    if (found)
        found = snprintf(path, sizeof(path), "%s", named) < (int)sizeof(path);
    for (size_t i = 0; !found && i < sizeof(places) / sizeof(places[0]); i++)
        found = install_path(path, sizeof(path), places[i]) && access(path, R_OK) == 0;
    if (!found) {
        err_set(err, ERR_NO_DEVICE, "%s is missing: it is neither beside this program nor in ../lib; build "
                "it on a machine with nvcc", PLUGIN);
        return NULL;
    }
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        err_set(err, ERR_NO_DEVICE, "the CUDA kernels cannot be loaded: %s", dlerror());
    return lib;
}

static kern_cuda_open_fn find_cuda(void *lib)
{
    kern_cuda_open_fn fn = NULL;
    void *symbol = dlsym(lib, "kern_cuda_open");
    memcpy(&fn, &symbol, sizeof(fn)); /* ISO C has no cast from data pointer to function pointer */
    return fn;
}

int backend_try_peers(struct kern_peer *p, struct err *err)
{
    kern_cuda_peer_fn fn = NULL;
    void *lib = load_plugin(err);
    if (!lib)
        return -1;
    void *symbol = dlsym(lib, "kern_cuda_peer");
    memcpy(&fn, &symbol, sizeof(fn));
    if (!fn)
        return err_set(err, ERR_NO_DEVICE, "%s has no kern_cuda_peer: it belongs to a different version", PLUGIN);
    if (fn(p) < 0)
        return err_set(err, ERR_NO_DEVICE, "the GPUs cannot be tested: %s", p->why);
    return 0;
}

enum wish { WISH_AUTO, WISH_FP32, WISH_BF16 };

/* Number of GPUs that the ranks of this node share, 0 = each has its own. */
static int shared_gpus(void)
{
    int gpus = 0;
    return env_int("JOBCTL_SHARED_GPUS", 0, &gpus, NULL) == 0 && gpus > 0 ? gpus : 0;
}

int backend_sharers(void)
{
    const int gpus = shared_gpus();
    int ranks = 1;
    if (!gpus || env_int("LOCAL_WORLD_SIZE", 1, &ranks, NULL) < 0)
        return 1;
    return (ranks + gpus - 1) / gpus;
}

/* The plugin stays loaded, whatever it answers. */
static int open_cuda(enum wish wish, struct err *err)
{
    static const char *const words[] = {
        [KERN_CUDA_OTHER_BUILD] = "the CUDA kernels and this program have different versions",
        [KERN_CUDA_NO_DRIVER] = "no NVIDIA driver",
        [KERN_CUDA_OLD_DRIVER] = "the NVIDIA driver is too old",
        [KERN_CUDA_NO_DEVICE] = "no GPU",
        [KERN_CUDA_NO_LIBRARY] = "cuBLASLt is missing",
        [KERN_CUDA_UNUSABLE] = "the GPU cannot be used",
        [KERN_CUDA_NO_BF16] = "the GPU has no bf16",
    };
    int local = 0;
    if (env_int("LOCAL_RANK", 0, &local, err) < 0)
        return -1;
    local = shared_gpus() ? local % shared_gpus() : local;
    struct kern_cuda c = {.ops_size = KERN_CUDA_SIZE, .device = local,
                          .precision = wish == WISH_FP32 ? KERN_FP32 : KERN_BF16};
    void *lib = load_plugin(err);
    if (!lib)
        return -1;
    const kern_cuda_open_fn entry = find_cuda(lib);
    if (!entry)
        return err_set(err, ERR_NO_DEVICE, "%s has no kern_cuda_open: it belongs to a different version", PLUGIN);
    int r = entry(&c);
    if (r == KERN_CUDA_NO_BF16 && wish == WISH_AUTO) {
        snprintf(chosen.note, sizeof(chosen.note), "computing in fp32: %s", c.why);
        c.precision = KERN_FP32;
        r = entry(&c);
    }
    if (r == KERN_CUDA_NO_BF16)
        return err_set(err, ERR_USAGE, "%s: %s; precision auto uses fp32 there", words[r], c.why);
    if (r != KERN_CUDA_READY) {
        const char *what = r > 0 && r <= KERN_CUDA_UNUSABLE ? words[r] : "CUDA is not usable";
        return err_set(err, ERR_NO_DEVICE, "%s: %s", what, c.why);
    }
    chosen.ops = c.ops;
    chosen.streams = c.streams;
    chosen.graphs = c.graphs;
    chosen.profile = c.profile;
    chosen.remember = c.remember;
    chosen.bf16 = c.precision == KERN_BF16;
    snprintf(chosen.device, sizeof(chosen.device), "%s", c.name);
    return 0;
}

static bool is(const char *word, const char *what)
{
    return strcmp(word ? word : "auto", what) == 0;
}

int backend_open(const char *backend, const char *precision, struct err *err)
{
    struct err why = {0};
    if (!is(backend, "auto") && !is(backend, "cpu") && !is(backend, "cuda"))
        return err_set(err, ERR_USAGE, "there is no backend \"%.40s\"; choose auto, cpu or cuda", backend);
    if (!is(precision, "auto") && !is(precision, "fp32") && !is(precision, "bf16"))
        return err_set(err, ERR_USAGE, "there is no precision \"%.40s\"; choose auto, fp32 or "
                       "bf16", precision);
    if (!is(backend, "cpu")) {
        const enum wish wish = is(precision, "fp32")   ? WISH_FP32
                               : is(precision, "bf16") ? WISH_BF16
                                                       : WISH_AUTO;
        if (open_cuda(wish, &why) == 0)
            return 0;
        if (is(backend, "cuda") || why.code == ERR_USAGE) {
            err_set(err, why.code, "%s", why.text);
            return -1;
        }
    }
    if (is(precision, "bf16"))
        return err_set(err, ERR_USAGE, "bf16 needs a GPU%s%s: use precision fp32",
                       why.text[0] ? ", and there is none: " : "", why.text);
    chosen.ops = kern_cpu();
    if (is(backend, "auto"))
        snprintf(chosen.note, sizeof(chosen.note), "running on the CPU: %s", why.text);
    return 0;
}
