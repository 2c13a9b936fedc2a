/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_cpu.cc - see cuda_runtime.h; memory, fibers, barriers, launches
 *
 * A fiber is a stack: made once with makecontext(), then switched to with the compiler's own
 * setjmp, which saves little and costs no system call.  A thread that waits for others at a barrier
 * gives way to the next one that need not; one that ends leaves its fiber to the next that has not
 * begun, so that threads without barriers are calls in a loop.  When all that are left wait, the
 * block is stuck, and the program says so and ends: on a GPU it would hang.
 *
 * CUDA_CPU_GUARD set: device memory is closed while no kernel or copy runs, so
 * that a program that touches it ends at once; it costs much system time.
 *
 * CUDA_CPU_LOG: a file to which the name of each launch is appended.
 *
 * CUDA_CPU_FAIL: "driver" none is loaded, "old" it is too old, "ptx" it is too old to compile the kernels for this
 * GPU, "image" they have no code for it, "device" there is none, "memory:N" no more than N MiB of memory, "launch:N" the N-th launch fails,
 * "kernel:NAME" the first launch of that name, "capture" nothing can be recorded, "begin" no recording can begin,
 * "recorded" a product refuses to be recorded, "pin" of host memory only the first piece can be page-locked.
 * "peer:no" GPUs may not copy to each other, "peer:wrong" the copy engine changes a bit on the way,
 * "peer:hang" it never ends.
 * CUDA_CPU_GPU: t4 (compute capability 7.5, 64 KB of shared memory for a block), a100 (8.0, 163 KB),
 * h200 (9.0, 227 KB); else 8.9, with 99 KB.
 * CUDA_CPU_GRACE: the GPU reads ordinary host memory itself, as late as page-locked memory.
 * CUDA_CPU_BARE: new memory is zeros, and products by cuBLASLt are not computed, nor more than 1 MiB copied to the device:
 * where kernels are only counted (tests/ptx), arrays of any size cost nothing.
 * CUDA_CPU_EDGES: bare, and of each launch only the first and the last block in each direction run: sizes of which an
 * array has more than 2^32 numbers take seconds.
 * CUDA_CPU_BROKEN: launches fail only on this GPU of CUDA_VISIBLE_DEVICES.
 * CUDA_CPU_ERROR: the error of a launch that fails: 214 (ECC), 719 (launch failure); else 700 (illegal address).
 */
#include "cuda_cpu.h"
#include "mma_sync.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

enum {
    THREADS_MAX = CUDA_CPU_THREADS, WARP_SIZE = CUDA_CPU_WARP, STACK = 64 * 1024, FENCE = 256
};
#define REGION CUDA_CPU_REGION

dim3 gridDim, blockDim, blockIdx, threadIdx;

static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : 0;
}

int cuda_cpu_plant = number_of("CUDA_CPU_PLANT");

static const bool edges = getenv("CUDA_CPU_EDGES") != NULL;
const size_t      cuda_cpu_region_bytes = (size_t)(edges || getenv("CUDA_CPU_BARE") ? 1024 : 64) << 30;
const unsigned    cuda_cpu_grid = edges ? 8192 : 3;

static cudaError_t sticky;
static thread_local cudaError_t last; /* of this thread, until it asks */
static long        launches;

void cuda_cpu_die(const char *what)
{
    fprintf(stderr, "cuda_cpu: %s (block %u %u %u, thread %u %u)\n", what, blockIdx.x, blockIdx.y,
            blockIdx.z, threadIdx.x, threadIdx.y);
    abort();
}

/* --- memory ------------------------------------------------------------------------------- */

struct piece {
    size_t size; /* asked for; a fence follows */
};

static char                       *region;
static const size_t                far_apart = (size_t)36 << 30; /* of large arrays: above 8 * 2^32 */
static size_t                      region_used = edges ? far_apart : 0, region_live;
static std::map<size_t, struct piece>  live;  /* by offset */
static std::map<size_t, size_t>        holes; /* offset to size */

