/* SPDX-License-Identifier: Apache-2.0 */
/* test_spool.c - nothing that was synced is lost: acks, crashes, torn ends, a full file */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/attempt/spool.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[80], path[100];

static int up(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "spool");
    snprintf(path, sizeof(path), "%s/spool", dir);
    return 0;
}

static int down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static struct spool *open_spool(size_t bytes)
{
    struct err err = {0};
    struct spool *s;
    if (spool_open(&s, path, bytes, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

static int append(struct spool *s, const char *kind, bool droppable)
{
    struct err err = {0};
    json_t *e = json_pack("{s:s}", "kind", kind);
    int rc = spool_append(s, e, droppable, &err);
    if (rc < 0)
        fail_msg("%s", err.text);
    json_decref(e);
    return rc;
}

static int64_t next_seq(struct spool *s, int64_t after)
{
    json_t *e;
    assert_int_equal(spool_next(s, after, &e, NULL), 0);
    int64_t seq = e ? json_integer_value(json_object_get(e, "seq")) : 0;
    json_decref(e);
    return seq;
}

struct seen {
    int64_t first, last, count;
};

static int note(void *arg, const json_t *event)
{
    struct seen *seen = arg;
    seen->last = json_integer_value(json_object_get(event, "seq"));
    if (!seen->count++)
        seen->first = seen->last;
    return 0;
}

static struct seen read_after(int64_t seq)
{
    struct seen seen = {0};
    int given = spool_read(path, seq, note, &seen, NULL);
    assert_int_equal(given, seen.count);
    return seen;
}

static void events_are_kept_until_acknowledged(void **state)
{
    (void)state;
    struct spool *s = open_spool(65536);
    assert_int_equal(spool_last(s), 0);
    assert_int_equal(next_seq(s, 0), 0);
    for (int i = 0; i < 5; i++)
        append(s, "facts", false);
    assert_int_equal(spool_last(s), 5);
    assert_int_equal(next_seq(s, 0), 1);
    assert_int_equal(next_seq(s, 1), 2);
    assert_int_equal(next_seq(s, 0), 1); /* again from the start */
    assert_int_equal(next_seq(s, 4), 5);
    assert_int_equal(next_seq(s, 5), 0);
    spool_ack(s, 3);
    assert_int_equal(next_seq(s, 0), 4);
    spool_ack(s, 2); /* late: no step back */
    assert_int_equal(spool_acked(s), 3);
    spool_ack(s, 99);
    assert_int_equal(spool_acked(s), 5);
    assert_int_equal(next_seq(s, 0), 0);
    append(s, "plan", false);
    assert_int_equal(next_seq(s, 5), 6);
    /* the old record 2 lies behind the new record 6, and must not be read */
    assert_int_equal(read_after(0).count, 1);
    spool_close(s);
}

static void a_dead_agents_spool_goes_on(void **state)
{
    (void)state;
    struct spool *s = open_spool(65536);
    for (int i = 0; i < 7; i++)
        append(s, "facts", false);
    spool_ack(s, 2);
    assert_int_equal(spool_sync(s, NULL), 0);
    spool_close(s);
    struct seen seen = read_after(2);
    assert_int_equal(seen.first, 3);
    assert_int_equal(seen.last, 7);
    assert_int_equal(read_after(7).count, 0);
    s = open_spool(65536);
    assert_int_equal(spool_acked(s), 2);
    assert_int_equal(next_seq(s, 2), 3);
    append(s, "plan", false);
    assert_int_equal(spool_last(s), 8);
    spool_close(s);
}

static void a_finished_spool_is_small(void **state)
{
    (void)state;
    struct spool *s = open_spool(65536);
    append(s, "facts", false);
    append(s, "facts", false);
    spool_ack(s, 2);
    spool_close(s);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 4096);
    assert_int_equal(read_after(0).count, 0);
    s = open_spool(65536);
    assert_int_equal(spool_last(s), 2);
    append(s, "plan", false);
    assert_int_equal(read_after(0).last, 3);
    spool_close(s);
}

static void a_torn_end_is_not_read(void **state)
{
    (void)state;
    struct spool *s = open_spool(65536);
    append(s, "one", false);
    append(s, "two", false);
    spool_close(s);
    /* each byte of the second record damaged in turn: the first is always read */
    int fd = open(path, O_RDWR);
    off_t at = 4096 + 16 + 24; /* {"kind":"one","seq":1} padded */
    for (off_t i = 0; i < 16 + 22; i++) {
        char was, bad;
        assert_int_equal(pread(fd, &was, 1, at + i), 1);
        bad = (char)(was ^ 0x41);
        assert_int_equal(pwrite(fd, &bad, 1, at + i), 1);
        struct seen seen = read_after(0);
        if (seen.count != 1 || seen.last != 1)
            fail_msg("byte %d: %d events", (int)i, (int)seen.count);
        assert_int_equal(pwrite(fd, &was, 1, at + i), 1);
    }
    assert_int_equal(read_after(0).count, 2);
    char bad = 'X';
    assert_int_equal(pwrite(fd, &bad, 1, at + 20), 1);
    close(fd);
    s = open_spool(65536); /* and appending goes on after the last whole one */
    append(s, "new two", false);
    spool_close(s);
    struct seen seen = read_after(0);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.last, 2);
}

static void steps_are_thinned_others_never(void **state)
{
    (void)state;
    struct spool *s = open_spool(16384);
    int steps = 0, tried = 5000;
    for (int i = 0; i < tried; i++)
        steps += append(s, "step", true) == 0;
    assert_true(steps > 100 && steps < 1000);
    assert_int_equal(spool_last(s), steps); /* no gaps */
    for (int i = 0; i < 1000; i++)
        assert_int_equal(append(s, "rank_exited", false), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 16384);
    assert_int_equal(spool_last(s), steps + 1000);
    struct seen seen = read_after(0);
    assert_int_equal(seen.count, steps + 1000);
    assert_int_equal(next_seq(s, 500), 501);
    spool_close(s);
}

static void a_long_life_in_a_small_file(void **state)
{
    (void)state;
    struct spool *s = open_spool(16384);
    for (int64_t i = 1; i <= 20000; i++) {
        append(s, "checkpoint", false);
        if (i % 7 == 0)
            spool_ack(s, i - 3);
    }
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 16384);
    assert_int_equal(next_seq(s, 0), spool_acked(s) + 1);
    assert_int_equal(read_after(spool_acked(s)).last, 20000);
    spool_close(s);
}

