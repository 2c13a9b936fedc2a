/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads.c - random numbers and the kernels of Next-DiT are the same to the bit with any number of threads
 *
 * The number of threads is fixed when a process starts, so this program runs
 * itself, as `test_threads digest`, once per number.
 */
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/kernels/kern_test.h"

enum { B = 2, N = 150, H = 6, DIM = 24, C = H * DIM, LD = 3 * C, ROWS = B * N, ALL = ROWS * C };

static uint64_t digest;

static void add(const struct kern_ops *k, const float *p, size_t n)
{
    digest = k->digest(p, n * sizeof(*p), digest);
}

static void norms(const struct kern_ops *k)
{
    float *x = array_new(ALL, 1), *w = array_new(C, 1), *b = array_new(C, 1);
    float *y = array_new(ALL, 1), *dx = array_new(ALL, 1), *dy = array_new(ALL, 1);
    float *dw = array_new(C, 1), *db = array_new(C, 1), *stats = array_new(2 * (size_t)ROWS, 1);
    float *mod = array_new((size_t)B * LD, 1), *dmod = array_new((size_t)B * LD, 1);
    const struct kern_rope turned = {array_new(N * DIM / 2, 1), array_new(N * DIM / 2, 1), {B, N, H, DIM}};
    k->layer_norm(y, C, stats, x, C, w, b, ROWS, C, 1e-5f);
    k->layer_norm_back(dx, C, dw, db, dy, C, x, C, stats, w, ROWS, C);
    add(k, y, ALL);
    add(k, dx, ALL);
    k->layer_norm_rope(y, C, stats, x, C, w, b, turned, 1e-5f);
    k->layer_norm_rope_back(dx, C, dw, db, dy, C, x, C, stats, w, turned);
    add(k, y, ALL);
    add(k, dx, ALL);
    k->rms_mod(y, stats, x, w, mod, LD, B, N, C, 1e-5f);
    k->rms_mod_back(dx, dw, dmod, dy, x, stats, w, mod, LD, B, N, C);
    add(k, y, ALL);
    add(k, dx, ALL);
    k->rms_gate(y, stats, x, dy, w, mod + C, LD, B, N, C, 1e-5f);
    k->rms_gate_back(dx, dw, dmod + C, x, dy, stats, w, mod + C, LD, B, N, C);
    add(k, y, ALL);
    add(k, dx, ALL);
    add(k, dw, C);
    add(k, db, C);
    add(k, dmod, (size_t)B * LD);
    arrays_end("norms");
}

static void heads(const struct kern_ops *k)
{
    static const int first[] = {0, 9, ROWS};
    const struct kern_heads s = {B, N, H, DIM};
    float *x = array_new(ALL, 1), *a = array_new(ALL, 1), *y = array_new(ALL, 1);
    float *db = array_new(ALL, 1), *gate = array_new(H, 1), *dgate = array_new(H, 1);
    float *mean = array_new((size_t)B * C, 1);
    const float *real = array_new(N * DIM / 2, 1), *imag = array_new(N * DIM / 2, 1);
    k->rope(x, C, real, imag, false, s);
    k->head_gate(y, a, x, gate, ROWS, H, DIM);
    add(k, y, ALL);
    k->head_gate_back(x, dgate, a, x, gate, ROWS, H, DIM);
    k->swiglu(y, a, ROWS, C / 2 - 4, C / 2 + 4);
    add(k, y, (size_t)ROWS * (C / 2 - 4));
    k->swiglu_back(db, y, a, ROWS, C / 2 - 4, C / 2 + 4);
    k->pool(mean, a, first, ROWS - 9, B, C);
    add(k, x, ALL);
    add(k, a, ALL);
    add(k, db, ALL);
    add(k, dgate, H);
    add(k, mean, (size_t)B * C);
    arrays_end("heads");
}

/* More keys and queries than one block, and two query heads per key head. */
static void attention(const struct kern_ops *k)
{
    enum { K = C / 2 };
    static const int first[] = {0, 1, ROWS};
    const struct kern_heads s = {B, N, H, DIM};
    const struct kern_keys t = {first, ROWS - 1, H / 2};
    float *q = array_new(ALL, 2), *keys = array_new(ALL, 2), *out = array_new(ALL, 1);
    float *kept = array_new((size_t)ROWS * H, 1), *dq = array_new(ALL, 1);
    float *dkv = array_new(ALL, 1);
    const float *dout = array_new(ALL, 1);
    k->attend(out, kept, q, keys, C, keys + K, C, t, s);
    k->attend_back(dq, dkv, dkv + K, C, dout, out, kept, q, keys, C, keys + K, C, t, s);
    add(k, out, ALL);
    add(k, kept, (size_t)ROWS * H);
    add(k, dq, ALL);
    add(k, dkv, ALL);
    arrays_end("attention");
}

static void numbers(const struct kern_ops *k)
{
    const struct rng r = rng_make(3, 1, 4, RNG_WEIGHTS);
    float *x = array_new(ALL, 0);
    rng_uniform(&r, x, 3, ALL);
    add(k, x, ALL);
    rng_normal(&r, x, 3, ALL);
    add(k, x, ALL);
    arrays_end("numbers");
}

static int print_digest(void)
{
    numbers(kern_cpu());
    norms(kern_cpu());
    heads(kern_cpu());
    attention(kern_cpu());
    printf("%016llx\n", (unsigned long long)digest);
    return 0;
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    char first[64] = "", line[64], command[600], self[500];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = 0;
    for (int threads = 1; threads <= 5; threads++) {
        snprintf(command, sizeof(command), "OMP_NUM_THREADS=%d '%s' digest", threads, self);
        FILE *f = popen(command, "r");
        assert_non_null(f);
        assert_non_null(fgets(line, sizeof(line), f));
        assert_int_equal(pclose(f), 0);
        if (threads == 1)
            memcpy(first, line, sizeof(line));
        assert_string_equal(line, first);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_do_not_change_a_bit)};
    if (argc > 1 && strcmp(argv[1], "digest") == 0)
        return print_digest();
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
