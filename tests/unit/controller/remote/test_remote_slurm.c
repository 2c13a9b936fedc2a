/* SPDX-License-Identifier: Apache-2.0 */
/* test_remote_slurm.c - an attempt from its submission to its end, with Slurm's answers given by this test */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/run_dir.h"
#include "agent/wire/wire.h"
#include "controller/remote/remote.h"
#include "controller/remote/slurm_client.h"
#include "engine/base/err.h"
#include "tests/unit/agent/os/loop_fixture.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { PATIENCE_MS = 60000 };

#define NONCE   "0123456789abcdef0123456789abcdef"
#define COMMENT "jobctl:7.1:" NONCE

/* In place of jobctl-slurm. */
static struct {
    json_t         *request;
    slurm_answer_fn answer;
    void           *arg;
    int             asked, users;
} slurm;

void slurm_client_ask(json_t *request, slurm_answer_fn answer, void *arg)
{
    json_decref(slurm.request);
    slurm.request = request;
    slurm.answer = answer;
    slurm.arg = arg;
    slurm.asked++;
}

void slurm_client_forget(const void *arg)
{
    if (slurm.arg == arg)
        slurm.answer = NULL;
}

void slurm_client_use(uv_loop_t *of)
{
    assert_ptr_equal(of, &loop);
    slurm.users++;
}

void slurm_client_leave(void)
{
    slurm.users--;
}

static char dir[80], run_dir[100], waiting[400], lost[500];
static enum cause cause;
static int ends;
static struct remote_link *link_of;

static void on_message(void *arg, enum wire_message number, const json_t *body)
{
    (void)arg;
    (void)number;
    (void)body;
}

static void on_lost(void *arg, const char *text)
{
    (void)arg;
    snprintf(lost, sizeof(lost), "%s", text);
    ends++;
}

static void on_not_started(void *arg, enum cause why, const char *text)
{
    cause = why;
    on_lost(arg, text);
}

static void on_waiting(void *arg, const char *text)
{
    (void)arg;
    snprintf(waiting, sizeof(waiting), "%s", text);
}

static int64_t acked(void *arg)
{
    (void)arg;
    return 0;
}

