/* SPDX-License-Identifier: Apache-2.0 */
/* test_sample_log.c - logs of a changing set of ranks pass the audit; errors are named */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/data/sample_audit.h"
#include "engine/data/sample_log.h"
#include "engine/files/safetensors.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { BATCH = 4, WIDE = 7, TALL = 5, SAMPLES = WIDE + TALL };

static char dir[256], logs[300];
static struct dataset *data;

static int put_shard(const char *name, int64_t n, int64_t height, int64_t width)
{
    static const float zeros[256];
    struct st_writer *w;
    char path[300];
    int64_t bytes;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (st_writer_create(&w, NULL) < 0 ||
        st_writer_add(w, "latent", ST_F32, 4, (int64_t[]){n, 1, height, width}, zeros, NULL) < 0 ||
        st_writer_add(w, "caption", ST_F32, 3, (int64_t[]){n, 2, 2}, zeros, NULL) < 0 ||
        st_writer_add(w, "mask", ST_F32, 2, (int64_t[]){n, 2}, zeros, NULL) < 0 ||
        st_writer_write(w, fd, &bytes, NULL) < 0)
        return -1;
    close(fd);
    st_writer_destroy(w);
    return 0;
}

static int make_data(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "samplelog");
    if (put_shard("a.safetensors", TALL, 4, 2) < 0 ||
        put_shard("b.safetensors", WIDE, 2, 4) < 0)
        return -1;
    struct train_spec s = {.encoders = ENCODERS_FEATURES, .multi_scale = true};
    snprintf(s.data_path, sizeof(s.data_path), "%s", dir);
    snprintf(logs, sizeof(logs), "%s/logs", dir);
    return dataset_open(&data, &s, NULL, NULL, NULL);
}

static int remove_data(void **state)
{
    (void)state;
    dataset_close(data);
    return scratch_remove(dir, NULL);
}

/* `world` ranks run from one step to another. */
static void run(int64_t from, int64_t to, int world)
{
    static const int64_t sizes[] = {WIDE, TALL};
    struct batch_plan *p;
    struct batch_slot s[BATCH];
    struct sample_log *l;
    struct err err = {0};
    assert_int_equal(batch_plan_create(&p, 3, BATCH, sizes, 2, &err), 0);
    for (int rank = 0; rank < world; rank++) {
        int first = BATCH * rank / world, end = BATCH * (rank + 1) / world;
        l = sample_log_open(logs, rank, world, from, &err);
        assert_int_equal(err.code, ERR_NONE);
        for (int64_t step = from; step < to; step++) {
            sample_log_begin(l);
            for (int i = first; i < end; i++) { /* a sample at a time, as a micro-batch of one */
                batch_plan_slots(p, s, step, i, 1);
                assert_int_equal(sample_log_add(l, s, 1, 2, 4, &err), 0);
            }
            assert_int_equal(sample_log_commit(l, step + 1, &err), 0);
        }
        assert_int_equal(sample_log_sync(l, &err), 0);
        sample_log_close(l);
    }
    batch_plan_destroy(p);
}

static char told[4096];

static void on_bad(void *arg, const char *where, const char *what)
{
    (void)arg;
    size_t n = strlen(told);
    snprintf(told + n, sizeof(told) - n, "%s: %s\n", where, what);
}

static struct sample_audit account(void)
{
    struct sample_audit a;
    struct err err = {0};
    told[0] = '\0';
    if (sample_audit_make(&a, logs, data, BATCH, on_bad, NULL, &err) < 0)
        fail_msg("%s", err.text);
    return a;
}

static void says(const char *text)
{
    if (!strstr(told, text))
        fail_msg("told: %s\nexpected: %s", told, text);
}

static void steps_after_the_checkpoint_do_not_count(void **state)
{
    (void)state;
    run(0, 9, 3);   /* killed after step 9; its checkpoint is of step 6 */
    run(6, 14, 1);
    run(11, 20, 4);
    run(18, 30, 2);
    struct sample_audit a = account();
    assert_string_equal(told, "");
    assert_int_equal(a.wrong, 0);
    assert_int_equal(a.first, 1);
    assert_int_equal(a.last, 30);
    assert_int_equal(a.samples, 30 * BATCH);
    assert_int_equal(a.epochs, 30 * BATCH / SAMPLES - 1); /* epoch 9 is incomplete in one bucket */
    assert_int_equal(a.sizes, 4);
}

static void append(int rank, const char *line)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/rank-%05d.jsonl", logs, rank);
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fputs(line, f);
    fclose(f);
}

