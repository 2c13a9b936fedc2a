/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss_log.c - the loss log stays consistent across restarts */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/train/loss_log.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256], path[300];

static int make_dir(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "metrics");
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

struct point {
    int64_t step;
    double  loss;
};

/* The finite losses of a file. */
static int read_points(struct point *p, int most, const char *from)
{
    char line[300];
    int n = 0;
    FILE *f = fopen(from, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        long long step;
        double loss;
        assert_int_equal(sscanf(line, "{\"step\":%lld,\"loss\":%lf", &step, &loss), 2);
        assert_true(n < most);
        p[n] = (struct point){step, loss};
        n += isfinite(loss);
    }
    fclose(f);
    return n;
}

static void run(int64_t from, int64_t to, int64_t steps, double scale)
{
    struct loss_log *m;
    struct err err = {0};
    m = loss_log_open(path, from, steps, &err);
    assert_int_equal(err.code, ERR_NONE);
    for (int64_t k = from + 1; k <= to; k++)
        assert_int_equal(loss_log_add(m, k, k == 5 ? NAN : scale * (double)k, 1, 1, 1, &err), 0);
    loss_log_close(m);
}

static void what_a_crash_undid_is_cut(void **state)
{
    (void)state;
    struct point p[100];
    int n;
    run(0, 23, 40, 1);
    FILE *f = fopen(path, "a"); /* the line being written when it died */
    fputs("{\"step\":24,\"lo", f);
    fclose(f);
    run(17, 40, 40, 2);
    n = read_points(p, 100, path);
    assert_int_equal(n, 39); /* without the NaN of step 5 */
    for (int i = 0; i < n; i++) {
        int64_t step = i < 4 ? i + 1 : i + 2;
        assert_int_equal(p[i].step, step);
        assert_true(p[i].loss == (step <= 17 ? 1 : 2) * (double)step);
    }
    unlink(path);
}

/* Its folder is not there yet: each line that cannot be written is told, and the rest is. */
static void a_log_that_cannot_be_opened_is_tried_again(void **state)
{
    (void)state;
    char sub[300], in[320];
    struct point p[4];
    struct err err = {0}, at = {0}, no = {0};
    snprintf(sub, sizeof(sub), "%s/later", dir);
    snprintf(in, sizeof(in), "%s/metrics.jsonl", sub);
    struct loss_log *m = loss_log_open(in, 0, 4, &err);
    assert_non_null(m);
    assert_int_equal(err.code, ERR_SYSTEM);
    assert_int_equal(loss_log_add(m, 1, 1, 1, 1, 1, &at), -1);
    assert_int_equal(at.code, ERR_SYSTEM);
    assert_int_equal(mkdir(sub, 0700), 0);
    for (int64_t k = 2; k <= 4; k++)
        assert_int_equal(loss_log_add(m, k, 1, 1, 1, 1, &no), 0);
    loss_log_close(m);
    assert_int_equal(read_points(p, 4, in), 3);
    unlink(in);
    rmdir(sub);
}

static void a_long_run_is_thinned(void **state)
{
    (void)state;
    static struct point p[LOSS_LOG_LINES];
    run(0, 9001, 9001, 1);
    const int n = read_points(p, LOSS_LOG_LINES, path);
    assert_in_range(n, 2900, LOSS_LOG_LINES);
    assert_int_equal(p[n - 1].step, 9001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_crash_undid_is_cut),
        cmocka_unit_test(a_log_that_cannot_be_opened_is_tried_again),
        cmocka_unit_test(a_long_run_is_thinned),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