static size_t limit_of(const char *word)
{
    const char *f = getenv("CUDA_CPU_FAIL");
    const size_t n = strlen(word);
    return f && strncmp(f, word, n) == 0 ? (size_t)strtoull(f + n, NULL, 10) : 0;
}

bool cuda_cpu_fails(const char *how)
{
    const char *f = getenv("CUDA_CPU_FAIL");
    return f && strcmp(f, how) == 0;
}

/* CUDA Runtime API, "Error Handling": each thread has the last error that a call gave it. It may be of a call whose
 * failure the caller has expected. */
cudaError_t cuda_cpu_last(cudaError_t e)
{
    last = e != cudaSuccess ? e : last;
    return e;
}

cudaError_t cuda_cpu_error(void)
{
    return sticky;
}

void cuda_cpu_fault(void)
{
    sticky = cudaErrorIllegalAddress;
}

char *cuda_cpu_region(void)
{
    return region;
}

bool cuda_cpu_bare(void)
{
    static const bool bare = getenv("CUDA_CPU_BARE") != NULL;
    return bare || edges;
}

static bool guarded(void)
{
    static int known = -1;
    if (known < 0)
        known = getenv("CUDA_CPU_GUARD") != NULL;
    return known;
}

static void protect(int how)
{
    if (guarded() && region_used && mprotect(region, region_used, how) < 0)
        cuda_cpu_die("mprotect failed");
}

void cuda_cpu_open_memory(void)
{
    protect(PROT_READ | PROT_WRITE);
}

void cuda_cpu_close_memory(void)
{
    protect(PROT_NONE);
}

static void check_fences(void)
{
    cuda_cpu_open_memory();
    for (const auto &p : live)
        for (int i = 0; i < FENCE; i++)
            if ((unsigned char)region[p.first + p.second.size + i] != 0xff)
                cuda_cpu_die("a kernel wrote past the end of its array");
    cuda_cpu_close_memory();
}

/* Watched arrays lie far apart, so that an index that is off by a row or two does not hit the next one; large ones so
 * far that an index of 8 bytes each that has lost 2^32 hits none. */
static size_t whole(size_t bytes)
{
    const size_t far = bytes > (size_t)4 << 30 ? far_apart : 65536, gap = cuda_cpu_watching() ? bytes + far : 0;
    return (bytes + FENCE + gap + 4095) / 4096 * 4096;
}

static size_t take(size_t need)
{
    for (auto &h : holes)
        if (h.second >= need) {
            const size_t at = h.first, rest = h.second - need;
            holes.erase(at);
            if (rest)
                holes[at + need] = rest;
            return at;
        }
    const size_t at = region_used;
    region_used += need;
    return at;
}

/* CUDA_CPU_REPORT set: at the end a line says how many allocations are left. */
static void report_left(void)
{
    fprintf(stderr, "cuda_cpu: %zu arrays of the device are left\n", live.size());
}

extern "C" cudaError_t cudaMalloc(void **p, size_t bytes)
{
    const size_t most = limit_of("memory:");
    cuda_cpu_not_recorded("cudaMalloc within a capture");
    if (sticky)
        return sticky;
    if (!region) {
        region = (char *)mmap(NULL, REGION, guarded() ? PROT_NONE : PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED)
            cuda_cpu_die("no address space for device memory");
        if (getenv("CUDA_CPU_REPORT"))
            atexit(report_left);
        if (!cuda_cpu_bare())
            madvise(region, REGION, MADV_HUGEPAGE); /* opened and closed in fewer pieces */
    }
    const size_t need = whole(bytes);
    if (bytes > REGION || region_used + need > REGION ||
        (most && region_live + need > most << 20))
        return cuda_cpu_last(cudaErrorMemoryAllocation);
    const size_t at = take(need);
    region_live += need;
    cuda_cpu_open_memory();
    if (!cuda_cpu_bare())
        memset(region + at, 0xff, bytes); /* NaNs */
    memset(region + at + bytes, 0xff, FENCE);
    cuda_cpu_close_memory();
    live[at] = {bytes};
    cuda_cpu_watch_piece(at, bytes, true);
    *p = region + at;
    return cudaSuccess;
}

