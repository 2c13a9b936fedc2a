/* SPDX-License-Identifier: Apache-2.0 */
/* watch.cc - checks each access of kernels to memory: races, bounds, alignment, first use
 *
 * Kernels compiled with -fsanitize=thread call __tsan_readN() and __tsan_writeN() before each access;
 * these are here, in place of the sanitizer's library.  Two bytes of device or shared memory have a
 * cell: their last write, and the reads since.  An access has an epoch, a number that grows with each
 * barrier of a block, and the count of __syncwarp() of its warp within that epoch.  Two accesses, one
 * of them a write, are a race
 *   - of two threads of a block in one epoch, unless both are of one warp and it has called __syncwarp()
 *     in between (a shuffle orders nothing: CUDA C++ Programming Guide, "Warp Shuffle Functions");
 *   - of two blocks of a launch.
 * Loads and stores of wmma belong to the warp as a whole: which lane has which number is not
 * documented (there, "Warp Matrix Functions"), so they are ordered by __syncwarp() only.
 *
 * Shared memory that nobody in the block has written has no value.  Fixed shared arrays are known by
 * their symbols and begin 256 bytes apart, so that what is past their end belongs to none.  An array
 * is read in units that its address is a multiple of ("Device Memory Accesses").
 *
 * The same kernels are compiled with -fsanitize=bounds, signed-integer-overflow and such: the compiler calls
 * __ubsan_handle_...() where an index leaves its array, the registers of a thread included, or an int is too small.
 *
 * Each place in the source is told once, on stderr; the launch then fails as on a GPU.
 */
#include "cuda_cpu.h"

#include <elf.h>
#include <link.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

enum {
    GRAIN = 2, PAGE = 4096, STEP_ALIGN = 256,
    THREADS = 1, WARPS = 2, BLOCKS = 4, /* more than one has read, in the warp's turn, the epoch, the launch */
    WARP_LOADS = CUDA_CPU_THREADS, WARP_STORES = WARP_LOADS + 32,
    GAP = 0xffff
};

struct access {
    uint32_t epoch;
    uint16_t who : 12; /* a thread, or WARP_LOADS and WARP_STORES + warp */
    uint16_t more : 4; /* THREADS ... */
    uint16_t turn;     /* of the warp within the epoch */
};

struct cell {
    struct access write, read;
};

struct fixed_array {
    std::string name;
    uintptr_t   at;
    size_t      bytes;
    uint32_t    seen; /* the launch that touched it last */
};

static bool          watched;
static bool          running;
static struct cell  *cells;      /* of the region, then of dynamic shared memory */
static uint64_t     *piece_end;  /* by page of the region; 0: not allocated */
static uintptr_t     region, dynamic, data, data_end;
static size_t        dynamic_bytes;
static uint32_t      epoch, launch_start, block_start, launches;
static uint16_t      turn[CUDA_CPU_THREADS / CUDA_CPU_WARP];
static const char   *launch_name;
static std::vector<fixed_array>  arrays;
static std::vector<uint16_t>     owner;       /* by two bytes of this library's data: an array + 1, GAP, 0 */
static std::vector<struct cell>  fixed_cells;
static std::set<std::string>     told;

bool cuda_cpu_watching(void)
{
    return watched;
}

/* --- fixed shared arrays ------------------------------------------------------------------ */

struct here {
    const char *file;
    uintptr_t   base;
};

static int find_library(struct dl_phdr_info *i, size_t, void *arg)
{
    struct here *h = (struct here *)arg;
    for (int k = 0; k < i->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &i->dlpi_phdr[k];
        const uintptr_t from = i->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_W) || (uintptr_t)&watched < from ||
            (uintptr_t)&watched >= to)
            continue;
        data = from, data_end = to;
        *h = {i->dlpi_name, i->dlpi_addr};
        return 1;
    }
    return 0;
}

/* A variable of a function, made by `static`: _ZZ function E name. */
static void add_array(const char *name, uintptr_t at, size_t bytes)
{
    if (strncmp(name, "_ZZ", 3) != 0 || at < data || at + bytes > data_end || arrays.size() >= GAP - 1)
        return;
    arrays.push_back({name, at, bytes, 0});
    const size_t from = (at - data) / GRAIN, n = (bytes + GRAIN - 1) / GRAIN;
    const size_t whole = (bytes + STEP_ALIGN - 1) / STEP_ALIGN * STEP_ALIGN / GRAIN;
    for (size_t i = 0; i < whole && from + i < owner.size(); i++)
        if (i < n)
            owner[from + i] = (uint16_t)arrays.size();
        else if (at % STEP_ALIGN == 0 && !owner[from + i])
            owner[from + i] = GAP;
}

