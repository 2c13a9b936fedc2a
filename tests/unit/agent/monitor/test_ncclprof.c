/* SPDX-License-Identifier: Apache-2.0 */
/* test_ncclprof.c - libjobctl_ncclprof.so, called as NCCL 2.26, 2.27 and 2.28 call it
 *
 * A child loads it like NCCL does and plays a program with two ranks' communicators; the page is read
 * from outside.  The declarations here are the whole structs that NCCL passes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/contract/flight.h"

enum { COLL = 2, KERNEL_CH = 64 };

struct descr_v3 {
    uint8_t type;
    void *parentObj;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t commHash, seqNumber;
            const char *func;
            const void *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            const char *datatype;
            uint8_t nMaxChannels, nWarps;
            const char *algo, *proto;
        } coll;
        struct {
            uint8_t channelId;
        } kernelCh;
    } u;
};

struct descr_v4 {
    uint8_t type;
    void *parentObj;
    int rank;
    union {
        struct {
            uint64_t seqNumber;
            const char *func;
            const void *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            const char *datatype;
            uint8_t nChannels, nWarps;
            const char *algo, *proto;
        } coll;
        struct {
            uint8_t channelId;
            uint64_t pTimer;
        } kernelCh;
    } u;
};

struct descr_v5 {
    uint64_t type;
    void *parentObj;
    int rank;
    union {
        struct {
            uint64_t seqNumber;
            const char *func;
            const void *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            const char *datatype;
            uint8_t nChannels, nWarps;
            const char *algo, *proto;
            void *parentGroup;
        } coll;
        struct {
            uint8_t channelId;
            uint64_t pTimer;
        } kernelCh;
    } u;
};

struct profiler {
    const char *name;
    void (*init)(void); /* each version has another */
    int (*start)(void *context, void **handle, void *descr);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, void *args);
    int (*finalize)(void *context);
};

typedef int (*init_v3_fn)(void **, int *);
typedef int (*init_v4_fn)(void **, int *, const char *, uint64_t, int, int, int, void *);
typedef int (*init_v5_fn)(void **, uint64_t, int *, const char *, int, int, int, void *);

static char path[300], library[4200];
static int version;
static const struct profiler *p;

static void need(bool ok, int code)
{
    if (!ok)
        _exit(code);
}

static void *communicator(int nranks)
{
    void *context = NULL;
    int mask = 0;
    void (*init)(void) = p->init;
    if (version == 3)
        need(((init_v3_fn)init)(&context, &mask) == 0, 20);
    else if (version == 4)
        need(((init_v4_fn)init)(&context, &mask, "world", 77, 1, nranks, 0, NULL) == 0, 20);
    else
        need(((init_v5_fn)init)(&context, 77, &mask, "world", 1, nranks, 0, NULL) == 0, 20);
    need((mask & COLL) && (mask & KERNEL_CH), 21);
    return context;
}

static void *coll(void *context, const char *func, const char *datatype, size_t count, int channels)
{
    void *handle = NULL;
    struct descr_v3 d3 = {.type = COLL};
    struct descr_v4 d4 = {.type = COLL};
    struct descr_v5 d5 = {.type = COLL};
    d3.u.coll.func = d4.u.coll.func = d5.u.coll.func = func;
    d3.u.coll.datatype = d4.u.coll.datatype = d5.u.coll.datatype = datatype;
    d3.u.coll.count = d4.u.coll.count = d5.u.coll.count = count;
    d3.u.coll.nMaxChannels = 16;
    d4.u.coll.nChannels = d5.u.coll.nChannels = (uint8_t)channels;
    need(p->start(context, &handle, version == 3 ? (void *)&d3 : version == 4 ? (void *)&d4 : &d5) == 0, 22);
    return handle;
}

