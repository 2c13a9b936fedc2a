/* SPDX-License-Identifier: Apache-2.0 */
/* check_kernels.c - compares every CUDA kernel with its CPU version, at odd sizes
 *
 *   check_kernels PLUGIN fp32|bf16           compare; a line per kernel, exit 1 on any difference
 *   check_kernels PLUGIN fp32|bf16 --time    time them at the sizes of Sana-1600M, 1024 px
 *   check_kernels PLUGIN fp32|bf16 --count   call each once at those sizes, on arrays of zeros (tests/ptx/counts.sh)
 *   check_kernels PLUGIN fp32|bf16 --huge [T] the same with arrays of more than 2^32 numbers (CUDA_CPU_EDGES)
 *   check_kernels PLUGIN fp32|bf16 --only T  compare the kernels of one test, whose name begins with T
 *   check_kernels --judge                    is each fault found that is planted into the CPU's results?
 *
 * Exit 67 where there is no driver or no GPU, 68 where the plugin or the GPU cannot be
 * used, 2 for wrong arguments; the reason is on standard error.  After a fault of the
 * device no kernel of this process can run any more: the program starts itself
 * again for those that are left.
 *
 * Both sides get the same random arrays, run one kernel, and every array is
 * compared: outputs, and inputs that must not change.  fp32 differs by the order
 * of sums only: relative L2 below 1e-5.  In bf16 narrow arrays are rounded
 * beforehand for both sides, so that the same bound holds for fp32 results, and
 * for narrow ones beyond half a unit of bf16, by which a single rounding moves them.
 * A result of something that a kernel rounded on its way (LOOSE) may be off by 4e-3.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "kernels/rng.h"
#include "tests/gpu/kernel_cases.h"

/* Bounds: of an array's relative L2, and of each of its numbers. */
#define ALL_FP32 1e-5
#define ONE_FP32 2e-4
#define ALL_BF16 4e-3
#define ONE_BF16 3e-2
/* Bounds of STEEP arrays, times this: scores of 100, rounded to 2^-24 of that, move exponentials by 6e-6. */
#define STEEP_ROOM 8

enum { WRONG_USAGE = 2, NO_DEVICE = 67, UNUSABLE = 68 };

/* --- running ------------------------------------------------------------------------------ */

struct side {
    const struct kern_ops *k;
    float                 *a[ARRAYS];
    void                  *base[ARRAYS]; /* the allocation of each */
};

static float to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &u, sizeof(u));
    return x;
}

/* Of caption b the first b tokens count, the next one does not, and those behind it may: all of them are masked in the
 * first one, and each place of the first that is masked comes. */
static void fill_mask(float *p, const struct want *w)
{
    const size_t most = (size_t)(w->flags / MOST);
    for (size_t i = 0; i < w->n; i++) {
        const size_t b = i / most, at = i % most;
        p[i] = b > 0 && (at < b || (at > b && p[i] > 0.5f)) ? 1 : 0;
    }
}

/* One caption as long as can be, and shorter ones, down to a token. */
static void fill_first(int *first, const struct want *w)
{
    const int most = w->flags / MOST;
    first[0] = 0;
    for (size_t b = 0; b + 1 < w->n; b++)
        first[b + 1] = first[b] + (b == 1 ? most : 1 + (int)b * 37 % most);
}

static void fill(float *p, const struct want *w, int bf16, uint64_t id)
{
    const struct rng r = rng_make(5, 0, id, RNG_TEST);
    rng_uniform(&r, p, 0, w->n);
    if (w->flags & FIRST)
        return fill_first((int *)(void *)p, w);
    if (w->flags & MASK && w->flags / MOST)
        return fill_mask(p, w);
    for (size_t i = 0; i < w->n; i++) {
        const float x = 2 * p[i] - 1;
        p[i] = w->flags & ABOVE   ? p[i] + 0.5f
               : w->flags & RELU  ? (x > 0 ? x : 0)
               : w->flags & MASK  ? (float)(i % 64 == 0 || x > 0)
               : w->flags & TIMES ? 999 * p[i]
               : w->flags & LARGE ? 12 * x
               : w->flags & SMALL ? 1e-4f * x
               : w->flags & FAR   ? 30 + x
                                  : x;
        if ((bf16 && w->flags & (NARROW | ROUNDED)) || w->flags & HALVES)
            p[i] = to_bf16(p[i]);
    }
}