void cuda_cpu_use(cudaStream_t s, void *p, size_t bytes)
{
    const size_t at = (size_t)((char *)p - region);
    if (!cuda_cpu_watching())
        return;
    cuda_cpu_submit_call(s, [=] {
        const auto found = live.find(at);
        if (found == live.end())
            return;
        cuda_cpu_watch_piece(at, found->second.size, false);
        cuda_cpu_watch_piece(at, bytes, true);
    });
}

extern "C" cudaError_t cudaFree(void *p)
{
    if (!p)
        return cudaSuccess;
    cuda_cpu_not_recorded("cudaFree within a capture");
    cuda_cpu_finish_all();
    check_fences();
    const size_t at = (size_t)((char *)p - region);
    const auto found = live.find(at);
    if (found == live.end())
        cuda_cpu_die("cudaFree of what is not allocated");
    const size_t need = whole(found->second.size);
    cuda_cpu_watch_piece(at, found->second.size, false);
    cuda_cpu_open_memory();
    madvise(region + at, need, MADV_DONTNEED);
    cuda_cpu_close_memory();
    live.erase(found);
    region_live -= need;
    holes[at] = need;
    return cudaSuccess;
}

/* To the byte: what was asked for is used, fences and rounding are not counted. */
extern "C" cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    const size_t most = limit_of("memory:");
    size_t used = 0;
    for (const auto &p : live)
        used += p.second.size;
    *all = most ? most << 20 : REGION;
    *left = *all > used ? *all - used : 0;
    return sticky;
}

bool cuda_cpu_piece(const void *p, uint64_t *from, uint64_t *to)
{
    const char *c = (const char *)p;
    if (!region || c < region || c >= region + REGION)
        return false;
    auto next = live.upper_bound((size_t)(c - region));
    if (next == live.begin())
        return false;
    --next;
    *from = (uint64_t)(region + next->first);
    *to = *from + next->second.size;
    return (uint64_t)c < *to;
}

/* Whether all of it lies in one live piece. */
bool cuda_cpu_is_device(const void *p, size_t bytes)
{
    const char *c = (const char *)p;
    if (!region || c < region || c >= region + REGION)
        return false;
    auto next = live.upper_bound((size_t)(c - region));
    if (next == live.begin())
        return false;
    --next;
    return (size_t)(c - region) + bytes <= next->first + next->second.size;
}

extern "C" cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    if (sticky)
        return sticky;
    if (!cuda_cpu_is_device(p, bytes))
        cuda_cpu_die("cudaMemset outside of device memory");
    if (cuda_cpu_bare())
        return cudaSuccess;
    return cuda_cpu_submit_call(s, [=] {
        cuda_cpu_open_memory();
        memset(p, value, bytes);
        cuda_cpu_close_memory();
    });
}

enum { PIN_PIECE = 1 << 16 }; /* that of device.cuh */
static std::map<uintptr_t, size_t> pinned; /* host memory, by address; any thread pins */
static std::mutex                  pinned_lock;

/* What a copy from one page-locked piece into the next does, the manual does not say. */
static bool is_pinned(const void *p, size_t bytes)
{
    const std::lock_guard<std::mutex> hold(pinned_lock);
    const uintptr_t at = (uintptr_t)p;
    auto next = pinned.upper_bound(at);
    if (next == pinned.begin())
        return false;
    --next;
    if (at < next->first + next->second && at + bytes > next->first + next->second)
        cuda_cpu_die("a copy that begins in a piece of page-locked memory and goes on behind it");
    return at + bytes <= next->first + next->second;
}

