/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease.c - one holder at a time, whoever dies, and a live holder never loses its lease */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/os/lease.h"
#include "engine/base/err.h"
#include "engine/contract/fence.h"
#include "engine/base/json_seal.h"
#include "engine/base/scratch.h"
#include "tests/unit/engine/contract/scratch_dir.h"

#define ORIGIN "0123456789abcdef0123456789abcdef"
enum { PATIENCE = 300 };

static char dir[256], path[300], waited[512];

static void on_wait(void *arg, const char *text)
{
    (void)arg;
    snprintf(waited, sizeof(waited), "%s", text);
}

static const struct lease_taker mirror = {.origin = ORIGIN, .name = "", .home = "", .mirror = true};

static int take(struct lease *l, struct err *err)
{
    waited[0] = '\0';
    return lease_take(l, dir, &mirror, PATIENCE, on_wait, NULL, err);
}

static int make(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "lease");
    snprintf(path, sizeof(path), "%s/lease.json", dir);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    return scratch_remove(dir, NULL);
}

/* The file as another machine would have left it. */
static void edit(const char *key, json_t *value)
{
    json_t *o = json_load_file(path, 0, NULL);
    assert_non_null(o);
    json_object_set_new(o, key, value);
    assert_int_equal(json_seal(o), 0);
    assert_int_equal(json_dump_file(o, path, 0), 0);
    json_decref(o);
}

/* A bit of the file flips; `what` is a text in it. */
static void flip(const char *what)
{
    char text[1024] = "";
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
    char *at = strstr(text, what);
    assert_non_null(at);
    assert_int_equal(fseek(f, at - text, SEEK_SET), 0);
    assert_int_equal(fputc(*at ^ 1, f), *at ^ 1);
    fclose(f);
}

/* Its lease file again, as if it had just written it. */
static void edit_whole(const struct lease *l)
{
    json_t *o = json_pack("{s:i, s:s, s:I, s:I, s:s, s:I, s:I}", "schema", 1, "origin", ORIGIN, "token",
                          (json_int_t)l->own.token, "beat", (json_int_t)99, "boot_id", l->own.boot_id, "pid",
                          (json_int_t)l->own.pid, "start_time", (json_int_t)l->own.start_time);
    assert_int_equal(json_dump_file(o, path, 0), 0);
    json_decref(o);
}

/* The holder lives on another machine from now on. */
static void move(struct lease *l, const char *host)
{
    edit("boot_id", json_string("elsewhere"));
    snprintf(l->own.boot_id, sizeof(l->own.boot_id), "elsewhere");
    snprintf(l->own.host, sizeof(l->own.host), "%s", host);
    snprintf(l->fence, sizeof(l->fence), "%lld %lld %lld elsewhere", (long long)l->own.token,
             (long long)l->own.pid, (long long)l->own.start_time);
}