static void begin(bool may_start)
{
    const struct remote_link_spec spec = {.job = 7, .attempt = 1, .nonce = NONCE, .origin = "", .run_dir = run_dir,
                                          .may_start = may_start, .nodes = 1};
    const struct remote_link_hooks hooks = {.message = on_message, .lost = on_lost, .not_started = on_not_started,
                                            .waiting = on_waiting, .acked = acked};
    struct err err = {0};
    if (remote_slurm.open(&link_of, &loop, &spec, &hooks, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(slurm.users, 1);
}

static int up(void **state)
{
    (void)state;
    char path[120];
    scratch_dir_create(dir, sizeof(dir), "slurm");
    snprintf(run_dir, sizeof(run_dir), "%s/1", dir);
    snprintf(path, sizeof(path), "%s/spec.json", dir);
    FILE *f = fopen(path, "w");
    fputs("{\"name\":\"x\",\"resources\":{\"gpus\":1}}", f);
    fclose(f);
    memset(&slurm, 0, sizeof(slurm));
    waiting[0] = lost[0] = '\0';
    cause = CAUSE_NONE;
    ends = 0;
    uv_loop_init(&loop);
    return mkdir(run_dir, 0700) | setenv("JOBCTL_CALL_ADDRESS", "none", 1);
}

static int down(void **state)
{
    (void)state;
    remote_slurm.close(link_of);
    run_until(NULL, 0, 1);
    json_decref(slurm.request);
    assert_int_equal(slurm.users, 0);
    return uv_loop_close(&loop) == 0 ? scratch_dir_remove(dir) : -1;
}

/* Waits for a request of this kind, and answers it. */
static void answer(const char *op, const char *text)
{
    if (!run_until(&slurm.asked, 1, PATIENCE_MS))
        fail_msg("Slurm was not asked for %s; waiting: %s, lost: %s", op, waiting, lost);
    slurm.asked = 0;
    assert_string_equal(json_string_value(json_object_get(slurm.request, "op")), op);
    json_t *body = json_loads(text, 0, NULL);
    assert_non_null(body);
    assert_non_null(slurm.answer);
    slurm.answer(slurm.arg, body);
    json_decref(body);
}

#define JOBS(...) "{\"ok\":true,\"jobs\":[" __VA_ARGS__ "]}"
#define JOB(number, rest) "{\"job\":" #number ",\"comment\":\"" COMMENT "\"," rest "}"

static void assert_over(const char *text, enum cause why)
{
    assert_true(run_until(&ends, 1, PATIENCE_MS));
    assert_string_equal(lost, text);
    assert_int_equal(cause, why);
    assert_true(run_dir_fenced(run_dir)); /* whatever Slurm still starts for it ends at once */
}

static void a_job_is_submitted_and_ends(void **state)
{
    (void)state;
    begin(true);
    answer("jobs", JOBS("{\"job\":5,\"comment\":\"jobctl:7.2:x\",\"phase\":\"running\"}"));
    assert_true(run_until(&slurm.asked, 1, PATIENCE_MS));
    assert_non_null(strstr(json_string_value(json_object_get(slurm.request, "script")), "#SBATCH --comment=" COMMENT "\n"));
    answer("submit", "{\"ok\":true,\"job\":900}");
    answer("jobs", JOBS(JOB(900, "\"phase\":\"pending\",\"reason\":\"\"")));
    assert_string_equal(waiting, "Slurm job 900 is pending: just submitted");
    answer("jobs", JOBS(JOB(900, "\"phase\":\"pending\",\"reason\":\"Priority\"")));
    assert_string_equal(waiting, "Slurm job 900 is pending: Priority");
    /* Of several with its comment the one that has not ended counts. */
    answer("jobs", JOBS(JOB(899, "\"phase\":\"ended\",\"state\":\"FAILED\"") "," JOB(900, "\"phase\":\"running\",\"nodes\":\"n1\"")));
    assert_string_equal(waiting, "Slurm job 900 has n1; its agent is starting");
    answer("jobs", "{\"ok\":false,\"away\":true,\"error\":\"no answer\"}");
    assert_string_equal(waiting, "Slurm does not answer (no answer); trying again");
    answer("jobs", JOBS(JOB(900, "\"phase\":\"ending\"")));
    answer("jobs", JOBS(JOB(900, "\"phase\":\"ended\",\"state\":\"TIMEOUT\"")));
    assert_over("Slurm ended job 900: its time limit was reached (TIMEOUT)", CAUSE_NONE);
}

/* A submission whose answer was lost may have succeeded: it is looked for before it is submitted again. */
static void a_lost_answer(void **state)
{
    (void)state;
    begin(true);
    answer("jobs", JOBS());
    answer("submit", "{\"ok\":false,\"away\":true,\"error\":\"x\"}");
    assert_string_equal(waiting, "Slurm does not answer (x); trying again");
    answer("jobs", JOBS(JOB(900, "\"phase\":\"pending\",\"reason\":\"Resources\"")));
    assert_string_equal(waiting, "Slurm job 900 is pending: Resources");
    answer("jobs", JOBS());
    assert_over("Slurm no longer knows attempt 1", CAUSE_NONE);
}

static void what_slurm_refuses(void **state)
{
    (void)state;
    begin(true);
    answer("jobs", JOBS());
    answer("submit", "{\"ok\":false,\"number\":2007,\"error\":\"the queue is full\"}"); /* passes */
    assert_string_equal(waiting, "Slurm refuses it: the queue is full; next try in 3 s");
    answer("jobs", JOBS());
    answer("submit", "{\"ok\":false,\"number\":77,\"error\":\"never\"}");
    assert_over("Slurm refuses it: never", CAUSE_SLURM_REFUSED);
}

static void where_slurm_is_not_configured(void **state)
{
    (void)state;
    begin(true);
    answer("jobs", "{\"ok\":false,\"away\":true,\"unconfigured\":true,\"error\":\"no slurm.conf\"}");
    assert_over("launch: slurm is not possible here: no slurm.conf", CAUSE_CONFIG_ERROR);
}

static void an_attempt_that_never_began(void **state)
{
    (void)state;
    begin(false);
    answer("jobs", JOBS());
    assert_over("attempt 1 was never submitted to Slurm", CAUSE_NONE);
}

static void stop(void)
{
    remote_slurm.send(link_of, WIRE_STOP, json_pack("{s:i}", "grace_ms", 0));
}

/* A stop before there is an agent cancels what Slurm has of it, once; a cancellation that failed is sent again. */
static void a_stop_cancels_what_is_pending(void **state)
{
    (void)state;
    begin(true);
    answer("jobs", JOBS(JOB(900, "\"phase\":\"pending\",\"reason\":\"\"")));
    stop();
    answer("jobs", JOBS(JOB(900, "\"phase\":\"pending\",\"reason\":\"\"")));
    assert_true(run_until(&slurm.asked, 1, PATIENCE_MS));
    assert_int_equal(json_integer_value(json_object_get(slurm.request, "job")), 900);
    assert_string_equal(json_string_value(json_object_get(slurm.request, "comment")), COMMENT);
    assert_null(json_object_get(slurm.request, "task"));
    answer("cancel", "{\"ok\":false,\"error\":\"busy\"}");
    answer("jobs", JOBS(JOB(900, "\"phase\":\"pending\",\"reason\":\"\"")));
    answer("cancel", "{\"ok\":true}");
    answer("jobs", JOBS(JOB(900, "\"phase\":\"pending\",\"reason\":\"\"")));
    answer("jobs", JOBS(JOB(900, "\"phase\":\"ended\",\"state\":\"CANCELLED\""))); /* not cancelled twice */
    assert_over("Slurm ended job 900: it was cancelled outside jobctl (CANCELLED)", CAUSE_NONE);
}

static void a_stop_before_the_submission(void **state)
{
    (void)state;
    begin(true);
    stop();
    assert_over("it was never submitted to Slurm", CAUSE_NONE);
    assert_int_equal(slurm.asked, 0);
}

/* Slurm would run it again: that is cancelled, and the next attempt is a new one. */
static void a_requeued_job_is_cancelled(void **state)
{
    (void)state;
    begin(true);
    answer("jobs", JOBS(JOB(900, "\"phase\":\"running\",\"nodes\":\"n1\",\"restarts\":0")));
    const int before = slurm.asked;
    answer("jobs", JOBS(JOB(900, "\"phase\":\"pending\",\"restarts\":1")));
    assert_int_equal(before, 0);
    assert_string_equal(json_string_value(json_object_get(slurm.request, "op")), "cancel");
    assert_int_equal(json_integer_value(json_object_get(slurm.request, "job")), 900);
    assert_true(run_dir_fenced(run_dir));
    slurm.asked = 0;
    answer("jobs", JOBS(JOB(900, "\"phase\":\"ended\",\"state\":\"CANCELLED\"")));
    assert_over("Slurm stopped job 900 to run it again (requeued)", CAUSE_NONE);
}

/* An agent that could not make its files has told by its exit code. */
static void a_full_disk(void **state)
{
    (void)state;
    begin(true);
    answer("jobs", JOBS(JOB(900, "\"phase\":\"ended\",\"state\":\"FAILED\",\"nodes\":\"n1\",\"exit_code\":78")));
    assert_true(run_until(&ends, 1, PATIENCE_MS));
    assert_non_null(strstr(lost, "no room on n1: the agent cannot make its files in "));
    assert_int_equal(cause, CAUSE_DISK_FULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_submitted_and_ends), TEST(a_lost_answer), TEST(what_slurm_refuses),
        TEST(where_slurm_is_not_configured), TEST(an_attempt_that_never_began), TEST(a_stop_cancels_what_is_pending),
        TEST(a_stop_before_the_submission), TEST(a_requeued_job_is_cancelled), TEST(a_full_disk),
    };
    return cmocka_run_group_tests_name("remote_slurm", tests, NULL, NULL);
}