/* Bytes of a number of an array of this table. */
static size_t size_of(const struct side *s, const struct want *w)
{
    return w->flags & HALVES ? sizeof(uint16_t) : w->flags & NARROW ? s->k->narrow : sizeof(float);
}

/* A narrow array of n numbers here, into one of the table, and back. */
static void put(const struct side *s, void *to, const float *from, const struct want *w)
{
    if (size_of(s, w) == sizeof(float)) {
        s->k->upload(to, from, w->n * sizeof(float));
        return;
    }
    uint16_t *half = malloc(w->n * sizeof(*half));
    if (!half)
        abort();
    for (size_t i = 0; i < w->n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof(bits));
        half[i] = (uint16_t)(bits >> 16);
    }
    s->k->upload(to, half, w->n * sizeof(*half));
    free(half);
}

static void get(const struct side *s, float *to, const void *from, const struct want *w)
{
    if (size_of(s, w) == sizeof(float)) {
        s->k->download(to, from, w->n * sizeof(float));
        return;
    }
    uint16_t *half = malloc(w->n * sizeof(*half));
    if (!half)
        abort();
    s->k->download(half, from, w->n * sizeof(*half));
    for (size_t i = 0; i < w->n; i++) {
        const uint32_t bits = (uint32_t)half[i] << 16;
        memcpy(&to[i], &bits, sizeof(bits));
    }
    free(half);
}

/* CHECK_KERNELS_SHIFT: arrays on the GPU begin one number past their allocation, as aligned as a number and no more, at
 * every second size two numbers; `each`: one array after the other. */
static int    shifted;      /* with `each`: which one */
static size_t shift_by = 1; /* numbers */

static bool shifts_each(void)
{
    const char *how = getenv("CHECK_KERNELS_SHIFT");
    return how && strcmp(how, "each") == 0;
}

static size_t offset_of(const struct side *s, const struct want *w, int i, size_t size)
{
    if (s->k->host || !getenv("CHECK_KERNELS_SHIFT"))
        return 0;
    if (shifts_each())
        return i != shifted ? 0 : w->flags & (DOUBLES | BITS) ? 2 * sizeof(float) : size;
    return w->flags & (DOUBLES | BITS | FIRST) ? 0 : shift_by * size;
}

/* Where kernels are counted only, arrays stay as they are allocated, but those that say how much there is to do. */
static bool counted;

static bool stays_empty(const struct want *w)
{
    return counted && !(w->flags & (FIRST | MASK | TIMES));
}

static int setup(struct side *s, const struct want *w, int bf16, uint64_t id)
{
    for (int i = 0; i < ARRAYS; i++) {
        s->a[i] = NULL;
        s->base[i] = NULL;
        if (!w[i].n)
            continue;
        float *here = malloc((stays_empty(&w[i]) ? 1 : w[i].n) * sizeof(float));
        const size_t size = size_of(s, &w[i]), off = offset_of(s, &w[i], i, size);
        s->base[i] = s->k->alloc(w[i].n * size + off);
        s->a[i] = (float *)(void *)((char *)s->base[i] + off);
        if (!here || !s->base[i]) {
            fprintf(stderr, "check_kernels: out of memory\n");
            return -1;
        }
        if (!stays_empty(&w[i])) {
            fill(here, &w[i], bf16, id + (uint64_t)i);
            put(s, s->a[i], here, &w[i]);
        }
        free(here);
    }
    return 0;
}

static void release(struct side *s)
{
    for (int i = 0; i < ARRAYS; i++)
        s->k->release(s->base[i]);
}

/* One array of a kernel against that of its twin. */
struct apart {
    double all; /* L2 of the differences over that of the array */
    double one; /* the largest difference, over its number and the root of the mean square together */
};

static double number_of(const float *p, const struct want *w, size_t i)
{
    return w->flags & DOUBLES ? ((const double *)(const void *)p)[i] : p[i];
}

