/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.cc - launches of what nvcc compiled go to the interpreter; the rest of CUDA is tests/cuda_cpu
 *
 * The host code is nvcc's, too: it registers its kernels as programs do whose cudart is elsewhere.  Their PTX is in
 * the program, uncompressed (-Xfatbin -compress=false).
 *
 * PTX_COUNTS: a file to which one line per kernel and shape is written at the end (counts.sh has its columns).
 * PTX_COUNTS_TIMED set: of launches behind an event only, so of those in a profile (kernels/profile.cu).
 * PTX_SAMPLE: at most that many blocks of each launch are run, evenly spread, and with PTX_COUNTS only the first launch of
 * a kernel and shape: for counts.
 * PTX_TEXT: a file for the PTX, to which messages refer.
 * PTX_FROM: a file whose PTX is taken instead, such as that one after a change.
 */
#include "tests/cuda_cpu/cuda_cpu.h"
#include "tests/ptx/count.h"
#include "tests/ptx/ptx.h"

#include <cxxabi.h>
#include <stdio.h>
#include <stdlib.h>

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

static struct ptx_module *module;

/* By the host's function. Registration comes before the constructors of this file. */
static std::map<const void *, const struct ptx_entry *> &entries(void)
{
    static std::map<const void *, const struct ptx_entry *> all;
    return all;
}

/* --- registration, as crt/host_runtime.h declares it ---------------------------------------------- */

struct wrapper {
    int         magic, version;
    const void *data;
    void       *unused;
};

/* The header of a fat binary: magic, version, its own size, the size of what follows. */
struct fat {
    uint32_t magic;
    uint16_t version, header;
    uint64_t size;
};

static const char *text_in(const struct fat *f)
{
    static const char mark[] = ".version";
    const char *all = (const char *)f + f->header;
    const char *at = (const char *)memmem(all, f->size, mark, sizeof(mark) - 1);
    if (f->magic != 0xba55ed50 || !at)
        cuda_cpu_die("no PTX in the program: nvcc needs -Xfatbin -compress=false and code=compute_80");
    return at;
}

static std::string file_text(const char *name)
{
    std::string text;
    FILE *f = fopen(name, "r");
    if (!f)
        cuda_cpu_die("PTX_FROM cannot be read");
    for (int c; (c = fgetc(f)) != EOF;)
        text += (char)c;
    fclose(f);
    return text;
}

static void write_text(const char *text)
{
    const char *to = getenv("PTX_TEXT");
    FILE *f = to ? fopen(to, "w") : NULL;
    if (!f)
        return;
    fputs(text, f);
    fclose(f);
}

extern "C" void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    char why[PTX_WHY];
    const char *from = getenv("PTX_FROM");
    const struct fat *fat = (const struct fat *)((const struct wrapper *)binary)->data;
    const std::string text = from ? file_text(from) : text_in(fat);
    write_text(text.c_str());
    module = ptx_parse("kernels.ptx", text.c_str(), why);
    if (!module) {
        fprintf(stderr, "ptx: %s\n", why);
        _Exit(1);
    }
    return &handle;
}

extern "C" void __cudaRegisterFatBinaryEnd(void **)
{
}

extern "C" void __cudaUnregisterFatBinary(void **)
{
    ptx_free(module);
    module = NULL;
}

extern "C" void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int, void *, void *, void *,
                                       void *, int *)
{
    entries()[host] = ptx_find(module, name);
    if (!entries()[host])
        cuda_cpu_die("a kernel that is not in the PTX");
}

extern "C" cudaError_t cudaFuncGetName(const char **name, const void *function)
{
    const auto found = entries().find(function);
    if (found == entries().end())
        return cudaErrorInvalidValue;
    *name = ptx_name(found->second);
    return cudaSuccess;
}

/* The <<<>>> form is not used: device.cuh launches by cudaLaunchKernel(). */
extern "C" unsigned __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *)
{
    cuda_cpu_die("a launch by <<<>>>");
    return 1;
}

extern "C" cudaError_t __cudaGetKernel(void **kernel, const void *function)
{
    *kernel = (void *)function;
    return cudaSuccess;
}

/* --- counts ------------------------------------------------------------------------------------------ */

struct row {
    const struct ptx_entry *entry;
    dim3                    grid, block;
    size_t                  shared;
    std::vector<char>       sizes;  /* the parameters, of pointers only their alignment */
    unsigned long           launches;
    struct ptx_counts       counts; /* of the first launch */
    std::string             name;
};

static std::list<struct row> rows; /* their counts are written later: they must not move */

static bool same(dim3 a, dim3 b)
{
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

static struct row *row_of(const struct row &want)
{
    for (struct row &r : rows)
        if (r.entry == want.entry && same(r.grid, want.grid) && same(r.block, want.block) && r.shared == want.shared &&
            r.sizes == want.sizes)
            return &r;
    rows.push_back(want);
    return &rows.back();
}

/* Launches that differ in nothing else do the same, in other places. */
static std::vector<char> sizes_in(std::vector<char> params)
{
    enum { ALIGNED = 256 };
    uint64_t word, from, to;
    for (size_t i = 0; i + sizeof(word) <= params.size(); i += sizeof(word)) {
        memcpy(&word, params.data() + i, sizeof(word));
        if (!cuda_cpu_piece((const void *)word, &from, &to))
            continue;
        word %= ALIGNED;
        memcpy(params.data() + i, &word, sizeof(word));
    }
    return params;
}

static std::string plain_name(const char *symbol)
{
    int status = 0;
    char *text = abi::__cxa_demangle(symbol, NULL, NULL, &status);
    std::string name = text && status == 0 ? text : symbol;
    free(text);
    const size_t end = name.find('(');
    name = name.substr(0, end);
    if (name.compare(0, 5, "void ") == 0)
        name = name.substr(5);
    for (size_t at; (at = name.find("__nv_bfloat16")) != std::string::npos;)
        name.replace(at, 13, "bf16");
    for (size_t at; (at = name.find(", ")) != std::string::npos;)
        name.replace(at, 2, ",");
    for (size_t at; (at = name.find("> >")) != std::string::npos;)
        name.replace(at, 3, ">>");
    return name;
}

/* In thousands of warps. */
static double slots_of(const struct ptx_counts *c, int from, int to)
{
    double n = 0;
    for (int k = from; k <= to; k++)
        n += ptx_scaled(c, c->slots[k]);
    return n / 1e3;
}

static std::string shape_of(dim3 d)
{
    return std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z);
}