static void strange_files_are_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct spool *s;
    assert_int_equal(spool_read(path, 0, note, NULL, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    FILE *f = fopen(path, "w");
    fputs("something else of more than sixteen bytes\n", f);
    fclose(f);
    err = (struct err){0};
    assert_int_equal(spool_open(&s, path, 65536, &err), -1);
    assert_int_equal(err.code, ERR_DATA);
    assert_int_equal(spool_read(path, 0, note, NULL, NULL), -1);
}

/* Files take nothing beyond so many bytes. */
static void room(rlim_t bytes)
{
    struct rlimit r;
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* The disk refuses events: the controller gets them all the same, and the disk once it takes them. */
static void refused_events_are_held(void **state)
{
    struct err err = {0};
    struct spool *s = open_spool(65536);
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(append(s, "one", false), 0);
    room(4096);
    assert_int_equal(append(s, "two", false), 0);
    assert_int_equal(append(s, "three", false), 0);
    assert_int_equal(append(s, "step", true), 1);
    assert_int_equal(spool_sync(s, &err), -1);
    assert_int_equal(spool_held(s), 2);
    assert_non_null(strstr(err.text, "2 events are in memory only: cannot write to the spool"));
    for (int64_t seq = 0; seq < 3; seq++)
        assert_int_equal(next_seq(s, seq), seq + 1);
    assert_int_equal(next_seq(s, 3), 0);
    spool_ack(s, 2);
    assert_int_equal(next_seq(s, 2), 3);
    room(RLIM_INFINITY);
    assert_int_equal(append(s, "four", false), 0);
    assert_int_equal(spool_sync(s, NULL), 0);
    assert_int_equal(spool_held(s), 0);
    spool_close(s);
    s = open_spool(65536);
    assert_int_equal(spool_last(s), 4);
    assert_int_equal(next_seq(s, 2), 3);
    assert_int_equal(next_seq(s, 3), 4);
    spool_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_are_kept_until_acknowledged),
        TEST(a_dead_agents_spool_goes_on),
        TEST(a_finished_spool_is_small),
        TEST(a_torn_end_is_not_read),
        TEST(steps_are_thinned_others_never),
        TEST(a_long_life_in_a_small_file),
        TEST(strange_files_are_refused),
        TEST(refused_events_are_held),
    };
    return cmocka_run_group_tests_name("spool", tests, NULL, NULL);
}
