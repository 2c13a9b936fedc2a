/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease.c - one holder at a time, whoever died, and none that is alive is robbed */
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

#include "agent/mirror/lease.h"
#include "engine/contract/err.h"
#include "engine/contract/scratch.h"

#define ORIGIN "0123456789abcdef0123456789abcdef"
enum { PATIENCE = 300 };

static char dir[256], path[300], waited[512];

static void on_wait(const char *text)
{
    snprintf(waited, sizeof(waited), "%s", text);
}

static int take(struct lease *l, struct err *err)
{
    waited[0] = '\0';
    return lease_take(l, dir, ORIGIN, PATIENCE, on_wait, err);
}

static int make(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/jobctl-lease.XXXXXX", tmp ? tmp : "/tmp");
    snprintf(path, sizeof(path), "%s/lease.json", mkdtemp(dir));
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
    assert_int_equal(json_dump_file(o, path, 0), 0);
    json_decref(o);
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
    assert_int_equal(l.token, 2);
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
    assert_int_equal(theirs.token, ours.token + 1);
    assert_int_equal(lease_release(&theirs, &err), 0);
}

static void another_job_is_refused(void **state)
{
    (void)state;
    struct lease l;
    struct err err = {0};
    assert_int_equal(lease_take(&l, dir, "another", PATIENCE, on_wait, &err), -1);
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
        snprintf(l->owner.boot_id, sizeof(l->owner.boot_id), "elsewhere");
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
    snprintf(l.owner.boot_id, sizeof(l.owner.boot_id), "elsewhere");
    snprintf(l.host, sizeof(l.host), "colab-8");
    assert_int_equal(lease_beat(&l, &err), 0);
    assert_int_equal(pthread_create(&thread, NULL, other_machine, &l), 0);
    /* a busy machine may keep the thread from its beats for longer than PATIENCE */
    assert_int_equal(lease_take(&late, dir, ORIGIN, 20 * PATIENCE, on_wait, &err), -1);
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
    snprintf(claim, sizeof(claim), "%s/lease-%lld", dir, (long long)l.token + 1);
    FILE *f = fopen(claim, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(take(&next, &err), 0);
    assert_int_equal(next.token, l.token + 2);
    assert_int_equal(lease_release(&next, &err), 0);
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
        cmocka_unit_test(silence_elsewhere_is_waited_for),
        cmocka_unit_test(a_beat_elsewhere_keeps_the_lease),
        cmocka_unit_test(an_unfinished_claim_is_passed_over),
        cmocka_unit_test(what_is_no_lease_is_not_taken),
    };
    return cmocka_run_group_tests_name("lease", tests, make, clean);
}