/* The columns of counts.sh. */
static void write_row(FILE *f, const struct row &r)
{
    enum { SECTOR = 32 };
    const struct ptx_counts *c = &r.counts;
    const struct ptx_bound a = ptx_bound_of(c, PTX_A100), h100 = ptx_bound_of(c, PTX_H100), h200 = ptx_bound_of(c, PTX_H200);
    fprintf(f, "%-31s %-11s %-8s %6zu %5lu", r.name.c_str(), shape_of(r.grid).c_str(), shape_of(r.block).c_str(),
            r.shared + ptx_shared(r.entry), r.launches);
    fprintf(f, " %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f", slots_of(c, PTX_FP32, PTX_FP64),
            slots_of(c, PTX_INT, PTX_INT), slots_of(c, PTX_CONVERT, PTX_SPECIAL), slots_of(c, PTX_SHUFFLE, PTX_SYNC),
            slots_of(c, PTX_MEM_GLOBAL, PTX_MEM_GLOBAL), slots_of(c, PTX_MEM_SHARED, PTX_MEM_LOCAL),
            slots_of(c, PTX_TENSOR, PTX_TENSOR));
    fprintf(f, " %8.3f %8.3f", ptx_scaled(c, c->flops) / 1e9, ptx_scaled(c, c->tensor_flops) / 1e9);
    fprintf(f, " %9.2f %9.2f", ptx_scaled(c, c->sectors[0] + c->sectors[1]) * SECTOR / 1e6,
            ptx_scaled(c, c->ideal[0] + c->ideal[1]) * SECTOR / 1e6);
    fprintf(f, " %9.1f %9.1f", ptx_scaled(c, c->wavefronts) / 1e3, ptx_scaled(c, c->wavefronts_ideal) / 1e3);
    fprintf(f, " %8.4f %-13s %8.4f %-13s %8.4f %s\n", a.ms, a.by, h100.ms, h100.by, h200.ms, h200.by);
}

static void write_counts(void)
{
    FILE *f = fopen(getenv("PTX_COUNTS"), "a");
    if (!f)
        cuda_cpu_die("PTX_COUNTS cannot be written");
    for (const struct row &r : rows)
        write_row(f, r);
    fclose(f);
}

static struct ptx_counts *counts_for(const struct row &r)
{
    static const bool wanted = getenv("PTX_COUNTS") != NULL && atexit(write_counts) == 0;
    static const bool timed = getenv("PTX_COUNTS_TIMED") != NULL;
    static unsigned long events;
    const bool behind = events != cuda_cpu_events();
    events = cuda_cpu_events();
    if (!wanted || (timed && !behind))
        return NULL;
    struct row *here = row_of(r);
    if (here->launches++)
        return NULL;
    here->name = plain_name(ptx_name(r.entry));
    return &here->counts;
}

/* --- launches ------------------------------------------------------------------------------------------ */

static bool find(void *, uint64_t at, uint64_t *from, uint64_t *to)
{
    return cuda_cpu_piece((const void *)at, from, to);
}

static void run(const struct row &r, const std::vector<char> &params, struct ptx_counts *counts)
{
    char why[PTX_WHY];
    struct ptx_launch l = {};
    const char *sample = getenv("PTX_SAMPLE");
    l.entry = r.entry;
    const unsigned grid[3] = {r.grid.x, r.grid.y, r.grid.z}, block[3] = {r.block.x, r.block.y, r.block.z};
    memcpy(l.grid, grid, sizeof(grid));
    memcpy(l.block, block, sizeof(block));
    l.shared = r.shared;
    l.params = params.data();
    l.memory.find = find;
    l.sample = sample ? strtoul(sample, NULL, 10) : 0;
    l.counts = counts;
    if (ptx_run(&l, why))
        return;
    fprintf(stderr, "ptx: %s\n", why);
    cuda_cpu_fault();
}

extern "C" cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                                        cudaStream_t stream)
{
    static const bool counted_only = getenv("PTX_SAMPLE") && getenv("PTX_COUNTS");
    const struct ptx_entry *entry = entries()[function];
    if (!entry)
        cuda_cpu_die("a launch of what is no kernel");
    std::vector<char> params(ptx_params(entry) + 1);
    size_t at, bytes;
    for (int i = 0; ptx_param(entry, i, &at, &bytes); i++)
        memcpy(params.data() + at, args[i], bytes);
    const struct row r = {entry, grid, block, shared, sizes_in(params), 0, {}, ""};
    struct ptx_counts *counts = counts_for(r);
    if (counted_only && !counts)
        return cudaSuccess;
    return cuda_cpu_launch_whole(ptx_name(entry), function, grid, block, shared, ptx_shared(entry), stream,
                                 [=] { run(r, params, counts); });
}

extern "C" cudaError_t __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                          cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}
