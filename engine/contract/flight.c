/* SPDX-License-Identifier: Apache-2.0 */
/* flight.c - the flight page: writer and reader; see flight.h
 *
 * The rank only stores to mapped memory: relaxed stores for the fields of
 * a phase, then one release store for step and phase together.
 */
#include "engine/contract/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

/* Writer and reader may be of different versions. */
_Static_assert(offsetof(struct flight_page, magic) == 0, "offset");
_Static_assert(offsetof(struct flight_page, step_phase) == 64, "offset");
_Static_assert(offsetof(struct flight_page, phase_start_ns) == 72, "offset");
_Static_assert(offsetof(struct flight_page, coll_seq) == 112, "offset");
_Static_assert(offsetof(struct flight_page, steps_total) == 152, "offset");
_Static_assert(offsetof(struct flight_page, step_hist) == 512, "offset");
_Static_assert(offsetof(struct flight_page, phase_hist) == 1024, "offset");
_Static_assert(offsetof(struct flight_page, ring_next) == 5632, "offset");
_Static_assert(offsetof(struct flight_page, ring) == 5640, "offset");
_Static_assert(sizeof(struct flight_entry) == 32, "size");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the flight page is little-endian; this machine is not"
#endif

struct flight {
    struct flight_page *page;
};

static const char *const phase_names[FLIGHT_PHASES] = {
    [PHASE_INIT] = "init",           [PHASE_DATA] = "data",
    [PHASE_FORWARD] = "forward",     [PHASE_BACKWARD] = "backward",
    [PHASE_REDUCE] = "reduce",       [PHASE_OPTIMIZER] = "optimizer",
    [PHASE_CHECKPOINT] = "checkpoint", [PHASE_VALIDATE] = "validate",
    [PHASE_IDLE] = "idle",
};

static const char *const coll_names[FLIGHT_COLLS] = {
    [COLL_ALL_REDUCE] = "all-reduce", [COLL_REDUCE_SCATTER] = "reduce-scatter",
    [COLL_ALL_GATHER] = "all-gather", [COLL_BROADCAST] = "broadcast",
    [COLL_BARRIER] = "barrier",       [COLL_REDUCE] = "reduce",
    [COLL_SEND_RECV] = "send/recv",   [COLL_OTHER] = "collective",
};

static void put(uint64_t *at, uint64_t v)
{
    __atomic_store_n(at, v, __ATOMIC_RELAXED);
}

