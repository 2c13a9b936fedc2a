/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_judge.h - faults planted into the CPU's results, which the comparison must find; part of check_kernels.c */
#ifndef TESTS_GPU_KERNEL_JUDGE_H
#define TESTS_GPU_KERNEL_JUDGE_H

enum { NO_PLANT, PLANT_NAN, PLANT_INF, PLANT_WRONG, PLANT_ZEROS, PLANT_OLD, PLANT_SHORT, PLANTS };

/* How often a fault was shown, and found. */
struct tally {
    int shown, found;
};

static void plant_number(float *p, const struct want *w, double odd, size_t at)
{
    if (w->flags & DOUBLES)
        ((double *)(void *)p)[at] = odd;
    else
        p[at] = (float)odd;
}

/* The root of the mean square of an array, or 1 if that is less. */
static double scale_of(const float *p, const struct want *w, size_t n)
{
    double all = 0;
    for (size_t i = 0; i < n; i++)
        all += number_of(p, w, i) * number_of(p, w, i);
    return fmax(sqrt(all / (double)n), 1);
}

/* Into an array p of n numbers: an odd one; zeros; or what was there before the kernel, in all of it or behind its
 * last number but one. What is compared bit by bit gets one other bit in place of an odd number. False: that would
 * change nothing. */
static bool plant(float *p, const float *old, const struct want *w, int what, size_t n)
{
    const size_t bytes = w->n * sizeof(float), each = w->flags & DOUBLES ? sizeof(double) : sizeof(float);
    float *before = malloc(bytes);
    if (!before)
        abort();
    memcpy(before, p, bytes);
    const double odd[PLANTS] = {0, (double)NAN, (double)INFINITY, number_of(p, w, n - 1) + 0.5 * scale_of(p, w, n)};
    if (what == PLANT_ZEROS)
        memset(p, 0, bytes);
    else if (what == PLANT_OLD)
        memcpy(p, old, bytes);
    else if (what == PLANT_SHORT)
        memcpy((char *)p + (n - 1) * each, (const char *)old + (n - 1) * each, each);
    else if (w->flags & BITS)
        ((unsigned char *)p)[(what == PLANT_WRONG ? n - 1 : n / 2) * sizeof(float)] ^= 1;
    else
        plant_number(p, w, odd[what], what == PLANT_WRONG ? n - 1 : n / 2);
    const bool changed = memcmp(before, p, bytes) != 0;
    free(before);
    return changed;
}

/* Whether a score over all arrays, with something planted into array i, passes or fails as it should; what was not
 * written may by chance be right at one size, so that is only counted. */
static bool judged(const struct side *cpu, const struct want *w, int bf16, const int *z, int i, int what,
                   const float *old, struct tally *seen)
{
    struct score s = {-1, 0, 0, ""};
    bool planted = false;
    for (int k = 0; k < ARRAYS; k++) {
        const size_t n = w[k].flags & DOUBLES ? w[k].n / 2 : w[k].n;
        if (!n || w[k].flags & OWN)
            continue;
        float *copy = malloc(w[k].n * sizeof(*copy));
        if (!copy)
            abort();
        memcpy(copy, cpu->a[k], w[k].n * sizeof(*copy));
        if (k == i && what != NO_PLANT)
            planted = plant(copy, old, &w[k], what, n);
        compare_array(&s, copy, cpu->a[k], &w[k], bf16, z);
        free(copy);
    }
    seen->shown += planted;
    seen->found += planted && !passes(&s);
    if (passes(&s) == !planted || (what >= PLANT_OLD && planted))
        return true;
    printf("FAILED judge: %s of %s, fault %d, %s: %g of the bound\n", w[i].what, i ? "its test" : "the first array",
           what, bf16 ? "bf16" : "fp32", s.worst);
    return false;
}

/* A NaN, an infinity and a wrong number in each array of each test at each size, found by the comparison, and so an
 * array of zeros; at one size or another, an array that was not written, or not to its end; and nothing where nothing
 * is planted. The CPU's arrays stand for both sides. */
static int judge_arrays(const struct side *cpu, const struct want *w, const int *z, uint64_t id,
                        struct tally (*seen)[2 * PLANTS])
{
    int bad = 0;
    for (int i = 0; i < ARRAYS; i++) {
        float *old = w[i].n ? malloc(w[i].n * sizeof(*old)) : NULL;
        if (!old)
            continue;
        fill(old, &w[i], 0, id + (uint64_t)i);
        for (int k = 0; k < 2 * PLANTS && !(w[i].flags & OWN); k++)
            bad += !judged(cpu, w, k / PLANTS, z, i, k % PLANTS, old, &seen[i][k]);
        free(old);
    }
    return bad;
}

static int judge(const struct test *t, long *planted)
{
    struct tally seen[ARRAYS][2 * PLANTS] = {{{0, 0}}};
    struct want w[ARRAYS];
    int bad = 0;
    for (int n = 0; n < SIZES && t->sizes[n][0]; n++) {
        struct side cpu = {.k = kern_cpu()};
        memset(w, 0, sizeof(w));
        t->arrays(w, t->sizes[n]);
        if (setup(&cpu, w, 0, (uint64_t)(100 * n)) < 0)
            return 1;
        t->run(cpu.k, cpu.a, t->sizes[n]);
        bad += judge_arrays(&cpu, w, t->sizes[n], (uint64_t)(100 * n), seen);
        release(&cpu);
    }
    for (int i = 0; i < ARRAYS * 2 * PLANTS; i++) {
        const struct tally *one = &seen[i / (2 * PLANTS)][i % (2 * PLANTS)];
        *planted += one->shown;
        if (!one->shown || one->found)
            continue;
        printf("FAILED judge: %s of %s, fault %d, is found at no size\n", w[i / (2 * PLANTS)].what, t->name,
               i % PLANTS);
        bad++;
    }
    return bad;
}

static int judge_all(void)
{
    long planted = 0;
    int bad = 0;
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        bad += judge(&tests[i], &planted);
    printf("the judge was shown %ld arrays with a fault: %d judged wrongly\n", planted, bad);
    return bad || !planted;
}

#endif