static cudaError_t submit_copy(void *to, const void *from, size_t bytes, cudaStream_t s)
{
    return cuda_cpu_submit_call(s, [=] {
        cuda_cpu_open_memory();
        memcpy(to, from, bytes);
        cuda_cpu_close_memory();
    });
}

/* CUDA_CPU_REPORT set: at the end a line says how many bytes were copied from the host. */
static uint64_t uploaded;

static void report_uploaded(void)
{
    fprintf(stderr, "cuda_cpu: %llu bytes came from the host\n", (unsigned long long)uploaded);
}

static void count_uploaded(size_t bytes)
{
    if (uploaded == 0 && getenv("CUDA_CPU_REPORT"))
        atexit(report_uploaded);
    uploaded += bytes;
}

static bool reads_host(void)
{
    return getenv("CUDA_CPU_GRACE") != NULL;
}

/* From ordinary memory the numbers of now are copied, although later. */
static cudaError_t submit_staged(void *to, const void *from, size_t bytes, cudaStream_t s)
{
    const auto staged = std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
    return cuda_cpu_submit_call(s, [=] {
        cuda_cpu_open_memory();
        memcpy(to, staged->data(), bytes);
        cuda_cpu_close_memory();
    });
}

/* Where kernels are counted only, weights stay zeros: numbers that say how much there is to do are few. */
enum { BARE_MOST = 1 << 20 };

/* CUDA Runtime API, "API synchronization behavior": copies from and to page-locked memory, and within the
 * device, are as late as kernels; one to ordinary memory returns when it is done. */
extern "C" cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                       enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (sticky)
        return sticky;
    if (cuda_cpu_is_device(to, bytes) != (kind != cudaMemcpyDeviceToHost) ||
        cuda_cpu_is_device(from, bytes) != (kind != cudaMemcpyHostToDevice))
        cuda_cpu_die("cudaMemcpy: the direction does not fit the pointers");
    if (kind != cudaMemcpyDeviceToDevice)
        cuda_cpu_not_recorded("a copy from or to the host within a capture");
    if (kind == cudaMemcpyHostToDevice)
        count_uploaded(bytes);
    if (kind == cudaMemcpyHostToDevice && cuda_cpu_bare() && bytes > BARE_MOST)
        return cudaSuccess;
    if (kind == cudaMemcpyHostToDevice && !is_pinned(from, bytes) && !reads_host())
        return submit_staged(to, from, bytes, stream);
    if (!edges || kind != cudaMemcpyDeviceToDevice)
        submit_copy(to, from, bytes, stream);
    if (kind == cudaMemcpyDeviceToHost && !is_pinned(to, bytes))
        cuda_cpu_finish(stream);
    return sticky;
}

/* CUDA_CPU_REPORT set: at the end a line says how much of that is left. */
static void report_pinned(void)
{
    fprintf(stderr, "cuda_cpu: %zu pieces of host memory are left page-locked\n", pinned.size());
}

/* Whether the piece before this one is page-locked. */
static bool goes_on(uintptr_t at)
{
    const auto next = pinned.lower_bound(at);
    return next != pinned.begin() && std::prev(next)->first + std::prev(next)->second == at;
}

/* Some systems refuse large pieces, and all keep other processes waiting meanwhile (kernels/device.cuh). */
extern "C" cudaError_t cudaHostRegister(void *host, size_t bytes, unsigned)
{
    static bool asked;
    const uintptr_t at = (uintptr_t)host;
    const std::lock_guard<std::mutex> hold(pinned_lock);
    if (!asked && getenv("CUDA_CPU_REPORT"))
        atexit(report_pinned);
    asked = true;
    if (at / PIN_PIECE != (at + bytes - 1) / PIN_PIECE)
        cuda_cpu_die("host memory is page-locked in a piece that is too large");
    if (cuda_cpu_fails("pin") && goes_on(at))
        return cuda_cpu_last(cudaErrorMemoryAllocation);
    pinned[at] = bytes;
    return cudaSuccess;
}