static uint64_t get(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

static void page_init(struct flight_page *p, uint64_t rank, uint64_t world_size, uint64_t generation)
{
    p->magic = FLIGHT_MAGIC;
    p->version = FLIGHT_VERSION;
    p->bytes = FLIGHT_BYTES;
    p->rank = rank;
    p->world_size = world_size;
    p->generation = generation;
    p->phase_start_ns = clock_ns();
    p->step_phase = PHASE_INIT;
    p->ring_next = 1;
}

/* Written under a temporary name, then renamed: truncating a page that another process has
 * mapped would kill the reader with SIGBUS. */
int flight_create(const char *path, uint64_t rank, uint64_t world_size, uint64_t generation, struct err *err)
{
    struct flight_page *page = calloc(1, FLIGHT_BYTES);
    char tmp[4096];
    int fd = -1;
    int rc = -1;
    if (!page)
        return err_set(err, ERR_MEMORY, "out of memory for a flight page");
    page_init(page, rank, world_size, generation);
    int n = snprintf(tmp, sizeof(tmp), "%s.%d.new", path, (int)getpid());
    if (n >= (int)sizeof(tmp)) {
        err_set(err, ERR_USAGE, "flight page: the path is too long: %.200s", path);
        goto out;
    }
    fd = safe_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    if (fd < 0) {
        err_set_errno(err, errno, "cannot create %s", tmp);
        goto out;
    }
    ssize_t put_bytes = write(fd, page, FLIGHT_BYTES);
    if (put_bytes != FLIGHT_BYTES || rename(tmp, path) < 0) {
        err_set_errno(err, put_bytes < 0 || put_bytes == FLIGHT_BYTES ? errno : ENOSPC, "cannot write %s", path);
        unlink(tmp);
        goto out;
    }
    rc = 0;
out:
    if (fd >= 0)
        close(fd);
    free(page);
    return rc;
}

static int map_file(struct flight *f, const char *path, bool writable, struct err *err)
{
    int fd = safe_open(path, writable ? O_RDWR : O_RDONLY, NULL);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        err_set_errno(err, errno, "cannot open the flight page %s", path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (!S_ISREG(st.st_mode) || st.st_size < FLIGHT_BYTES) {
        close(fd);
        return err_set(err, ERR_DATA, "%s is not a flight page: it has %lld bytes, not %d", path,
                       (long long)st.st_size, FLIGHT_BYTES);
    }
    void *p = mmap(NULL, FLIGHT_BYTES, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    int why = errno;
    close(fd);
    if (p == MAP_FAILED)
        return err_set_errno(err, why, "cannot map the flight page %s", path);
    f->page = p;
    if (f->page->magic != FLIGHT_MAGIC || f->page->bytes != FLIGHT_BYTES)
        return err_set(err, ERR_DATA, "%s is not a flight page", path);
    if (f->page->version != FLIGHT_VERSION)
        return err_set(err, ERR_DATA, "flight page %s has version %llu; this program reads %d",
                       path, (unsigned long long)f->page->version, FLIGHT_VERSION);
    return 0;
}

int flight_attach(struct flight **out, const char *path, struct err *err)
{
    struct flight *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_MEMORY, "out of memory for a flight page");
    if (path) {
        if (map_file(f, path, true, err) < 0) {
            flight_close(f);
            return -1;
        }
    } else {
        void *p = mmap(NULL, FLIGHT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            free(f);
            return err_set(err, ERR_MEMORY, "out of memory for a flight page");
        }
        f->page = p;
        page_init(f->page, 0, 1, 0);
    }
    put(&f->page->attached_ns, clock_ns());
    put(&f->page->phase_start_ns, clock_ns());
    __atomic_store_n(&f->page->pid, (uint64_t)getpid(), __ATOMIC_RELEASE);
    *out = f;
    return 0;
}

int flight_open(struct flight **out, const char *path, struct err *err)
{
    struct flight *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_MEMORY, "out of memory for a flight page");
    if (map_file(f, path, false, err) < 0) {
        flight_close(f);
        return -1;
    }
    *out = f;
    return 0;
}

void flight_close(struct flight *f)
{
    if (!f)
        return;
    int keep = errno;
    if (f->page)
        munmap(f->page, FLIGHT_BYTES);
    free(f);
    errno = keep;
}

static void count(uint64_t *hist, uint64_t ns)
{
    uint64_t *bin = &hist[flight_bin(ns)];
    put(bin, get(bin) + 1);
}

/* An entry is valid if its seq matches; seq is stored last and is 0 while the entry
 * is being rewritten. */
static void ring_add(struct flight_page *p, uint64_t at_ns, uint64_t step_phase, uint64_t value)
{
    uint64_t seq = get(&p->ring_next);
    struct flight_entry *e = &p->ring[seq % FLIGHT_RING];
    put(&e->seq, 0);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    put(&e->at_ns, at_ns);
    put(&e->step_phase, step_phase);
    put(&e->value, value);
    __atomic_store_n(&e->seq, seq, __ATOMIC_RELEASE);
    put(&p->ring_next, seq + 1);
}

void flight_enter(struct flight *f, uint64_t step, enum flight_phase phase)
{
    struct flight_page *p = f->page;
    uint64_t now = clock_ns();
    uint64_t was = get(&p->step_phase);
    uint64_t next = step << 8 | (uint64_t)phase;
    uint64_t *spent = &p->phase_ns[(was & 0xff) % FLIGHT_PHASES];
    put(spent, get(spent) + (now - get(&p->phase_start_ns)));
    count(p->phase_hist[(was & 0xff) % FLIGHT_PHASES], now - get(&p->phase_start_ns));
    ring_add(p, now, next, phase == PHASE_FORWARD ? get(&p->bucket) : get(&p->phase_done));
    put(&p->phase_done, 0);
    put(&p->phase_total, 0);
    put(&p->phase_start_ns, now);
    __atomic_store_n(&p->step_phase, next, __ATOMIC_RELEASE);
}

void flight_work(struct flight *f, uint64_t done, uint64_t total)
{
    put(&f->page->phase_total, total);
    put(&f->page->phase_done, done);
}

void flight_micro(struct flight *f, uint64_t micro_batch, uint64_t height, uint64_t width)
{
    put(&f->page->micro_batch, micro_batch);
    put(&f->page->bucket, height << 32 | width);
}

void flight_step_done(struct flight *f, uint64_t step, uint64_t took_ns)
{
    count(f->page->step_hist, took_ns);
    uint64_t phase = get(&f->page->step_phase) & 0xff;
    __atomic_store_n(&f->page->step_phase, step << 8 | phase, __ATOMIC_RELEASE);
}

void flight_set_total(struct flight *f, uint64_t steps_total)
{
    put(&f->page->steps_total, steps_total);
}

void flight_coll_begin(struct flight *f, uint64_t seq, uint64_t kind, uint64_t bytes)
{
    if (!f)
        return;
    put(&f->page->coll_kind, kind);
    put(&f->page->coll_bytes, bytes);
    put(&f->page->coll_start_ns, clock_ns());
    __atomic_store_n(&f->page->coll_seq, seq, __ATOMIC_RELEASE);
}

void flight_coll_done(struct flight *f, uint64_t seq)
{
    if (f)
        put(&f->page->coll_done_seq, seq);
}

void flight_waited(struct flight *f, uint64_t ns)
{
    if (f)
        put(&f->page->wait_ns, get(&f->page->wait_ns) + ns);
}

/* Load step_phase first, with acquire: later loads are at least as new. */
void flight_read(const struct flight *f, struct flight_page *out)
{
    const struct flight_page *p = f->page;
    uint64_t step_phase = __atomic_load_n(&p->step_phase, __ATOMIC_ACQUIRE);
    const uint64_t *from = (const uint64_t *)p;
    uint64_t *to = (uint64_t *)out;
    size_t before_ring = offsetof(struct flight_page, ring) / 8;
    for (size_t i = 0; i < before_ring; i++)
        to[i] = get(from + i);
    out->step_phase = step_phase;
    for (size_t i = 0; i < FLIGHT_RING; i++) {
        const struct flight_entry *e = &p->ring[i];
        uint64_t seq = __atomic_load_n(&e->seq, __ATOMIC_ACQUIRE);
        out->ring[i].at_ns = get(&e->at_ns);
        out->ring[i].step_phase = get(&e->step_phase);
        out->ring[i].value = get(&e->value);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        out->ring[i].seq = get(&e->seq) == seq ? seq : 0;
    }
}

/* 0 means "never" and stays 0; times before this machine's boot become 1. */
static uint64_t shifted(uint64_t at, int64_t ns)
{
    int64_t to = (int64_t)at + ns;
    return at == 0 ? 0 : to > 0 ? (uint64_t)to : 1;
}

void flight_shift(struct flight_page *p, int64_t ns)
{
    p->attached_ns = shifted(p->attached_ns, ns);
    p->phase_start_ns = shifted(p->phase_start_ns, ns);
    p->coll_start_ns = shifted(p->coll_start_ns, ns);
    for (int i = 0; i < FLIGHT_RING; i++)
        p->ring[i].at_ns = shifted(p->ring[i].at_ns, ns);
}

uint64_t flight_step(const struct flight_page *p)
{
    return p->step_phase >> 8;
}

enum flight_phase flight_phase_of(const struct flight_page *p)
{
    uint64_t phase = p->step_phase & 0xff;
    return phase < FLIGHT_PHASES ? (enum flight_phase)phase : PHASE_IDLE;
}

const char *flight_phase_name(enum flight_phase phase)
{
    return (unsigned)phase < FLIGHT_PHASES ? phase_names[phase] : "unknown";
}

uint64_t flight_spent_ns(const struct flight_page *p, enum flight_phase phase, uint64_t now_ns)
{
    bool lasts = flight_phase_of(p) == phase && now_ns > p->phase_start_ns;
    return p->phase_ns[phase] + (lasts ? now_ns - p->phase_start_ns : 0);
}

const char *flight_coll_name(uint64_t kind)
{
    return kind < FLIGHT_COLLS ? coll_names[kind] : "collective";
}

/* floor(2 log2(microseconds)) = floor(log2(us^2)), in whole numbers. */
int flight_bin(uint64_t ns)
{
    unsigned __int128 us2 = (unsigned __int128)ns * ns / 1000000;
    int bin = 0;
    while (us2 >>= 1)
        bin++;
    return bin < FLIGHT_BINS ? bin : FLIGHT_BINS - 1;
}

uint64_t flight_bin_ceil_ns(int bin)
{
    return (uint64_t)ceil(1000 * exp2((bin + 1) / 2.0));
}

uint64_t flight_quantile_ns(const uint64_t hist[FLIGHT_BINS], double q)
{
    uint64_t total = 0;
    for (int i = 0; i < FLIGHT_BINS; i++)
        total += hist[i];
    double want = q * (double)total;
    uint64_t seen = 0;
    for (int i = 0; i < FLIGHT_BINS && total > 0; i++) {
        seen += hist[i];
        if (seen > 0 && (double)seen >= want)
            return flight_bin_ceil_ns(i);
    }
    return 0;
}