static void the_dead_are_followed_at_once(void **state)
{
    (void)state;
    struct lease l;
    struct err err = {0};
    pid_t pid = fork();
    if (pid == 0) {
        struct lease theirs;
        _exit(take(&theirs, NULL) == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(take(&l, &err), 0);
    assert_int_equal(l.own.token, 2);
    assert_string_equal(waited, "");
    assert_int_equal(lease_beat(&l, &err), 0);
    assert_int_equal(lease_release(&l, &err), 0);
}

static void the_living_are_left_alone(void **state)
{
    (void)state;
    struct lease ours, theirs;
    struct err err = {0};
    assert_int_equal(take(&ours, &err), 0);
    assert_int_equal(take(&theirs, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.text, "stop it there first"));
    assert_int_equal(lease_beat(&ours, &err), 0);
    assert_int_equal(lease_release(&ours, &err), 0);
    assert_int_equal(take(&theirs, &err), 0);
    assert_int_equal(theirs.own.token, ours.own.token + 1);
    assert_int_equal(lease_release(&theirs, &err), 0);
}

/* A damaged file, also one that is still a lease file, is that of the holder, who writes it again. */
static void a_holder_mends_its_file(void **state)
{
    (void)state;
    static const char *const places[] = {"{", "\"token\"", ORIGIN, "pid_ns"};
    struct lease ours, theirs;
    struct err err = {0};
    assert_int_equal(take(&ours, &err), 0);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        flip(places[i]);
        assert_int_equal(fence_check(dir, ours.fence, &err), 0);
        assert_int_equal(lease_beat(&ours, &err), 0);
        assert_int_equal(take(&theirs, &err), -1);
        assert_int_equal(err.code, ERR_CONFLICT);
    }
    assert_int_equal(lease_release(&ours, &err), 0);
}

static const struct lease_taker job = {.origin = ORIGIN, .name = "", .home = ""};

/* Who held a directory when its file was damaged is waited for; of a mirror nobody knows whose it is. */
static void a_damaged_lease_is_followed(void **state)
{
    (void)state;
    struct lease gone, l;
    struct err err = {0};
    assert_int_equal(lease_take(&gone, dir, &job, PATIENCE, on_wait, NULL, &err), 0);
    flip("{");
    assert_int_equal(take(&l, &err), -1);
    assert_non_null(strstr(err.text, "remove the file and retry the job"));
    waited[0] = '\0';
    assert_int_equal(lease_take(&l, dir, &job, PATIENCE, on_wait, NULL, &err), 0);
    assert_non_null(strstr(waited, "lease.json is damaged"));
    assert_int_equal(l.own.token, gone.own.token + 1);
    assert_int_equal(fence_check(dir, gone.fence, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(lease_release(&l, &err), 0);
    flip("{");
    waited[0] = '\0';
    assert_int_equal(lease_take(&gone, dir, &job, PATIENCE, on_wait, NULL, &err), 0);
    assert_string_equal(waited, "");
    assert_true(gone.own.token > l.own.token);
    assert_int_equal(lease_release(&gone, &err), 0);
}

static void another_job_is_refused(void **state)
{
    (void)state;
    struct lease l;
    struct err err = {0};
    const struct lease_taker another = {.origin = "another", .name = "", .home = "", .mirror = true};
    assert_int_equal(lease_take(&l, dir, &another, PATIENCE, on_wait, NULL, &err), -1);
    assert_non_null(strstr(err.text, "mirror of another job"));
    assert_non_null(strstr(err.text, "jobctl adopt"));
}

static void silence_elsewhere_is_waited_for(void **state)
{
    (void)state;
    struct lease l, late;
    struct err err = {0};
    assert_int_equal(take(&l, &err), 0);
    edit("boot_id", json_string("00000000-0000-0000-0000-000000000000"));
    edit("host", json_string("colab-7"));
    assert_int_equal(take(&late, &err), 0);
    assert_non_null(strstr(waited, "colab-7 held this job last"));
    /* The one who was silent hears of it at its next beat. */
    assert_int_equal(lease_beat(&l, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.text, "taken over by"));
    /* and does not let go of what is not its own */
    assert_int_equal(lease_release(&l, &err), 0);
    assert_int_equal(lease_beat(&late, &err), 0);
    assert_int_equal(lease_release(&late, &err), 0);
}

/* Its beat, from a thread, as another machine would write it. */
static void *other_machine(void *arg)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000000L};
    struct lease *l = arg;
    for (int i = 0; i < 20; i++) {
        nanosleep(&pause, NULL);
        if (lease_beat(l, NULL) < 0)
            break;
    }
    return NULL;
}

static void a_beat_elsewhere_keeps_the_lease(void **state)
{
    (void)state;
    struct lease l, late;
    struct err err = {0};
    pthread_t thread;
    assert_int_equal(take(&l, &err), 0);
    move(&l, "colab-8");
    assert_int_equal(lease_beat(&l, &err), 0);
    assert_int_equal(pthread_create(&thread, NULL, other_machine, &l), 0);
    /* a busy machine may keep the thread from its beats for longer than PATIENCE */
    assert_int_equal(lease_take(&late, dir, &mirror, 20 * PATIENCE, on_wait, NULL, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.text, "running on colab-8"));
    pthread_join(thread, NULL);
    assert_int_equal(lease_beat(&l, &err), 0);
    assert_int_equal(lease_release(&l, &err), 0);
}

/* Two find the place empty; one made the claim and died before it wrote the lease. */
static void an_unfinished_claim_is_passed_over(void **state)
{
    (void)state;
    struct lease l, next;
    struct err err = {0};
    char claim[320];
    assert_int_equal(take(&l, &err), 0);
    assert_int_equal(lease_release(&l, &err), 0);
    snprintf(claim, sizeof(claim), "%s/lease-%lld", dir, (long long)l.own.token + 1);
    FILE *f = fopen(claim, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(take(&next, &err), 0);
    assert_int_equal(next.own.token, l.own.token + 2);
    assert_int_equal(lease_release(&next, &err), 0);
}

/* The lease of a checkpoint.dir: any job may have it, one at a time, and the sentence names the holder. */
static void a_directory_is_for_one_job_at_a_time(void **state)
{
    (void)state;
    struct lease l, late;
    struct err err = {0};
    const struct lease_taker a = {.origin = ORIGIN, .name = "sana", .home = "/srv/a", .job = 3};
    const struct lease_taker b = {.origin = "another", .name = "other", .home = "/srv/b", .job = 5};
    assert_int_equal(lease_take(&l, dir, &a, PATIENCE, on_wait, NULL, &err), 0);
    assert_int_equal(lease_take(&late, dir, &b, PATIENCE, on_wait, NULL, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.text, "job 3 (sana) on "));
    assert_non_null(strstr(err.text, ", home /srv/a writes into "));
    assert_int_equal(lease_release(&l, NULL), 0);
    assert_int_equal(lease_take(&late, dir, &b, PATIENCE, on_wait, NULL, NULL), 0);
    err = (struct err){0};
    assert_int_equal(lease_beat(&l, &err), -1);
    assert_non_null(strstr(err.text, "taken over by job 5 (other) on "));
    assert_int_equal(lease_release(&late, NULL), 0);
    assert_int_equal(unlink(path), 0); /* the other tests are of a mirror */
}

/* Of the one before, who was silent, nothing is left that could be renamed into place. */
static void what_a_silent_holder_was_writing_is_taken_away(void **state)
{
    (void)state;
    struct lease l, late;
    char writing[SCRATCH_PATH], final[320];
    snprintf(final, sizeof(final), "%s/step-00000010", dir);
    assert_int_equal(take(&l, NULL), 0);
    assert_int_equal(scratch_name(writing, final, NULL), 0);
    assert_int_equal(scratch_mkdirs(writing, NULL), 0);
    assert_int_equal(fence_check(dir, l.fence, NULL), 0);
    move(&l, "colab-9");
    assert_int_equal(lease_beat(&l, NULL), 0);
    assert_int_equal(take(&late, NULL), 0);
    assert_int_equal(rename(writing, final), -1);
    assert_int_equal(fence_check(dir, l.fence, NULL), -1);
    assert_int_equal(fence_check(dir, late.fence, NULL), 0);
    /* A beat that was on its way when its writer froze: the new holder writes its own again. */
    assert_int_equal(unlink(path), 0);
    edit_whole(&l);
    assert_int_equal(fence_check(dir, l.fence, NULL), -1);
    assert_int_equal(lease_beat(&late, NULL), 0);
    assert_int_equal(lease_beat(&l, NULL), -1);
    assert_int_equal(lease_release(&late, NULL), 0);
}

static void what_is_no_lease_is_not_taken(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{}", "{\"schema\":2,\"token\":1}", "[1]", "not JSON"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct lease l;
        struct err err = {0};
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(texts[i], f);
        fclose(f);
        assert_int_equal(take(&l, &err), -1);
        assert_int_equal(err.code, ERR_DATA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dead_are_followed_at_once),
        cmocka_unit_test(the_living_are_left_alone),
        cmocka_unit_test(another_job_is_refused),
        cmocka_unit_test(a_holder_mends_its_file),
        cmocka_unit_test(a_damaged_lease_is_followed),
        cmocka_unit_test(silence_elsewhere_is_waited_for),
        cmocka_unit_test(a_beat_elsewhere_keeps_the_lease),
        cmocka_unit_test(an_unfinished_claim_is_passed_over),
        cmocka_unit_test(a_directory_is_for_one_job_at_a_time),
        cmocka_unit_test(what_a_silent_holder_was_writing_is_taken_away),
        cmocka_unit_test(what_is_no_lease_is_not_taken),
    };
    return cmocka_run_group_tests_name("lease", tests, make, clean);
}