/* The larger one; NaN once there is one, where fmax() would forget it. */
static double worse(double most, double x)
{
    return isnan(most) || x <= most ? most : x;
}

/* Half a unit of bf16 at y: the most that rounding moves it. */
static double half_unit(double y)
{
    int exponent;
    frexp(y, &exponent);
    return ldexp(1, exponent - 9);
}

/* `rounded`: ours are narrow, and what rounding explains does not count. */
static struct apart difference(const float *ours, const float *want, const struct want *w, bool rounded)
{
    double sum = 0, all = 0, most = 0;
    const size_t n = w->flags & DOUBLES ? w->n / 2 : w->n;
    for (size_t i = 0; i < n; i++)
        all += number_of(want, w, i) * number_of(want, w, i);
    const double rms = fmax(sqrt(all / (double)n), 1e-20);
    for (size_t i = 0; i < n; i++) {
        const double y = number_of(want, w, i), off = fabs(number_of(ours, w, i) - y);
        const double d = !rounded ? off : off <= half_unit(y) ? 0 : off - half_unit(y);
        sum += d * d;
        most = worse(most, d / (fabs(y) + rms));
    }
    return (struct apart){sqrt(sum) / fmax(sqrt(all), 1e-20), most};
}

struct score {
    double worst;       /* as a share of its bound; NaN: beyond every bound */
    double error;
    int    arrays;      /* that were compared */
    char   where[64];
};

/* The share of the bound that the worse of both measures takes; above 1, or NaN, is a failure. */
static double share_of(const float *ours, const float *want, const struct want *w, int bf16, double *error)
{
    const bool loose = bf16 && w->flags & LOOSE;
    if (w->flags & BITS) {
        *error = memcmp(ours, want, w->n * sizeof(float)) != 0;
        return *error != 0 ? INFINITY : 0;
    }
    const struct apart e = difference(ours, want, w, bf16 && w->flags & NARROW && !loose);
    const double room = w->flags & STEEP ? STEEP_ROOM : 1;
    const double all = e.all / room / (loose ? ALL_BF16 : ALL_FP32), one = e.one / room / (loose ? ONE_BF16 : ONE_FP32);
    *error = all >= one ? e.all : e.one;
    return worse(all, one);
}

static void compare_array(struct score *s, const float *ours, const float *want, const struct want *w,
                          int bf16, const int *z)
{
    double error;
    const double share = share_of(ours, want, w, bf16, &error);
    s->arrays++;
    if (isnan(s->worst) || share <= s->worst)
        return;
    s->worst = share;
    s->error = error;
    snprintf(s->where, sizeof(s->where), "%s at %d %d %d %d %d", w->what, z[0], z[1], z[2], z[3], z[4]);
}

static void compare(struct score *s, const struct side *cuda, const struct side *cpu,
                    const struct want *w, int bf16, const int *z)
{
    for (int i = 0; i < ARRAYS; i++) {
        if (!w[i].n || w[i].flags & OWN)
            continue;
        float *here = malloc(w[i].n * sizeof(float));
        if (!here)
            abort();
        get(cuda, here, cuda->a[i], &w[i]);
        compare_array(s, here, cpu->a[i], &w[i], bf16, z);
        free(here);
    }
}

static bool passes(const struct score *s)
{
    return s->arrays > 0 && s->worst <= 1;
}

/* Compares at size `at` of a test. false, with a message: the device failed, or there is no memory. */
static bool check_size(struct score *score, const struct test *t, int at, const struct kern_ops *cuda, int bf16)
{
    const int *z = t->sizes[at];
    char why[256];
    struct want w[ARRAYS] = {{0}};
    struct side sides[2] = {{.k = cuda}, {.k = kern_cpu()}};
    t->arrays(w, z);
    shift_by = 1 + (size_t)at % 2;
    for (int i = 0; i < 2; i++) {
        if (setup(&sides[i], w, bf16, (uint64_t)(100 * at)) < 0)
            return false;
        t->run(sides[i].k, sides[i].a, z);
    }
    const bool fine = cuda->state(why, sizeof(why)) == KERN_OK;
    if (fine)
        compare(score, &sides[0], &sides[1], w, bf16, z);
    else
        printf("FAILED %-16s %s\n", t->name, why);
    release(&sides[0]);
    release(&sides[1]);
    return fine;
}