extern "C" cudaError_t cudaHostUnregister(void *at)
{
    const std::lock_guard<std::mutex> hold(pinned_lock);
    if (pinned.erase((uintptr_t)at) == 0)
        cuda_cpu_die("cudaHostUnregister of what is not page-locked");
    return cudaSuccess;
}

/* --- fibers ------------------------------------------------------------------------------- */

struct fiber {
    void      *at[5]; /* of __builtin_setjmp() */
    bool       made;
    ucontext_t start;
    char      *stack;
    fiber     *next;  /* of those that nobody runs on */
};

struct thread {
    dim3   index;
    fiber *on;      /* NULL: has not begun */
    bool   done;
    long  *count;   /* waits until this ... */
    long   until;   /* ... has come to this */
};

struct warp_scratch {
    uint64_t bits[2][WARP_SIZE]; /* two calls in turn: who is late still reads the one before */
    long     calls[WARP_SIZE];
    int      came;
    long     passed;
};

static struct fiber     fibers[THREADS_MAX], launcher;
static struct fiber    *idle;
static struct thread    thread[THREADS_MAX];
static struct warp_scratch desks[THREADS_MAX / WARP_SIZE];
static int              current, threads, left, turn, block_came; /* turn: to which side */
static long             block_passed;
alignas(128) static char shared_memory[CUDA_CPU_SHARED];

/* Each by its compute capability: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". */
static const struct target {
    const char *name;
    int         major, minor;
    size_t      shared; /* of a block at most, if it asks */
} targets[] = {{"", 8, 9, 99 * 1024}, {"t4", 7, 5, 64 * 1024}, {"a100", 8, 0, 163 * 1024},
               {"h200", 9, 0, 227 * 1024}};

static const struct target *target(void)
{
    const char *gpu = getenv("CUDA_CPU_GPU");
    for (const struct target &t : targets)
        if (gpu && strcmp(gpu, t.name) == 0)
            return &t;
    return &targets[0];
}

char *cuda_cpu_shared_memory(void)
{
    return shared_memory;
}

int cuda_cpu_thread(void)
{
    return current;
}

static size_t           shared_bytes;
static const std::function<void()> *body_now;

void *cuda_cpu_shared(void)
{
    if (shared_bytes == 0)
        cuda_cpu_die("this kernel was launched without shared memory");
    return shared_memory;
}

__attribute__((noinline, noreturn)) static void jump(struct fiber *to)
{
    __builtin_longjmp(to->at, 1);
}

static void live_forever(void);

__attribute__((noinline)) static void begin(struct fiber *f)
{
    f->stack = (char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->stack == MAP_FAILED)
        cuda_cpu_die("no memory for a thread");
    f->made = true;
    getcontext(&f->start);
    f->start.uc_stack.ss_sp = f->stack;
    f->start.uc_stack.ss_size = STACK - (size_t)(f - fibers) % 64 * 320; /* not all in one set of the cache */
    f->start.uc_link = NULL;
    makecontext(&f->start, live_forever, 0);
    setcontext(&f->start);
}

/* Back when somebody switches to `from`. */
__attribute__((noinline)) static void change(struct fiber *from, struct fiber *to)
{
    if (__builtin_setjmp(from->at) != 0)
        return;
    if (to->made)
        jump(to);
    begin(to);
}

/* The next thread that need not wait, after `i` and round to it; -1: none. */
static int next_after(int i)
{
    for (int k = 0; k < threads; k++) {
        i += turn;
        i = i == threads ? 0 : i < 0 ? threads - 1 : i;
        if (!thread[i].done && *thread[i].count >= thread[i].until)
            return i;
    }
    return -1;
}

static void be(int i)
{
    current = i;
    threadIdx = thread[i].index;
}

static struct fiber *fiber_for(struct thread *t)
{
    if (!t->on) {
        t->on = idle;
        idle = idle->next;
    }
    return t->on;
}

