/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss_log.c - losses in a file that tells one story; the curve drawn from it */
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

#include "engine/contract/err.h"
#include "engine/data/image.h"
#include "engine/train/curve.h"
#include "engine/train/loss_log.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256], path[300], png[300];

static int make_dir(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "metrics");
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    snprintf(png, sizeof(png), "%s/curve.png", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    unlink(png);
    return rmdir(dir);
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
    struct loss_log_point *p;
    struct err err = {0};
    int n;
    run(0, 23, 40, 1);
    FILE *f = fopen(path, "a"); /* the line being written when it died */
    fputs("{\"step\":24,\"lo", f);
    fclose(f);
    run(17, 40, 40, 2);
    assert_int_equal(loss_log_read(&p, &n, path, &err), 0);
    assert_int_equal(n, 39); /* without the NaN of step 5 */
    for (int i = 0; i < n; i++) {
        int64_t step = i < 4 ? i + 1 : i + 2;
        assert_int_equal(p[i].step, step);
        assert_true(p[i].loss == (step <= 17 ? 1 : 2) * (double)step);
    }
    free(p);
    unlink(path);
    assert_int_equal(loss_log_read(&p, &n, path, &err), -1);
}

/* Its folder is not there yet: each line that cannot be written is told, and the rest is. */
static void a_log_that_cannot_be_opened_is_tried_again(void **state)
{
    (void)state;
    char sub[300], in[320];
    struct loss_log_point *p;
    struct err err = {0}, at = {0}, no = {0};
    int n;
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
    assert_int_equal(loss_log_read(&p, &n, in, &no), 0);
    assert_int_equal(n, 3);
    free(p);
    unlink(in);
    rmdir(sub);
}

static void a_long_run_is_thinned(void **state)
{
    (void)state;
    struct loss_log_point *p;
    struct err err = {0};
    int n;
    run(0, 9001, 9001, 1);
    assert_int_equal(loss_log_read(&p, &n, path, &err), 0);
    assert_in_range(n, 2900, LOSS_LOG_LINES);
    assert_int_equal(p[n - 1].step, 9001);
    free(p);
}

/* Rows of the printed curve that carry ink, as they go down from left to right. */
static void a_falling_loss_falls_on_the_screen(void **state)
{
    (void)state;
    struct loss_log_point p[500];
    char *text = NULL;
    size_t size = 0;
    for (int i = 0; i < 500; i++)
        p[i] = (struct loss_log_point){i + 1, exp(-i / 100.0)};
    FILE *f = open_memstream(&text, &size);
    curve_print(f, p, 500, 60, 10, false);
    fclose(f);
    int row = 0, column = -1;
    for (char *line = strtok(text, "\n"); line && row < 10; line = strtok(NULL, "\n"), row++) {
        char *ink = strchr(line, '*');
        assert_non_null(ink);
        assert_true(ink - line > column);
        column = (int)(ink - line);
        for (const char *c = line; *c; c++)
            assert_true((unsigned char)*c < 0x80);
    }
    assert_int_equal(row, 10);
    free(text);
    struct err err = {0};
    struct image im;
    for (int n = 1; n <= 500; n += 499) {
        assert_int_equal(curve_png(p, n, png, &err), 0);
        assert_int_equal(image_read(&im, png, &err), 0);
        assert_int_equal(im.width, 960);
        image_free(&im);
    }
    f = open_memstream(&text, &size);
    for (int width = 0; width < 500; width += 61) {
        curve_print(f, p, 500, width, 7, true);
        curve_print(f, p, 1, width, 1, true);
    }
    fclose(f);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_crash_undid_is_cut),
        cmocka_unit_test(a_log_that_cannot_be_opened_is_tried_again),
        cmocka_unit_test(a_long_run_is_thinned),
        cmocka_unit_test(a_falling_loss_falls_on_the_screen),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