/* The same with each array in turn at another place, where sizes are small. */
static bool check_each(struct score *score, const struct test *t, int at, const struct kern_ops *cuda, int bf16)
{
    enum { SMALL_SIZE = 6000 /* numbers that are compared */ };
    struct want w[ARRAYS] = {{0}};
    size_t all = 0;
    bool fine = true;
    t->arrays(w, t->sizes[at]);
    for (int i = 0; i < ARRAYS; i++)
        all += w[i].flags & OWN ? 0 : w[i].n;
    for (shifted = 0; shifted < ARRAYS && fine && all <= SMALL_SIZE; shifted++)
        fine = !w[shifted].n || check_size(score, t, at, cuda, bf16);
    return fine;
}

static int check(const struct test *t, const struct kern_ops *cuda, int bf16)
{
    struct score score = {-1, 0, 0, ""};
    int sizes = 0;
    for (; sizes < SIZES && t->sizes[sizes][0]; sizes++) {
        if (t->run == lin_run && t->sizes[sizes][3] > cuda->lin_attn_dim)
            continue; /* heads that a GPU of little shared memory has no room for */
        if (!(shifts_each() ? check_each : check_size)(&score, t, sizes, cuda, bf16))
            return 1;
    }
    const int bad = !passes(&score);
    printf("%s %-16s %d sizes; worst %.1e (%.0f %% of the bound): %s\n", bad ? "FAILED" : "ok    ",
           t->name, sizes, score.error, 100 * score.worst, score.where);
    return bad;
}

#include "tests/gpu/kernel_judge.h"

static const struct kern_profile *profile;

/* A line for tests/gpu/roofline.sh, of a call of the operation: as many launches, each as long as the shortest one. */
static void print_row(const struct kern_profile_row *r, int calls)
{
    char kernel[96], grid[40] = "-";
    snprintf(kernel, sizeof(kernel), "%s", r->kernel[0] ? r->kernel : "-");
    if (r->k)
        snprintf(kernel, sizeof(kernel), "%lldx%lldx%lld", (long long)r->m, (long long)r->n, (long long)r->k);
    if (r->grid[0])
        snprintf(grid, sizeof(grid), "%u,%u,%u", r->grid[0], r->grid[1], r->grid[2]);
    printf("profile %-20s %-44s %-13s %6ld %10.4f\n", r->op, kernel, grid, r->calls / calls,
           r->least * (double)(r->calls / calls));
}

/* Milliseconds of a call on the GPU, each kernel timed by events; below 0: it failed. */
static double time_calls(const struct test *t, const struct kern_ops *cuda, float **a)
{
    enum { CALLS = 10 };
    double ms = 0;
    int rows = 0;
    t->run(cuda, a, t->large); /* memory is allocated, algorithms are chosen */
    profile->start();
    for (int i = 0; i < CALLS; i++)
        t->run(cuda, a, t->large);
    const struct kern_profile_row *row = profile->stop(&rows);
    if (!row)
        return -1;
    for (int i = 0; i < rows; i++)
        ms += row[i].least * (double)(row[i].calls / CALLS);
    for (int i = 0; i < rows; i++)
        print_row(&row[i], CALLS);
    return ms;
}

/* The kernels of a test, the time of all of them, and the bytes of all arrays over that time. */
static int measure(const struct test *t, const struct kern_ops *cuda, int bf16)
{
    struct want w[ARRAYS] = {{0}};
    struct side s = {.k = cuda};
    char why[256];
    double bytes = 0;
    t->arrays(w, t->large);
    if (setup(&s, w, bf16, 1) < 0)
        return 1;
    for (int i = 0; i < ARRAYS; i++)
        bytes += (double)size_of(&s, &w[i]) * (double)w[i].n;
    const double ms = time_calls(t, cuda, s.a);
    if (cuda->state(why, sizeof(why)) != KERN_OK) {
        printf("FAILED %-16s %s\n", t->name, why);
        return 1;
    }
    printf("%-16s %9.3f ms  %8.1f GB/s over its arrays\n", t->name, ms, bytes / ms * 1e-6);
    release(&s);
    return 0;
}

