/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c - which call fails: the n-th of a kind, in one program, below one directory; see faults.h */
#include "tests/attack/faults.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FRAMES = 24, OWN_FRAMES = 3 };

static struct faults *faults;
static char           own_name[128];
/* Reached from malloc, which a lazily allocated variable of a thread would call. */
static __thread int   inside __attribute__((tls_model("initial-exec")));

/* $FAULTS.stack, $FAULTS.crash: who called, for the one who looks into what a hit has led to. */
static void tell_stack(const char *suffix)
{
    char file[4096];
    void *frames[FRAMES];
    snprintf(file, sizeof(file), "%s.%s", getenv("FAULTS"), suffix);
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    backtrace_symbols_fd(frames, backtrace(frames, FRAMES), fd);
    syscall(SYS_close, fd);
}

/* A crash is kept for the driver, then it goes on as it would have. */
static void on_crash(int number)
{
    if (faults && faults->crash[0] == '\0')
        snprintf(faults->crash, sizeof(faults->crash), "signal %d in %.100s", number, own_name);
    tell_stack("crash");
    raise(number);
}

static void watch_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    const struct sigaction once = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        sigaction(signals[i], &once, NULL);
}

/* argc and argv: what the C library gives each constructor. */
__attribute__((constructor)) static void open_page(int argc, char **argv)
{
    const char *file = getenv("FAULTS");
    void *frames[2];
    const int fd = file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    snprintf(own_name, sizeof(own_name), "%s %s", program_invocation_short_name, argc > 1 ? argv[1] : "");
    backtrace(frames, 2); /* loads the unwinder now, not in the middle of an allocation */
    void *page = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    faults = page == MAP_FAILED ? NULL : page;
    if (faults && strncmp(own_name, "jobctl", 6) == 0)
        watch_crashes();
}

static bool watched(enum fault_kind kind)
{
    return faults && !inside && (atomic_load(&faults->kinds) & (uint32_t)kind) &&
           strncmp(own_name, faults->program, strlen(faults->program)) == 0;
}

static bool is_below(const char *path)
{
    const size_t n = strlen(faults->below);
    return strncmp(path, faults->below, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* What a descriptor leads to; AT_FDCWD: the current directory. */
static void path_of(int fd, char path[4096])
{
    char link[64];
    snprintf(link, sizeof(link), fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, 4095);
    path[n > 0 ? n : 0] = '\0';
}

static void full_path(int dir, const char *path, char full[8192])
{
    char start[4096];
    if (path[0] == '/') {
        snprintf(full, 8192, "%s", path);
        return;
    }
    path_of(dir, start);
    snprintf(full, 8192, "%s/%s", start, path);
}

/* The places that called: the hash of the return addresses, which are the same each time without randomization. */
static uint64_t place(void)
{
    void *frames[FRAMES];
    uint64_t hash = 1469598103934665603ull;
    const int n = backtrace(frames, FRAMES);
    for (int i = OWN_FRAMES; i < n; i++)
        hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * 1099511628211ull;
    return hash | 1;
}

static bool is_new(uint64_t hash)
{
    for (uint32_t i = 0; i < FAULT_SITES; i++) {
        _Atomic uint64_t *slot = &faults->seen[(hash + i) % FAULT_SITES];
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(slot, &none, hash))
            return true;
        if (none == hash)
            return false;
    }
    return false;
}

static void keep_site(uint64_t n)
{
    const uint32_t i = is_new(place()) ? atomic_fetch_add(&faults->n_sites, 1) : FAULT_SITES;
    if (i < FAULT_SITES)
        faults->sites[i] = (uint32_t)n;
}

static bool fails(const char *call, const char *path)
{
    const uint64_t n = atomic_fetch_add(&faults->calls, 1) + 1;
    if (faults->find_sites)
        keep_site(n);
    if (faults->find_sites || n < faults->from || n >= faults->until)
        return false;
    if (atomic_fetch_add(&faults->hits, 1) == 0) {
        snprintf(faults->what, sizeof(faults->what), "%s %.600s (%s, call %llu)", call, path, own_name,
                 (unsigned long long)n);
        tell_stack("stack");
    }
    return true;
}

static bool ended(bool hit, int was)
{
    inside = 0;
    errno = hit && !faults_short() ? (int)faults->error : was;
    return hit;
}

bool faults_hit(enum fault_kind kind, const char *call, int dir, const char *path)
{
    const int was = errno;
    char full[8192];
    if (!watched(kind))
        return false;
    inside = 1;
    if (!((unsigned)kind & FAULT_ANYWHERE))
        full_path(dir, path, full);
    return ended((((unsigned)kind & FAULT_ANYWHERE) || is_below(full)) && fails(call, path ? path : ""), was);
}

bool faults_hit_fd(enum fault_kind kind, const char *call, int fd)
{
    const int was = errno;
    char path[4096];
    if (!watched(kind))
        return false;
    inside = 1;
    path_of(fd, path);
    return ended(is_below(path) && fails(call, path), was);
}

bool faults_short(void)
{
    return faults && faults->error == FAULT_SHORT;
}