/* Threads, one after the other; a thread that has begun elsewhere goes on there. */
static void live_forever(void)
{
    for (;;) {
        struct fiber *mine = thread[current].on;
        (*body_now)();
        thread[current].done = true;
        const int next = --left > 0 ? next_after(current) : current;
        if (next < 0)
            cuda_cpu_die("the block is stuck: some threads wait at a barrier that others have passed by");
        if (left > 0 && !thread[next].on) {
            thread[next].on = mine;
            be(next);
            continue;
        }
        mine->next = idle;
        idle = mine;
        be(next);
        change(mine, left > 0 ? thread[next].on : &launcher);
    }
}

static void await(long *count, long until)
{
    struct thread *t = &thread[current];
    const int me = current;
    t->count = count;
    t->until = until;
    const int next = next_after(me);
    if (next < 0)
        cuda_cpu_die("the block is stuck: some threads wait at a barrier that others have passed by");
    be(next);
    change(t->on, fiber_for(&thread[next]));
}

void __syncthreads(void)
{
    const long until = block_passed + 1;
    if (++block_came == threads) {
        block_came = 0;
        block_passed++;
        cuda_cpu_watch_barrier();
        return;
    }
    await(&block_passed, until);
}

int cuda_cpu_lane(void)
{
    return current % WARP_SIZE;
}

static int warp_threads(void)
{
    const int first = current / WARP_SIZE * WARP_SIZE;
    return threads - first < WARP_SIZE ? threads - first : WARP_SIZE;
}

void cuda_cpu_join(void)
{
    struct warp_scratch *d = &desks[current / WARP_SIZE];
    const long until = d->passed + 1;
    if (++d->came == warp_threads()) {
        d->came = 0;
        d->passed++;
        return;
    }
    await(&d->passed, until);
}

void __syncwarp(void)
{
    const struct warp_scratch *d = &desks[current / WARP_SIZE];
    if (d->came + 1 == warp_threads())
        cuda_cpu_watch_warp(current / WARP_SIZE);
    cuda_cpu_join();
}

uint64_t cuda_cpu_exchange(uint64_t bits, int mask)
{
    struct warp_scratch *d = &desks[current / WARP_SIZE];
    const int lane = cuda_cpu_lane(), from = lane ^ mask;
    const long turn = d->calls[lane]++ & 1;
    d->bits[turn][lane] = bits;
    cuda_cpu_join();
    return from < warp_threads() ? d->bits[turn][from] : bits;
}

static void place_threads(dim3 block)
{
    int i = 0;
    for (unsigned z = 0; z < block.z; z++)
        for (unsigned y = 0; y < block.y; y++)
            for (unsigned x = 0; x < block.x; x++)
                thread[i++].index = dim3(x, y, z);
}

static void run_block(bool reverse)
{
    static long none;
    block_came = 0;
    memset(desks, 0, sizeof(desks[0]) * (size_t)((threads + WARP_SIZE - 1) / WARP_SIZE));
    memset(shared_memory, 0xff, shared_bytes);
    cuda_cpu_watch_block();
    for (int i = 0; i < threads; i++) {
        thread[i].on = NULL;
        thread[i].done = false;
        thread[i].count = &none;
        thread[i].until = 0;
    }
    left = threads;
    turn = reverse ? -1 : 1;
    be(reverse ? threads - 1 : 0);
    change(&launcher, fiber_for(&thread[current]));
    if (block_came)
        cuda_cpu_die("threads have come to a barrier that not all came to");
    cuda_cpu_copy_none();
}

static void make_fibers(void)
{
    launcher.made = true;
    for (int i = 0; !idle && i < THREADS_MAX; i++)
        fibers[i].next = i + 1 < THREADS_MAX ? &fibers[i + 1] : NULL;
    idle = idle ? idle : &fibers[0];
}

static int device_in_use;

static bool uses(const char *gpu)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; at && i < device_in_use; i++)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    return at && strncmp(at, gpu, strlen(gpu)) == 0;
}