static int call_once(const struct test *t, const int *z, const struct kern_ops *cuda, int bf16)
{
    struct want w[ARRAYS] = {{0}};
    struct side s = {.k = cuda};
    char why[256];
    t->arrays(w, z);
    if (setup(&s, w, bf16, 1) < 0)
        return 1;
    t->run(cuda, s.a, z);
    const bool failed = cuda->state(why, sizeof(why)) != KERN_OK;
    printf("%s %-16s %s\n", failed ? "FAILED" : "ok    ", t->name, failed ? why : "");
    release(&s);
    return failed;
}

static const struct kern_graphs *graphs; /* NULL: the plugin was told to do without */

/* Whether a recording is known to be void (cuda.h) once a call needs more scratch memory than those before. */
static int check_recordings(const struct kern_ops *cuda)
{
    unsigned moves[3];
    for (int i = 0; graphs && i < 3; i++) {
        const int z[DIMS] = {2 << (i > 0 ? 12 : 0), 8, 0};
        struct want w[ARRAYS] = {{0}};
        struct side s = {.k = cuda};
        rms_arrays(w, z);
        if (setup(&s, w, 0, 1) < 0)
            return 1;
        rms_run(cuda, s.a, z);
        moves[i] = graphs->moves();
        release(&s);
    }
    const bool bad = graphs && (moves[1] == moves[0] || moves[2] != moves[1]);
    printf("%s recordings       %s\n", bad ? "FAILED" : "ok    ",
           !graphs ? "none" : bad ? "are not void when they must be, or always" : "are void once scratch memory moves");
    return bad;
}

static int count_one(const struct test *t, const struct kern_ops *cuda, int bf16)
{
    return call_once(t, t->large, cuda, bf16);
}