/* Any other variable, such as threadIdx, is no gap: a `static` of a function of the host may by chance lie where an
 * array of a kernel would. */
static void add_variable(const char *name, uintptr_t at, size_t bytes)
{
    if (strncmp(name, "_ZZ", 3) == 0 || at < data || at + bytes > data_end)
        return;
    for (size_t i = (at - data) / GRAIN; i < (at + bytes - data + GRAIN - 1) / GRAIN; i++)
        if (owner[i] == GAP)
            owner[i] = 0;
}

static void read_symbols(const char *image, const struct here *h,
                         void (*add)(const char *name, uintptr_t at, size_t bytes))
{
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(image + e->e_shoff);
    for (int i = 0; i < e->e_shnum; i++) {
        if (s[i].sh_type != SHT_SYMTAB)
            continue;
        const char *names = image + s[s[i].sh_link].sh_offset;
        const Elf64_Sym *sym = (const Elf64_Sym *)(image + s[i].sh_offset);
        for (size_t k = 0; k < s[i].sh_size / sizeof(*sym); k++)
            if (ELF64_ST_TYPE(sym[k].st_info) == STT_OBJECT)
                add(names + sym[k].st_name, h->base + sym[k].st_value, sym[k].st_size);
    }
}

static void find_arrays(void)
{
    struct here h = {NULL, 0};
    struct stat st;
    dl_iterate_phdr(find_library, &h);
    const int fd = h.file ? open(h.file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) < 0)
        cuda_cpu_die("watch: this library's own file cannot be read");
    owner.resize((data_end - data) / GRAIN + 1);
    fixed_cells.resize(owner.size());
    void *image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (image == MAP_FAILED)
        cuda_cpu_die("watch: this library's own file cannot be mapped");
    read_symbols((const char *)image, &h, add_array);
    read_symbols((const char *)image, &h, add_variable);
    munmap(image, (size_t)st.st_size);
}

/* --- begin and end ------------------------------------------------------------------------ */

static void *space(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        cuda_cpu_die("watch: no address space for the cells");
    return p;
}

static void begin(void)
{
    region = (uintptr_t)cuda_cpu_region();
    dynamic = (uintptr_t)cuda_cpu_shared_memory();
    if (cells)
        return;
    cells = (struct cell *)space((CUDA_CPU_REGION + CUDA_CPU_SHARED) / GRAIN * sizeof(*cells));
    find_arrays();
}

static void *pages(void)
{
    if (!piece_end)
        piece_end = (uint64_t *)space(CUDA_CPU_REGION / PAGE * sizeof(*piece_end));
    return piece_end;
}

void cuda_cpu_watch_piece(size_t at, size_t bytes, bool there)
{
    if (!watched || !pages())
        return;
    for (size_t page = at / PAGE; page * PAGE < at + bytes; page++)
        piece_end[page] = there ? at + bytes : 0;
}

void cuda_cpu_watch_launch(const char *name, size_t shared)
{
    if (!watched)
        return;
    begin();
    launch_name = name;
    dynamic_bytes = shared;
    launch_start = ++epoch;
    launches++;
    if (epoch > UINT32_MAX - (1u << 30))
        cuda_cpu_die("watch: too many barriers in one process");
    running = true;
}

void cuda_cpu_watch_barrier(void)
{
    if (!running)
        return;
    epoch++;
    memset(turn, 0, sizeof(turn));
}

void cuda_cpu_watch_block(void)
{
    cuda_cpu_watch_barrier();
    block_start = epoch;
}

void cuda_cpu_watch_warp(int warp)
{
    turn[warp]++;
}

size_t cuda_cpu_watch_end(void)
{
    size_t bytes = 0;
    if (!running)
        return 0;
    running = false;
    for (const fixed_array &a : arrays)
        bytes += a.seen == launches ? a.bytes : 0;
    return bytes;
}

/* --- words -------------------------------------------------------------------------------- */

/* "linattn.cu:173", by addr2line where it is installed. */
static std::string place_of(void *pc)
{
    struct here h = {NULL, 0};
    char command[600], line[400] = "";
    dl_iterate_phdr(find_library, &h);
    snprintf(command, sizeof(command), "addr2line -i -e '%s' %#lx 2>/dev/null", h.file,
             (unsigned long)((uintptr_t)pc - 1 - h.base));
    FILE *f = popen(command, "r");
    std::string all;
    while (f && fgets(line, sizeof(line), f)) {
        line[strcspn(line, " \n")] = '\0';
        const char *slash = strrchr(line, '/');
        all += (all.empty() ? "" : " in ") + std::string(slash ? slash + 1 : line);
    }
    if (f)
        pclose(f);
    return all.empty() ? "?" : all;
}