static bool fails_now(const char *name)
{
    const char *f = getenv("CUDA_CPU_FAIL");
    const size_t fail = limit_of("launch:");
    const char *broken = getenv("CUDA_CPU_BROKEN");
    launches++;
    if (broken && !uses(broken))
        return false;
    return (fail && (size_t)launches >= fail) ||
           (f && strncmp(f, "kernel:", 7) == 0 && strcmp(f + 7, name) == 0);
}

static void note(const char *name)
{
    const char *log = getenv("CUDA_CPU_LOG");
    FILE *f = log ? fopen(log, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "kernel %s\n", name);
    fclose(f);
}

static std::map<const void *, size_t> asked; /* dynamic shared memory that a kernel may have */

extern "C" cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute, int bytes)
{
    if (bytes < 0 || (size_t)bytes > target()->shared)
        return cuda_cpu_last(cudaErrorInvalidValue);
    asked[kernel] = (size_t)bytes;
    return cudaSuccess;
}

extern "C" cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *, const void *)
{
    return cuda_cpu_fails("ptx") ? cudaErrorUnsupportedPtxVersion
           : cuda_cpu_fails("image") ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

/* Its fixed arrays are known once it has run: where they and what was asked for are too much, a GPU would
 * not have started it. */
static void check_shared(const char *name, const void *kernel, size_t shared, size_t fixed)
{
    const size_t all = shared + fixed, most = asked.count(kernel) ? asked[kernel] + fixed : (size_t)CUDA_CPU_FREE;
    if (all <= most && all <= target()->shared)
        return;
    fprintf(stderr, "cuda_cpu: %s: %zu bytes of shared memory and %zu of fixed arrays; it may have %zu\n", name,
            shared, fixed, most < target()->shared ? most : target()->shared);
    cuda_cpu_fault();
}

/* The block after number `i` of `count`: the next one, or the last. */
static unsigned block_after(unsigned i, unsigned count)
{
    return edges && i + 1 < count ? count - 1 : i + 1;
}

static void run_blocks(dim3 grid, bool reverse)
{
    for (unsigned z = 0; z < grid.z; z = block_after(z, grid.z))
        for (unsigned y = 0; y < grid.y; y = block_after(y, grid.y))
            for (unsigned x = 0; x < grid.x; x = block_after(x, grid.x)) {
                blockIdx = dim3(x, y, z);
                run_block(reverse);
            }
}

struct work {
    const char           *name;
    const void           *kernel;
    dim3                  grid, block;
    size_t                shared, fixed; /* fixed: known of whole ones only */
    bool                  whole;
    std::function<void()> body;
};

/* On the clock of events each launch takes a microsecond. */
#define LAUNCH_MS 0.001f

static void run_whole(const struct work &w)
{
    cuda_cpu_pass(LAUNCH_MS);
    cuda_cpu_open_memory();
    w.body();
    check_shared(w.name, w.kernel, w.shared, w.fixed);
    cuda_cpu_close_memory();
}

static void run_threads(const struct work &w)
{
    const char *order = getenv("CUDA_CPU_ORDER");
    cuda_cpu_pass(LAUNCH_MS);
    gridDim = w.grid;
    blockDim = w.block;
    threads = (int)(w.block.x * w.block.y * w.block.z);
    shared_bytes = w.shared;
    body_now = &w.body;
    place_threads(w.block);
    make_fibers();
    cuda_cpu_open_memory();
    cuda_cpu_watch_launch(w.name, w.shared);
    run_blocks(w.grid, order && strcmp(order, "reverse") == 0);
    check_shared(w.name, w.kernel, w.shared, cuda_cpu_watch_end());
    cuda_cpu_close_memory();
}

static cudaError_t submit_work(const struct work &w, cudaStream_t stream)
{
    const dim3 grid = w.grid, block = w.block;
    const size_t count = (size_t)block.x * block.y * block.z;
    if (sticky)
        return sticky;
    if (!cuda_cpu_recording()) {
        note(w.name);
        if (fails_now(w.name))
            return sticky = number_of("CUDA_CPU_ERROR") ? (cudaError_t)number_of("CUDA_CPU_ERROR") : cudaErrorIllegalAddress;
    }
    if (count < 1 || count > THREADS_MAX || !grid.x || !grid.y || !grid.z || grid.y > 65535 ||
        grid.z > 65535 || grid.x > 0x7fffffff || w.shared > target()->shared)
        return cuda_cpu_last(cudaErrorInvalidConfiguration);
    return cuda_cpu_submit_call(stream, [=] { w.whole ? run_whole(w) : run_threads(w); });
}

cudaError_t cuda_cpu_launch(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared,
                            cudaStream_t stream, const std::function<void()> &body)
{
    return submit_work({name, kernel, grid, block, shared, 0, false, body}, stream);
}

cudaError_t cuda_cpu_launch_whole(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared,
                                  size_t fixed, cudaStream_t stream, const std::function<void()> &body)
{
    return submit_work({name, kernel, grid, block, shared, fixed, true, body}, stream);
}

/* --- the rest ----------------------------------------------------------------------------- */

extern "C" cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    cuda_cpu_not_recorded("cudaStreamSynchronize within a capture");
    cuda_cpu_finish(s);
    if (region)
        check_fences();
    return sticky;
}