/* So many samples, rows or numbers that the largest array has more than 2^32 numbers, or that an int holds no more. */
static int huge_one(const struct test *t, const struct kern_ops *cuda, int bf16)
{
    struct want w[ARRAYS] = {{0}};
    int z[DIMS];
    double most = 1;
    if (t->run == mod_run || t->run == rows_run || t->run == patch_run)
        return 0; /* few threads touch gigabytes: not here */
    memcpy(z, t->large, sizeof(z));
    t->arrays(w, z);
    for (int i = 0; i < ARRAYS; i++)
        most = fmax(most, (double)w[i].n);
    int *grows = &z[t->run == flow_run || t->run == draw_run ? 1 : 0];
    *grows = (int)fmin(*grows * ceil(0x1.08p32 / most), 0x1.fffffep30);
    fflush(stdout);
    const pid_t child = fork(); /* address space is not enough for all tests */
    int status = -1;
    if (child == 0) {
        status = call_once(t, z, cuda, bf16);
        fflush(stdout);
        _exit(status);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        printf("FAILED %-16s with arrays of more than 2^32 numbers\n", t->name);
    return status != 0;
}

static const char *refusal(int result)
{
    return result == KERN_CUDA_NO_DRIVER    ? "no NVIDIA driver: "
         : result == KERN_CUDA_NO_DEVICE    ? "no GPU: "
         : result == KERN_CUDA_OLD_DRIVER   ? "the NVIDIA driver is too old: "
         : result == KERN_CUDA_OTHER_BUILD  ? "the CUDA kernels and this program have different versions: "
         : result == KERN_CUDA_NO_LIBRARY   ? "cuBLASLt is missing: "
         : result == KERN_CUDA_NO_BF16      ? "the GPU has no bf16: "
                                            : "the GPU cannot be used: ";
}

/* Ends the program when there is nothing to check on, or no way to. */
static const struct kern_ops *open_plugin(const char *path, int bf16)
{
    struct kern_cuda c = {.ops_size = KERN_CUDA_SIZE,
                          .precision = bf16 ? KERN_BF16 : KERN_FP32};
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = lib ? dlsym(lib, "kern_cuda_open") : NULL;
    kern_cuda_open_fn door = NULL;
    memcpy(&door, &symbol, sizeof(door));
    if (!door) {
        fprintf(stderr, "check_kernels: the CUDA kernels cannot be loaded: %s; build them again\n", dlerror());
        exit(UNUSABLE);
    }
    const int r = door(&c);
    if (r != KERN_CUDA_READY) {
        fprintf(stderr, "check_kernels: %s%s\n", refusal(r), c.why);
        exit(r == KERN_CUDA_NO_DRIVER || r == KERN_CUDA_NO_DEVICE ? NO_DEVICE : UNUSABLE);
    }
    printf("%s, %s\n", c.name, c.ops->name);
    graphs = c.graphs;
    profile = c.profile;
    return c.ops;
}

/* 0: all its kernels are right. */
static int check_one(const char *name, const struct kern_ops *cuda, int bf16,
                     int (*one_test)(const struct test *, const struct kern_ops *, int))
{
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (strncmp(tests[i].name, name, strlen(name)) == 0)
            return one_test(&tests[i], cuda, bf16);
    if (strcmp(name, "recordings") == 0)
        return check_recordings(cuda);
    fprintf(stderr, "check_kernels: no test \"%s\"; the tests are: recordings", name);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        fprintf(stderr, ", %s", tests[i].name);
    fprintf(stderr, "\n");
    return WRONG_USAGE;
}

/* Goes on with test `next` in a new process, if the device is lost to this one. */
static void leave_if_lost(char **argv, const struct kern_ops *cuda, int timed, int next, int failed)
{
    char why[256], from[16], bad[16];
    const enum kern_state state = cuda->state(why, sizeof(why));
    if (state != KERN_FAULT && state != KERN_BROKEN)
        return;
    snprintf(from, sizeof(from), "%d", next);
    snprintf(bad, sizeof(bad), "%d", failed);
    char way[] = "--time", plain[] = "--check";
    char *const args[] = {argv[0], argv[1], argv[2], timed ? way : plain, from, bad, NULL};
    execv(argv[0], args);
    perror("check_kernels: cannot start again");
}

int main(int argc, char **argv)
{
    const int bf16 = argc > 2 && strcmp(argv[2], "bf16") == 0;
    const int timed = argc > 3 && strcmp(argv[3], "--time") == 0;
    int failed = argc > 5 ? atoi(argv[5]) : 0;
    const bool huge = argc > 3 && strcmp(argv[3], "--huge") == 0;
    counted = huge || (argc > 3 && strcmp(argv[3], "--count") == 0);
    if (argc == 2 && strcmp(argv[1], "--judge") == 0)
        return judge_all();
    if (argc < 3 || (!bf16 && strcmp(argv[2], "fp32") != 0)) {
        fprintf(stderr, "usage: check_kernels PLUGIN fp32|bf16 [--time | --count | --huge [TEST] | --only TEST]\n"
                        "       check_kernels --judge\n");
        return WRONG_USAGE;
    }
    const struct kern_ops *cuda = open_plugin(argv[1], bf16);
    const size_t count = sizeof(tests) / sizeof(tests[0]);
    if (argc == 5 && strcmp(argv[3], "--only") == 0)
        return check_one(argv[4], cuda, bf16, check);
    int (*const one_test)(const struct test *, const struct kern_ops *, int) = timed     ? measure
                                                                              : huge    ? huge_one
                                                                              : counted ? count_one
                                                                                        : check;
    if (argc == 5 && huge)
        return check_one(argv[4], cuda, bf16, huge_one);
    const int first = argc > 4 ? atoi(argv[4]) : 0;
    if (one_test == check && first == 0)
        failed += check_recordings(cuda); /* before the others have asked for memory */
    for (size_t i = (size_t)first; i < count; i++) {
        failed += one_test(&tests[i], cuda, bf16);
        fflush(stdout);
        leave_if_lost(argv, cuda, timed, (int)i + 1, failed);
    }
    if (!timed)
        printf("check_kernels: %d passed, %d failed\n", (int)count + 1 - failed, failed);
    return failed ? 1 : 0;
}