static const char *kind_of(uintptr_t p)
{
    return p - dynamic < CUDA_CPU_SHARED ? "dynamic shared memory"
           : p - data < data_end - data  ? "a shared array"
                                         : "device memory";
}

__attribute__((noinline)) static void tell(const char *what, uintptr_t p, void *pc)
{
    char key[400];
    snprintf(key, sizeof(key), "%s %s %p", launch_name, what, pc);
    cuda_cpu_fault();
    if (told.size() > 40 || !told.insert(key).second)
        return;
    running = false; /* addr2line must not be watched */
    fprintf(stderr, "cuda_cpu: %s: %s, %s, at %s (thread %d of block %u %u %u)\n", launch_name, what,
            kind_of(p), place_of(pc).c_str(), cuda_cpu_thread(), blockIdx.x, blockIdx.y, blockIdx.z);
    running = true;
}

/* What the compiler has told about: its data begins with the place in the source. */
static void tell_meaningless(const char *what, const void *data)
{
    const struct where {
        const char *file;
        uint32_t    line, column;
    } *at = (const struct where *)data;
    const char *slash = strrchr(at->file, '/');
    char key[400];
    snprintf(key, sizeof(key), "%s, at %s:%u", what, slash ? slash + 1 : at->file, at->line);
    cuda_cpu_fault();
    if (told.size() <= 40 && told.insert(key).second)
        fprintf(stderr, "cuda_cpu: %s: %s (thread %d of block %u %u %u)\n", running ? launch_name : "before a launch",
                key, cuda_cpu_thread(), blockIdx.x, blockIdx.y, blockIdx.z);
}

/* --- accesses ------------------------------------------------------------------------------ */

static inline int warp_of(unsigned who)
{
    return (int)(who < WARP_LOADS ? who / CUDA_CPU_WARP : who % CUDA_CPU_WARP);
}

static inline struct access made(unsigned who, unsigned more)
{
    struct access a;
    a.epoch = epoch, a.who = who & 0xfff, a.more = more & 0xf, a.turn = turn[warp_of(who)];
    return a;
}

/* Whether nothing orders an earlier access of this block and launch before one by `who` now. */
static inline bool loose(const struct access *a, unsigned who)
{
    if (a->epoch != epoch || a->who == who)
        return false;
    return warp_of(a->who) != warp_of(who) || a->turn == turn[warp_of(who)];
}

static inline const char *check_write(const struct cell *c, unsigned who, bool global)
{
    const struct access *r = &c->read;
    if (r->epoch < (global ? launch_start : block_start))
        return NULL;
    if (r->epoch < block_start || (global && r->more & BLOCKS))
        return "blocks race: a write after another block's read";
    if (r->epoch != epoch)
        return NULL;
    const bool mine = warp_of(r->who) == warp_of(who);
    if (r->more & WARPS || !mine || (r->turn == turn[warp_of(who)] && (r->more & THREADS || r->who != who)))
        return "threads race: a write after another's read, without a barrier";
    return NULL;
}

static inline const char *check_last(const struct cell *c, unsigned who, bool write, bool global)
{
    const struct access *w = &c->write;
    if (!global && w->epoch < block_start)
        return write ? NULL : "a read of what nobody in the block has written";
    if (w->epoch < launch_start)
        return NULL;
    if (w->epoch < block_start)
        return write ? "blocks race: a write after another block's write"
                     : "blocks race: a read after another block's write";
    if (!loose(w, who))
        return NULL;
    return write ? "threads race: a write after another's write, without a barrier"
                 : "threads race: a read after another's write, without a barrier";
}

static inline void note_read(struct access *r, unsigned who)
{
    const int warp = warp_of(who);
    unsigned more = 0;
    if (r->epoch >= launch_start) {
        more = r->epoch < block_start ? (unsigned)BLOCKS : r->more & BLOCKS;
        if (r->epoch == epoch) {
            more |= r->more & WARPS;
            if (warp_of(r->who) != warp)
                more |= WARPS;
            else if (r->turn == turn[warp])
                more |= (r->more & THREADS) | (r->who != who ? THREADS : 0);
        }
    }
    *r = made(who, more);
}

static inline void touch_cells(struct cell *c, size_t n, uintptr_t p, bool write, bool global, unsigned who,
                               void *pc)
{
    for (size_t i = 0; i < n; i++, c++) {
        const char *bad = check_last(c, who, write, global);
        if (!bad && write)
            bad = check_write(c, who, global);
        if (write) {
            c->write = made(who, 0);
            c->read = {0, 0, 0, 0};
        } else {
            note_read(&c->read, who);
        }
        if (bad)
            tell(bad, p, pc);
    }
}