extern "C" cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = sticky ? sticky : last;
    last = cudaSuccess;
    return e;
}

extern "C" cudaError_t cudaDriverGetVersion(int *v)
{
    *v = cuda_cpu_fails("driver") ? 0 : cuda_cpu_fails("old") ? 12040 : 13000;
    return cudaSuccess;
}

extern "C" cudaError_t cudaRuntimeGetVersion(int *v)
{
    *v = cuda_cpu_fails("ptx") ? 13010 : 13000;
    return cudaSuccess;
}

extern "C" cudaError_t cudaGetDeviceCount(int *n)
{
    if (cuda_cpu_fails("driver") || cuda_cpu_fails("old"))
        return cudaErrorInsufficientDriver; /* and *n stays */
    if (cuda_cpu_fails("device"))
        return cudaErrorNoDevice;
    const char *many = getenv("CUDA_CPU_DEVICES");
    *n = many ? atoi(many) : 1;
    return cudaSuccess;
}

extern "C" void cuda_cpu_target(char name[256], int *major, int *minor, size_t *shared)
{
    snprintf(name, 256, "CUDA on the CPU (for tests)");
    *major = target()->major;
    *minor = target()->minor;
    *shared = target()->shared;
}

extern "C" cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int)
{
    *p = {};
    cuda_cpu_target(p->name, &p->major, &p->minor, &p->sharedMemPerBlockOptin);
    p->pageableMemoryAccessUsesHostPageTables = reads_host();
    return cudaSuccess;
}

extern "C" cudaError_t cudaSetDevice(int device)
{
    device_in_use = device;
    return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    *can = e == cudaSuccess && device != peer && device < count && peer < count && !cuda_cpu_fails("peer:no");
    return e;
}

extern "C" cudaError_t cudaDeviceEnablePeerAccess(int, unsigned)
{
    return cudaSuccess;
}

extern "C" cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes,
                                           cudaStream_t s)
{
    while (cuda_cpu_fails("peer:hang"))
        pause();
    const cudaError_t e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s);
    if (e != cudaSuccess || !cuda_cpu_fails("peer:wrong"))
        return e;
    return cuda_cpu_submit_call(s, [=] {
        cuda_cpu_open_memory();
        ((char *)to)[bytes / 2] ^= 1;
        cuda_cpu_close_memory();
    });
}

extern "C" const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorUnsupportedPtxVersion: return "the provided PTX was compiled with an unsupported toolchain.";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when capturing";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorECCUncorrectable: return "uncorrectable ECC error encountered";
    case cudaErrorNvlinkUncorrectable: return "uncorrectable NVLink error detected during the execution";
    }
    return "unknown error";
}