static void *kernel(void *context, void *of, int channel)
{
    void *handle = NULL;
    struct descr_v3 d3 = {.type = KERNEL_CH, .parentObj = of};
    struct descr_v4 d4 = {.type = KERNEL_CH, .parentObj = of};
    struct descr_v5 d5 = {.type = KERNEL_CH, .parentObj = of};
    d3.u.kernelCh.channelId = d4.u.kernelCh.channelId = d5.u.kernelCh.channelId = (uint8_t)channel;
    need(p->start(context, &handle, version == 3 ? (void *)&d3 : version == 4 ? (void *)&d4 : &d5) == 0, 23);
    return handle;
}

/* One whole collective on two channels, the second of which begins when the call has returned. */
static void whole(void *context, const char *func)
{
    void *c = coll(context, func, "ncclFloat16", 1000, 2);
    void *k0 = kernel(context, c, 0);
    p->stop(c);
    void *k1 = kernel(context, c, 1);
    p->record(k0, 22, NULL);
    p->stop(k0);
    p->stop(k1);
}

static void play(void)
{
    char name[32];
    snprintf(name, sizeof(name), "ncclProfiler_v%d", version);
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        fprintf(stderr, "%s\n", dlerror());
    need(lib != NULL, 10);
    p = dlsym(lib, name);
    need(p && strcmp(p->name, "jobctl") == 0, 11);
    void *all = communicator(2);
    void *part = communicator(1); /* of tensor parallelism, say: does not count */
    for (int i = 0; i < 3000; i++)
        whole(all, "AllReduce");
    whole(part, "AllGather");
    void *c = coll(all, "Broadcast", "ncclInt8", 64, 2); /* begins, and never ends */
    void *k = kernel(all, c, 0);
    p->stop(c);
    need(p->stop(NULL) == 0 && k != NULL, 12);
    p->finalize(part);
    _exit(0);
}

static void plays(int v)
{
    int status;
    struct flight *f;
    static struct flight_page page;
    assert_int_equal(flight_create(path, 0, 2, 1, NULL), 0);
    version = v;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("JOBCTL_FLIGHT", path, 1);
        setenv("WORLD_SIZE", "2", 1);
        play();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(flight_open(&f, path, NULL), 0);
    flight_read(f, &page);
    flight_close(f);
    unlink(path);
    assert_int_equal(page.pid, pid);
    assert_int_equal(flight_phase_of(&page), PHASE_FORWARD);
    assert_int_equal(page.coll_seq, 3001);
    assert_int_equal(page.coll_done_seq, 3000);
    assert_int_equal(page.coll_kind, COLL_BROADCAST);
    assert_int_equal(page.coll_bytes, 64);
}

static void version_3(void **s)
{
    (void)s;
    plays(3);
}

static void version_4(void **s)
{
    (void)s;
    plays(4);
}

static void version_5(void **s)
{
    (void)s;
    plays(5);
}

static void without_a_page_nothing_is_asked_for(void **s)
{
    (void)s;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        unsetenv("JOBCTL_FLIGHT");
        void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL), *context = NULL;
        int mask = 99;
        p = lib ? dlsym(lib, "ncclProfiler_v5") : NULL;
        need(p != NULL, 11);
        need(((init_v5_fn)p->init)(&context, 1, &mask, "", 1, 2, 0, NULL) == 0 && mask == 0, 12);
        need(p->finalize(context) == 0, 13);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%.200s/ncclprof.%d.flight", tmp ? tmp : "/tmp", (int)getpid());
    ssize_t n = readlink("/proc/self/exe", library, 4096);
    library[n > 0 ? n : 0] = '\0';
    char *objects = strstr(library, "/obj/tests/unit/");
    if (objects)
        *objects = '\0';
    strcat(library, "/lib/libjobctl_ncclprof.so");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_3),
        cmocka_unit_test(version_4),
        cmocka_unit_test(version_5),
        cmocka_unit_test(without_a_page_nothing_is_asked_for),
    };
    return cmocka_run_group_tests_name("ncclprof", tests, NULL, NULL);
}