static void touch_fixed(uintptr_t p, size_t n, bool write, unsigned who, void *pc)
{
    const size_t at = (p - data) / GRAIN, last = (p + n - 1 - data) / GRAIN;
    const unsigned from = owner[at];
    if (from == 0) /* a variable of the stand-in */
        return;
    if (from == GAP || last >= owner.size() || owner[last] != from) {
        tell("past the end of a shared array", p, pc);
        return;
    }
    arrays[from - 1].seen = launches;
    touch_cells(&fixed_cells[at], last - at + 1, p, write, false, who, pc);
}

static void touch_bounds(uintptr_t p, size_t n, bool write, unsigned who, void *pc)
{
    const uintptr_t in_region = p - region, in_dynamic = p - dynamic;
    if (in_region < CUDA_CPU_REGION) {
        if (in_region + n > piece_end[in_region / PAGE]) {
            tell("outside of every allocation", p, pc);
            return;
        }
        touch_cells(cells + in_region / GRAIN, (in_region + n - 1) / GRAIN - in_region / GRAIN + 1, p, write,
                    true, who, pc);
    } else if (in_dynamic < CUDA_CPU_SHARED) {
        if (in_dynamic + n > dynamic_bytes) {
            tell("past the end of the launch's shared memory", p, pc);
            return;
        }
        touch_cells(cells + (CUDA_CPU_REGION + in_dynamic) / GRAIN,
                    (in_dynamic + n - 1) / GRAIN - in_dynamic / GRAIN + 1, p, write, false, who, pc);
    } else if (p - data < data_end - data) {
        touch_fixed(p, n, write, who, pc);
    }
}

static inline bool tracked(uintptr_t p)
{
    return p - region < CUDA_CPU_REGION || p - dynamic < CUDA_CPU_SHARED || p - data < data_end - data;
}

/* `units`: what the address must be a multiple of. */
static inline void touch(void *at, size_t n, size_t units, bool write, void *pc)
{
    const uintptr_t p = (uintptr_t)at;
    if (!running || !tracked(p))
        return;
    if (p % units)
        tell("a misaligned address", p, pc);
    touch_bounds(p, n, write, (unsigned)cuda_cpu_thread(), pc);
}

void cuda_cpu_warp_touch(const void *at, size_t n, bool write)
{
    const uintptr_t p = (uintptr_t)at;
    const unsigned warp = (unsigned)cuda_cpu_thread() / CUDA_CPU_WARP;
    if (running && tracked(p))
        touch_bounds(p, n, write, (write ? WARP_STORES : WARP_LOADS) + warp, __builtin_return_address(0));
}

void cuda_cpu_thread_touch(const void *at, size_t n, bool write)
{
    touch((void *)(uintptr_t)at, n, n, write, __builtin_return_address(0));
}

extern "C" {
#define HOOKS(n)                                                                                 \
    void __tsan_read##n(void *p) { touch(p, n, n, false, __builtin_return_address(0)); }           \
    void __tsan_write##n(void *p) { touch(p, n, n, true, __builtin_return_address(0)); }           \
    void __tsan_unaligned_read##n(void *p) { touch(p, n, 1, false, __builtin_return_address(0)); } \
    void __tsan_unaligned_write##n(void *p) { touch(p, n, 1, true, __builtin_return_address(0)); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_read_range(void *p, size_t n)
{
    touch(p, n, 1, false, __builtin_return_address(0));
}

void __tsan_write_range(void *p, size_t n)
{
    touch(p, n, 1, true, __builtin_return_address(0));
}

/* Called by each file that was compiled so, when the library is loaded. */
void __tsan_init(void)
{
    watched = true;
}

void __tsan_func_entry(void *)
{
}

void __tsan_func_exit(void)
{
}

void __tsan_vptr_update(void **, void *)
{
}

void __tsan_vptr_read(void **)
{
}

int __tsan_atomic32_load(const int *p, int)
{
    return *p;
}

unsigned char __tsan_atomic8_load(const unsigned char *p, int)
{
    return *p;
}

#define MEANINGLESS(name, what) \
    void __ubsan_handle_##name(void *data) { tell_meaningless(what, data); }
MEANINGLESS(out_of_bounds, "an index outside of its array")
MEANINGLESS(add_overflow, "a sum that an int does not hold")
MEANINGLESS(sub_overflow, "a difference that an int does not hold")
MEANINGLESS(mul_overflow, "a product that an int does not hold")
MEANINGLESS(negate_overflow, "a number that an int does not hold")
MEANINGLESS(divrem_overflow, "a division by zero")
MEANINGLESS(shift_out_of_bounds, "a shift by too many bits")
MEANINGLESS(float_cast_overflow, "a conversion to an integer that is too small")
}