static void audit_errors_are_named(void **state)
{
    (void)state;
    run(0, 12, 2);
    assert_int_equal(account().wrong, 0);
    append(1, "{\"step\":12,\"rank\":1,\"world\":2,\"epochs\":[0],\"samples\":[0]}\n");
    assert_true(account().wrong >= 2);
    says("step 12, rank 1 of 2: sample 0 occurs twice in epoch 0");
    says("step 12: 5 samples instead of 4");
    run(0, 12, 2);
    append(0, "{\"step\":14,\"rank\":0,\"world\":2,\"epochs\":[99,9,9],\"samples\":[12,-1,1]}\n");
    account();
    says("step 14, rank 0 of 2: sample 12 of epoch 99 does not exist");
    says("sample -1 of epoch 9 does not exist");
    says("step 13: 0 samples instead of 4");
    says("epoch 8, bucket 2x4: 0 of 7 samples");
    run(0, 12, 2);
    append(0, "{\"step\":13,\"rank\":0,\"world\":2,\"epochs\":[40,40],\"samples\":[1,8]}\n");
    account();
    says("sample 8 belongs to a different bucket from the rest of the step");
    /* a half-written last line is ignored; a damaged line is an error */
    run(0, 12, 2);
    append(0, "{\"step\":13,\"rank\":0,\"wor");
    assert_int_equal(account().wrong, 0);
    append(0, "\n");
    struct sample_audit a;
    struct err err = {0};
    assert_int_equal(sample_audit_make(&a, logs, data, BATCH, on_bad, NULL, &err), -1);
    assert_non_null(strstr(err.text, "rank-00000.jsonl:13 is not a line of a sample log"));
    run(12, 13, 2); /* and the next start truncates the file there */
    assert_int_equal(account().wrong, 0);
    assert_int_equal(account().last, 13);
}

static void a_log_may_begin_in_the_middle(void **state)
{
    (void)state;
    assert_int_equal(scratch_remove(logs, NULL), 0);
    run(7, 19, 2);
    struct sample_audit a = account();
    assert_int_equal(a.wrong, 0);
    assert_int_equal(a.first, 8);
}

/* A file is where its folder should be: what cannot be written waits, and no line is lost. */
static void lines_wait_for_the_disk(void **state)
{
    (void)state;
    const struct batch_slot s = {.sample = 1};
    struct err err = {0};
    char line[300], in[320];
    assert_int_equal(scratch_remove(logs, NULL), 0);
    FILE *f = fopen(logs, "w");
    assert_non_null(f);
    fclose(f);
    struct sample_log *l = sample_log_open(logs, 0, 1, 0, &err);
    assert_non_null(l);
    assert_int_equal(err.code, ERR_SYSTEM);
    for (int64_t step = 1; step <= 4; step++) {
        struct err at = {0};
        if (step == 3)
            assert_int_equal(unlink(logs), 0);
        sample_log_begin(l);
        assert_int_equal(sample_log_add(l, &s, 1, 2, 4, &at), 0);
        assert_int_equal(sample_log_commit(l, step, &at), step < 3 ? -1 : 0);
        assert_int_equal(sample_log_sync(l, &at), 0);
    }
    sample_log_close(l);
    snprintf(in, sizeof(in), "%s/rank-00000.jsonl", logs);
    f = fopen(in, "r");
    assert_non_null(f);
    for (int step = 1; step <= 4; step++) {
        char want[32];
        snprintf(want, sizeof(want), "{\"step\":%d,", step);
        assert_non_null(fgets(line, sizeof(line), f));
        assert_int_equal(strncmp(line, want, strlen(want)), 0);
    }
    assert_null(fgets(line, sizeof(line), f));
    fclose(f);
}

/* A disk that is full in the middle of a line: an error, not a wait; the line is whole once there is room. */
static void a_full_disk_cuts_no_line(void **state)
{
    (void)state;
    const struct batch_slot s = {.sample = 1};
    struct err err = {0};
    struct rlimit was;
    char in[320], text[1000];
    assert_int_equal(scratch_remove(logs, NULL), 0);
    struct sample_log *l = sample_log_open(logs, 0, 1, 0, &err);
    assert_non_null(l);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    alarm(60); /* ends a loop of writes that fail */
    for (int64_t step = 1; step <= 3; step++) {
        struct err at = {0};
        const struct rlimit full = {.rlim_cur = 100, .rlim_max = was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, step < 3 ? &full : &was), 0);
        sample_log_begin(l);
        assert_int_equal(sample_log_add(l, &s, 1, 2, 4, &at), 0);
        assert_int_equal(sample_log_commit(l, step, &at), step == 2 ? -1 : 0);
        assert_int_equal(at.errnum, step == 2 ? EFBIG : 0);
    }
    alarm(0);
    signal(SIGXFSZ, SIG_DFL);
    sample_log_close(l);
    snprintf(in, sizeof(in), "%s/rank-00000.jsonl", logs);
    const int fd = open(in, O_RDONLY);
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    assert_true(n > 100);
    text[n] = '\0';
    close(fd);
    static const char row[] = "{\"step\":%d,\"rank\":0,\"world\":1,\"height\":2,\"width\":4,\"epochs\":[0],"
                              "\"samples\":[1]}\n";
    char want[1000];
    int at = 0;
    for (int step = 1; step <= 3; step++)
        at += snprintf(want + at, sizeof(want) - (size_t)at, row, step);
    assert_string_equal(text, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_after_the_checkpoint_do_not_count),
        cmocka_unit_test(audit_errors_are_named),
        cmocka_unit_test(a_log_may_begin_in_the_middle),
        cmocka_unit_test(lines_wait_for_the_disk), cmocka_unit_test(a_full_disk_cuts_no_line),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
