/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c - see nccl.h */
#include "engine/dist/nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

/* Versions with known hangs. */
static const struct {
    int         from, to; /* inclusive */
    const char *what;
} doubtful[] = {
    {21800, 21899, "can hang when a collective is aborted; 2.19 or newer does not"},
    {22501, 22501, "can hang when a collective is aborted; 2.26.2 or newer does not"},
    {22600, 22699, "is known to hang at random with non-blocking communicators; 2.27 is not"},
};

static int find_functions(struct nccl *n, void *lib, const char *file, struct err *err)
{
    char missing[200] = "";
#define NCCL_FIND(name, result, arguments)                                                \
    {                                                                                     \
        void *symbol = dlsym(lib, "nccl" #name);                                          \
        memcpy(&n->name, &symbol, sizeof(symbol)); /* data to function: not ISO C */      \
        if (!symbol && strlen(missing) + sizeof(", nccl" #name) < sizeof(missing))        \
            strcat(strcat(missing, missing[0] ? ", nccl" : "nccl"), #name);               \
    }
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    if (!missing[0])
        return 0;
    return err_set(err, ERR_NO_DEVICE, "%.120s lacks %s: it is not NCCL 2.18 or newer", file, missing);
}

static int check_version(struct nccl *n, const char *file, struct err *err)
{
    if (n->GetVersion(&n->version) != NCCL_SUCCESS)
        return err_set(err, ERR_NO_DEVICE, "%.120s does not report its version", file);
    const int v = n->version;
    snprintf(n->name, sizeof(n->name), "NCCL %d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
    if (n->version < NCCL_OLDEST)
        return err_set(err, ERR_NO_DEVICE, "%s (%.120s) is too old: several GPUs need 2.18 or newer", n->name, file);
    for (size_t i = 0; i < sizeof(doubtful) / sizeof(doubtful[0]); i++)
        if (n->version >= doubtful[i].from && n->version <= doubtful[i].to)
            snprintf(n->note, sizeof(n->note), "%s %s", n->name, doubtful[i].what);
    return 0;
}

int nccl_load(const struct nccl **out, const char *file, struct err *err)
{
    static struct nccl loaded;
    const char *named = getenv("JOBCTL_NCCL");
    struct nccl n = {0};
    if (loaded.version) {
        *out = &loaded;
        return 0;
    }
    file = file ? file : named && *named ? named : "libnccl.so.2";
    void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return err_set(err, ERR_NO_DEVICE, "several GPUs need NCCL, which cannot be loaded: %s; "
                       "install it, or set JOBCTL_NCCL to its file", dlerror());
    if (find_functions(&n, lib, file, err) < 0 || check_version(&n, file, err) < 0) {
        dlclose(lib);
        return -1;
    }
    loaded = n;
    *out = &loaded;
    return 0;
}
