/* SPDX-License-Identifier: Apache-2.0 */
/* kern_test.h - helpers of the kernel tests: every instruction set, random arrays, comparison
 *
 * A test is a function of (table of kernels, one row of sizes).  The reference
 * is naive and in double.  Arrays are followed by a guard: a kernel that writes past the end is detected even without a
 * sanitizer.
 */
#ifndef TESTS_KERN_TEST_H
#define TESTS_KERN_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "kernels/rng.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { GUARD = 32, ARRAYS = 64 };
#define GUARD_VALUE 12345.678f

struct kern_array {
    float *p;
    size_t n;
};

static struct kern_array arrays[ARRAYS];
static int arrays_used;
static uint64_t array_id;

/* n numbers, uniform in [-1, 1) times `scale`; freed by arrays_end(). */
static inline float *array_new(size_t n, double scale)
{
    assert_true(arrays_used < ARRAYS);
    float *p = malloc((n + GUARD) * sizeof(*p));
    assert_non_null(p);
    const struct rng r = rng_make(11, 0, ++array_id, RNG_TEST);
    rng_uniform(&r, p, 0, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)((2 * (double)p[i] - 1) * scale);
    for (size_t i = n; i < n + GUARD; i++)
        p[i] = GUARD_VALUE;
    arrays[arrays_used++] = (struct kern_array){p, n};
    return p;
}

static inline float *array_copy(const float *from, size_t n)
{
    float *p = array_new(n, 0);
    memcpy(p, from, n * sizeof(*p));
    return p;
}

static inline double *doubles_new(size_t n)
{
    double *p = calloc(n ? n : 1, sizeof(*p));
    assert_non_null(p);
    return p;
}

/* Checks all guards and frees all arrays. */
static inline void arrays_end(const char *what)
{
    for (int a = 0; a < arrays_used; a++) {
        for (size_t i = 0; i < GUARD; i++)
            if (arrays[a].p[arrays[a].n + i] != GUARD_VALUE)
                fail_msg("%s wrote %zu past the end of array %d", what, i, a);
        free(arrays[a].p);
    }
    arrays_used = 0;
}

/* Largest difference, relative to the largest number of the reference (or 1e-3). */
static inline void near(const char *what, const char *isa, const float *ours, const double *want,
                        size_t n, double tolerance)
{
    double most = 0, top = 1e-3;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)ours[i] - want[i]);
        if (!(d <= most)) {
            most = d;
            at = i;
        }
        top = fmax(top, fabs(want[i]));
    }
    if (!(most <= tolerance * top))
        fail_msg("%s (%s): [%zu of %zu] is %.9g, not %.9g", what, isa, at, n, (double)ours[at], want[at]);
}

/* Calls fn with every table this processor can run. */
static inline void each_isa(void (*fn)(const struct kern_ops *))
{
    int ran = 0;
    for (int isa = 0; isa < KERN_ISAS; isa++) {
        const struct kern_ops *k = kern_cpu_isa((enum kern_isa)isa);
        if (!k)
            continue;
        fn(k);
        ran++;
    }
    assert_true(ran > 0);
}

#endif
