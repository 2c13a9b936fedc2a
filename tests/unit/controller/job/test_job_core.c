/* SPDX-License-Identifier: Apache-2.0 */
/* test_job_core.c - scripted lives of jobs; replaying each gives the same job */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "controller/job/job_core.h"
#include "engine/base/err.h"

static const char SUBMIT[] = "{\"name\":\"x\",\"priority\":2,\"held\":false,\"retry\":"
                             "{\"max\":4,\"no_progress\":3,\"backoff_ms\":[1000,8000]}}";
static const char PLACED[] = "{\"nonce\":\"abc\",\"node\":\"here\",\"cpus\":2,\"gpus\":0}";
static const char UP[] = "{\"node\":\"here\",\"pid\":7}";
static const char STOP[] = "{\"reason\":\"cancelled by a person\",\"limit\":false,\"now\":false}";
static const char LIMIT[] = "{\"reason\":\"max_duration is over\",\"limit\":true,\"now\":false}";
static const char GEN1[] = "{\"generation\":1,\"np\":2,\"resume_step\":null}";
static const char GEN2[] = "{\"generation\":2,\"np\":2,\"resume_step\":20}";
static const char DIED[] = "{\"generation\":1,\"cause\":\"rank_crash\",\"text\":\"rank 0 was killed\","
                           "\"step\":40,\"gained\":40,\"fingerprint\":\"f1\"}";
static const char FINE[] = "{\"generation\":1,\"cause\":\"none\",\"step\":50}";
static const char CKPT[] = "{\"generation\":1,\"step\":20,\"path\":\"/c/20\"}";
static const char STEP[] = "{\"generation\":1,\"step\":33,\"steps\":100}";
static const char WON[] = "{\"result\":\"succeeded\",\"text\":\"all ranks ended well\"}";
static const char STOPPED[] = "{\"result\":\"stopped\",\"text\":\"stopped\"}";
static const char FAILED[] = "{\"result\":\"failed\",\"cause\":\"rank_crash\",\"text\":\"no more\","
                             "\"failures_without_progress\":2,\"same_fingerprint\":1,"
                             "\"fingerprint\":\"f2\",\"retry_helps\":true,\"gave_up\":false}";
static const char CONFIG[] = "{\"result\":\"failed\",\"cause\":\"config_error\",\"text\":\"bad\","
                             "\"retry_helps\":false}";
static const char SPENT[] = "{\"result\":\"failed\",\"cause\":\"user_exit\",\"text\":\"exit 1 thrice\","
                            "\"retry_helps\":true,\"gave_up\":true}";

/* op: S submit, P place, U up, E event, L lost, C stop, H hold, R release, X refuse, T clock */
struct line {
    char            op;
    const char     *event;
    const char     *body;
    enum job_state  state;
    enum job_effect effect;
    const char     *events;     /* stored events; "!" means rejected */
};

#define BEGIN                                                                       \
    { 'S', 0, SUBMIT, JOB_PENDING, DO_SCHEDULE, "submitted " },                     \
    { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },                          \
    { 'U', 0, UP, JOB_STARTING, DO_LAUNCH, "agent_up " },                           \
    { 'E', "generation_started", GEN1, JOB_RUNNING, DO_NOTHING, "generation_started " }

static const struct life {
    const char     *what;
    struct line     lines[16];
    enum job_result result;
    int             exit_code;
    const char     *reason;
} lives[] = {
    { "runs and succeeds",
      { BEGIN,
        { 'E', "warning", "{}", JOB_RUNNING, DO_NOTHING, "warning " },
        { 'E', "step", STEP, JOB_RUNNING, DO_NOTHING, "" },
        { 'U', 0, UP, JOB_RUNNING, DO_LAUNCH, "" },
        { 'H', 0, 0, JOB_RUNNING, DO_NOTHING, "!" },
        { 'M', 0, "{\"priority\":5}", JOB_RUNNING, DO_NOTHING, "!" },
        { 'E', "generation_ended", FINE, JOB_RUNNING, DO_NOTHING, "generation_ended " },
        { 'E', "attempt_ended", WON, JOB_DONE, DO_REPORT, "attempt_ended done " },
        { 'C', 0, STOP, JOB_DONE, DO_NOTHING, "!" },
        { 'E', "warning", "{}", JOB_DONE, DO_NOTHING, "!" } },
      RESULT_SUCCEEDED, 0, "all ranks ended well" },
    { "ranks die and restart",
      { BEGIN,
        { 'E', "checkpoint", CKPT, JOB_RUNNING, DO_NOTHING, "checkpoint " },
        { 'E', "generation_ended", DIED, JOB_RECOVERING, DO_NOTHING, "generation_ended " },
        { 'E', "restart_scheduled", "{\"text\":\"again\"}", JOB_RECOVERING, DO_NOTHING,
          "restart_scheduled " },
        { 'E', "generation_started", GEN2, JOB_RUNNING, DO_NOTHING, "generation_started " },
        { 'E', "attempt_ended", WON, JOB_DONE, DO_REPORT, "attempt_ended done " } },
      RESULT_SUCCEEDED, 0, "all ranks ended well" },
    { "held, released, cancelled while waiting",
      { { 'S', 0, SUBMIT, JOB_PENDING, DO_SCHEDULE, "submitted " },
        { 'H', 0, 0, JOB_PENDING, DO_SCHEDULE, "held " },
        { 'H', 0, 0, JOB_PENDING, DO_NOTHING, "" },
        { 'R', 0, 0, JOB_PENDING, DO_SCHEDULE, "released " },
        { 'M', 0, "{\"priority\":5}", JOB_PENDING, DO_SCHEDULE, "edited " },
        { 'C', 0, STOP, JOB_DONE, DO_REPORT, "done " } },
      RESULT_CANCELLED, 3, "cancelled by a person" },
    { "cancelled while running; ranks that die later change nothing",
      { BEGIN,
        { 'C', 0, STOP, JOB_STOPPING, DO_STOP, "stop_requested " },
        { 'E', "generation_ended", DIED, JOB_STOPPING, DO_NOTHING, "generation_ended " },
        { 'U', 0, UP, JOB_STOPPING, DO_STOP, "" },
        { 'E', "attempt_ended", STOPPED, JOB_DONE, DO_REPORT, "attempt_ended done " } },
      RESULT_CANCELLED, 3, "cancelled by a person" },
    { "succeeded before the stop arrived",
      { BEGIN,
        { 'C', 0, STOP, JOB_STOPPING, DO_STOP, "stop_requested " },
        { 'E', "attempt_ended", WON, JOB_DONE, DO_REPORT, "attempt_ended done " } },
      RESULT_SUCCEEDED, 0, "all ranks ended well" },
    { "max_duration reached",
      { BEGIN,
        { 'C', 0, LIMIT, JOB_STOPPING, DO_STOP, "stop_requested " },
        { 'E', "attempt_ended", STOPPED, JOB_DONE, DO_REPORT, "attempt_ended done " } },
      RESULT_FAILED, 1, "max_duration is over" },
    { "max_duration reached between two attempts",
      { BEGIN,
        { 'L', 0, "the agent died", JOB_RECOVERING, DO_SCHEDULE, "agent_lost retry " },
        { 'C', 0, LIMIT, JOB_DONE, DO_REPORT, "done " } },
      RESULT_FAILED, 1, "max_duration is over" },
    { "its agent is lost three times: back-off, then failed",
      { BEGIN,
        { 'L', 0, "the agent died", JOB_RECOVERING, DO_SCHEDULE, "agent_lost retry " },
        { 'E', "warning", "{}", JOB_RECOVERING, DO_NOTHING, "!" },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'P', 0, PLACED, JOB_STARTING, DO_NOTHING, "!" },
        { 'U', 0, UP, JOB_STARTING, DO_LAUNCH, "agent_up " },
        { 'L', 0, "the agent died", JOB_RECOVERING, DO_SCHEDULE, "agent_lost retry " },
        { 'L', 0, "the agent died", JOB_RECOVERING, DO_NOTHING, "!" },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'U', 0, UP, JOB_STARTING, DO_LAUNCH, "agent_up " },
        { 'L', 0, "the agent died", JOB_DONE, DO_REPORT, "agent_lost done " } },
      RESULT_FAILED, 93, "the agent died; not retried: the same failure (agent_lost) 3 times in a row "
      "without a new step" },
    { "no agent can be started, three times",
      { { 'S', 0, SUBMIT, JOB_PENDING, DO_SCHEDULE, "submitted " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', 0, "it exits", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', 0, "it exits", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', 0, "it exits", JOB_DONE, DO_REPORT, "start_failed done " } },
      RESULT_FAILED, 93, "it exits; not retried: the same failure (start_failed) 3 times in a row without a new step" },
    { "a host cannot be reached, more often than failures are permitted",
      { { 'S', 0, SUBMIT, JOB_PENDING, DO_SCHEDULE, "submitted " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', "host_unreachable", "h1", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', "host_unreachable", "h1", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', "host_unreachable", "h1", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', "host_unreachable", "h1", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', "host_unusable", "h1 has no home", JOB_DONE, DO_REPORT, "start_failed done " } },
      RESULT_FAILED, 1, "h1 has no home; not retried, the same failure would recur" },
    { "Slurm refuses it for good",
      { { 'S', 0, SUBMIT, JOB_PENDING, DO_SCHEDULE, "submitted " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', "slurm_refused", "no such partition", JOB_DONE, DO_REPORT, "start_failed done " } },
      RESULT_FAILED, 1, "no such partition; not retried, the same failure would recur" },
    { "no room for its agent: tried again more often than its failures, which this is none of",
      { BEGIN,
        { 'L', "disk_full", "no room", JOB_RECOVERING, DO_SCHEDULE, "agent_lost retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', "disk_full", "no room", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', "disk_full", "no room", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', "disk_full", "no room", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'L', 0, "the agent died", JOB_RECOVERING, DO_SCHEDULE, "start_failed retry " },
        { 'C', 0, STOP, JOB_DONE, DO_REPORT, "done " } },
      RESULT_CANCELLED, 3, "cancelled by a person" },
    { "agent lost while stopping",
      { BEGIN,
        { 'C', 0, STOP, JOB_STOPPING, DO_STOP, "stop_requested " },
        { 'L', 0, "the agent died", JOB_DONE, DO_REPORT, "agent_lost done " } },
      RESULT_CANCELLED, 3, "cancelled by a person" },
    { "cancelled while waiting for the next attempt",
      { BEGIN,
        { 'E', "attempt_ended", FAILED, JOB_RECOVERING, DO_SCHEDULE, "attempt_ended retry " },
        { 'C', 0, STOP, JOB_DONE, DO_REPORT, "done " } },
      RESULT_CANCELLED, 3, "cancelled by a person" },
    { "a retry would not help",
      { BEGIN, { 'E', "attempt_ended", CONFIG, JOB_DONE, DO_REPORT, "attempt_ended done " } },
      RESULT_FAILED, 1, "bad; not retried, the same failure would recur" },
    { "the agent gave up",
      { BEGIN, { 'E', "attempt_ended", SPENT, JOB_DONE, DO_REPORT, "attempt_ended done " } },
      RESULT_FAILED, 93, "exit 1 thrice" },
    { "stopped by another party: retried",
      { BEGIN,
        { 'E', "attempt_ended", STOPPED, JOB_RECOVERING, DO_SCHEDULE, "attempt_ended retry " },
        { 'C', 0, STOP, JOB_DONE, DO_REPORT, "done " } },
      RESULT_CANCELLED, 3, "cancelled by a person" },
    { "its dependency failed",
      { { 'S', 0, SUBMIT, JOB_PENDING, DO_SCHEDULE, "submitted " },
        { 'X', 0, "job 3 did not succeed", JOB_DONE, DO_REPORT, "done " } },
      RESULT_FAILED, 1, "job 3 did not succeed" },
};

static enum core_input_kind input_kind(char op)
{
    static const char ops[] = "SPUELCHRXTM";
    return (enum core_input_kind)(strchr(ops, op) - ops);
}

/* Plays one line; replays its stored events into *again. */
static void play(struct job_core *core, struct job_core *again, const struct line *l, int64_t at_ms, const char *what)
{
    struct err err = { 0 };
    struct core_output out = { 0 };
    struct core_input in = { .kind = input_kind(l->op), .at_ms = at_ms, .attempt = core->attempt,
                             .nonce = "abc", .event = l->event };
    json_t *body = NULL;
    if (l->op == 'L' || l->op == 'X')
        in.text = l->body;
    else if (l->body)
        in.body = body = json_loads(l->body, 0, NULL);
    const struct job_core was = *core;
    int rc = job_core_step(core, &in, &out, &err);
    char stored[200] = "";
    if (rc < 0) {
        strcpy(stored, "!");
        assert_memory_equal(core, &was, sizeof(was));
        assert_int_equal(err.code, ERR_CONFLICT);
    }
    for (int i = 0; i < out.count; i++) {
        if (out.events[i].keep) {
            sprintf(stored + strlen(stored), "%s ", out.events[i].name);
            if (job_core_replay(again, &out.events[i], &err) < 0)
                fail_msg("%s: replay: %s", what, err.text);
        }
    }
    if (strcmp(stored, l->events) != 0 || core->state != l->state ||
        (rc == 0 && out.effect != l->effect))
        fail_msg("%s: '%c %s' gave '%s' %s '%s', expected '%s' %s '%s'", what, l->op, l->event ? l->event : "", stored,
                 job_state_name(core->state), job_effect_name(out.effect), l->events, job_state_name(l->state),
                 job_effect_name(l->effect));
    core_output_fini(&out);
    json_decref(body);
}

static void lives_of_jobs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        struct job_core core, again;
        job_core_init(&core, 5);
        job_core_init(&again, 5);
        for (int n = 0; lives[i].lines[n].op; n++)
            play(&core, &again, &lives[i].lines[n], 1000 * (n + 1), lives[i].what);
        if (core.result != lives[i].result || core.exit_code != lives[i].exit_code ||
            strcmp(core.reason, lives[i].reason) != 0)
            fail_msg("%s: ended %s %d '%s'", lives[i].what, job_result_name(core.result), core.exit_code, core.reason);
        again.step = core.step;         /* only the row keeps these two */
        again.steps = core.steps;
        again.best = core.best;
        assert_int_equal(again.state, core.state);
        assert_int_equal(again.failures, core.failures);
        assert_memory_equal(&again.goodput, &core.goodput, sizeof(core.goodput));
        assert_true(goodput_adds_up(&core.goodput.spent));
        assert_string_equal(again.reason, core.reason);
        assert_string_equal(again.fingerprint, core.fingerprint);
        assert_int_equal(again.ended_ms, core.ended_ms);
    }
}

static void goodput(void **state)
{
    (void)state;
    struct job_core core, again;
    job_core_init(&core, 5);
    job_core_init(&again, 5);
    static const struct line lines[] = {
        BEGIN,
        { 'E', "checkpoint", CKPT, JOB_RUNNING, DO_NOTHING, "checkpoint " },
        { 'E', "generation_ended", DIED, JOB_RECOVERING, DO_NOTHING, "generation_ended " },
    };
    struct goodput spent;
    for (int i = 0; i < 4; i++)
        play(&core, &again, &lines[i], 1000 * (i + 1), "goodput");
    job_core_spent(&spent, &core, 5000);
    assert_int_equal(spent.rank_ms, 2 * 4000);
    assert_int_equal(spent.ms[BUCKET_QUEUED], 2 * 1000);
    assert_int_equal(spent.ms[BUCKET_INIT], 2 * 2000);
    assert_int_equal(spent.ms[BUCKET_PRODUCTIVE], 2 * 1000);
    play(&core, &again, &lines[4], 10000, "goodput");
    play(&core, &again, &lines[5], 13000, "goodput");
    job_core_spent(&spent, &core, 20000);
    assert_int_equal(spent.rank_ms, 2 * 19000);
    assert_int_equal(spent.ms[BUCKET_PRODUCTIVE], 2 * 9000);    /* 40 steps, all of them new */
    assert_int_equal(spent.ms[BUCKET_RESTART], 2 * 7000);
    assert_true(goodput_adds_up(&spent));
}

/* Of ranks that have made no step for long, the time since is no work; a step makes it work again. */
static void goodput_of_ranks_that_stand_still(void **state)
{
    (void)state;
    static const struct line lines[] = { BEGIN };
    struct job_core core, again;
    struct goodput spent;
    job_core_init(&core, 5);
    job_core_init(&again, 5);
    for (int i = 0; i < 4; i++)
        play(&core, &again, &lines[i], 1000 * (i + 1), "stand still");
    job_core_spent_still(&spent, &core, 100000, 14000);
    assert_int_equal(spent.ms[BUCKET_PRODUCTIVE], 2 * 10000);
    assert_int_equal(spent.ms[BUCKET_HANG], 2 * 86000);
    assert_true(goodput_adds_up(&spent));
    job_core_spent(&spent, &core, 101000);
    assert_int_equal(spent.ms[BUCKET_PRODUCTIVE], 2 * 97000);
    assert_int_equal(spent.ms[BUCKET_HANG], 0);
}

/* Events that were lost in a row: the end of generation 1 and the start of generation 2, or only that start. The time
 * that no end tells of is not lost with them. */
static void goodput_of_lost_events(void **state)
{
    (void)state;
    static const char END2[] = "{\"generation\":2,\"np\":3,\"cause\":\"rank_crash\",\"text\":\"t\",\"step\":null,"
                               "\"gained\":0,\"fingerprint\":\"f1\",\"goodput\":{\"rank_ms\":3000,"
                               "\"productive\":3000,\"replayed\":0,\"init\":0,\"data\":0,\"checkpoint\":0,"
                               "\"disk\":0,\"hang\":0,\"restart\":0,\"queued\":0,\"paused\":0}}";
    static const struct line lines[] = {
        BEGIN,                                                                                          /* 4 s */
        { 'E', "generation_ended", DIED, JOB_RECOVERING, DO_NOTHING, "generation_ended " },             /* 5 s */
        { 'E', "generation_ended", END2, JOB_RECOVERING, DO_NOTHING, "generation_ended " },
    };
    for (int both = 0; both < 2; both++) {
        struct job_core core, again;
        struct goodput spent;
        job_core_init(&core, 5);
        job_core_init(&again, 5);
        for (int i = 0; i < 6; i++)
            if (i != 4 || !both)
                play(&core, &again, &lines[i], i == 5 ? 20000 : 1000 * (i + 1), "lost events");
        job_core_spent(&spent, &core, 20000);
        assert_int_equal(core.goodput.wall_ms, 19000);
        assert_int_equal(spent.ms[BUCKET_PRODUCTIVE], 3000 + (both ? 0 : 2 * 1000));
        assert_int_equal(spent.ms[both ? BUCKET_REPLAYED : BUCKET_RESTART], both ? 2 * 15000 : 3 * 14000);
        assert_true(goodput_adds_up(&spent));
        assert_memory_equal(&core.goodput, &again.goodput, sizeof(core.goodput));
    }
}

/* Status has a line for a run that was given a GPU and does not use it; other warnings are events only. */
static void a_run_without_its_gpu(void **state)
{
    (void)state;
    static const char PIN[] = "{\"rank\":0,\"text\":\"running on the CPU: printed by a script\"}";
    static const char CPU[] = "{\"rank\":0,\"text\":\"running on the CPU: no GPU\",\"lasts\":true}";
    static const struct line lines[] = {
        BEGIN,
        { 'E', "warning", PIN, JOB_RUNNING, DO_NOTHING, "warning " },
        { 'E', "warning", CPU, JOB_RUNNING, DO_NOTHING, "warning " },
        { 'E', "warning", PIN, JOB_RUNNING, DO_NOTHING, "warning " },
    };
    struct job_core core, again;
    job_core_init(&core, 5);
    job_core_init(&again, 5);
    for (int i = 0; i < 7; i++) {
        play(&core, &again, &lines[i], 1000 * (i + 1), "without its GPU");
        if (i >= 3)
            assert_string_equal(core.reason, i < 5 ? "" : "running on the CPU: no GPU");
    }
}

/* The wait for a full disk: while it lasts, once it is over, of an agent that was lost meanwhile, and between attempts
 * that end with it. */
static void a_full_disk(void **state)
{
    (void)state;
    static const char FULL[] = "{\"generation\":1,\"over\":false,\"step\":20,\"text\":\"no room\"}";
    static const char ROOM[] = "{\"generation\":1,\"over\":true,\"step\":20,\"text\":\"room\"}";
    static const char GAVE_UP[] = "{\"result\":\"failed\",\"cause\":\"disk_full\",\"text\":\"still no room\","
                                  "\"failures_without_progress\":2,\"same_fingerprint\":1,"
                                  "\"fingerprint\":\"disk_full:exit78:1@20\",\"retry_helps\":true,\"gave_up\":false}";
    static const struct line lines[] = {
        BEGIN,                                                                                          /* 4 s */
        { 'E', "no_room", FULL, JOB_RUNNING, DO_NOTHING, "no_room " },
        { 'E', "no_room", ROOM, JOB_RUNNING, DO_NOTHING, "no_room " },
        { 'E', "no_room", FULL, JOB_RUNNING, DO_NOTHING, "no_room " },
        { 'E', "attempt_ended", GAVE_UP, JOB_RECOVERING, DO_SCHEDULE, "attempt_ended retry " },         /* 8 s */
    };
    struct job_core core, again;
    struct goodput spent;
    job_core_init(&core, 5);
    job_core_init(&again, 5);
    for (int i = 0; i < 8; i++) {
        static const int64_t disk[8] = { 0, 0, 0, 0, 500, 1000, 1500, 2500 };
        play(&core, &again, &lines[i], 1000 * (i + 1), "full disk");
        job_core_spent(&spent, &core, 1000 * (i + 1) + (i < 4 ? 0 : 500));
        assert_int_equal(spent.ms[BUCKET_DISK], 2 * disk[i]);
        assert_memory_equal(&core.goodput, &again.goodput, sizeof(core.goodput));
        assert_true(goodput_adds_up(&spent));
    }
    job_core_spent(&spent, &core, core.not_before_ms + 700);
    assert_int_equal(spent.ms[BUCKET_DISK], 2 * (2000 + core.not_before_ms - 8000));
    assert_int_equal(spent.ms[BUCKET_RESTART], 0);
}

/* Before its agent connects, an attempt that holds slots is starting (init); one without slots is
 * queued elsewhere. */
static void another_queue(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        PLACED, "{\"nonce\":\"abc\",\"node\":\"slurm\",\"cpus\":0,\"gpus\":0}",
    };
    for (int i = 0; i < 2; i++) {
        struct job_core core, again;
        struct goodput spent;
        const struct line lines[] = {
            { 'S', 0, SUBMIT, JOB_PENDING, DO_SCHEDULE, "submitted " },
            { 'P', 0, bodies[i], JOB_STARTING, DO_START, "placed " },
            { 'U', 0, UP, JOB_STARTING, DO_LAUNCH, "agent_up " },
        };
        job_core_init(&core, 5);
        job_core_init(&again, 5);
        play(&core, &again, &lines[0], 1000, "queue");
        play(&core, &again, &lines[1], 2000, "queue");
        play(&core, &again, &lines[2], 7000, "queue");
        job_core_spent(&spent, &core, 9000);
        assert_int_equal(spent.ms[BUCKET_QUEUED], i ? 6000 : 1000);
        assert_int_equal(spent.ms[BUCKET_INIT], i ? 2000 : 7000);
        assert_true(goodput_adds_up(&spent));
    }
}

/* The wall clock is set forward by an hour, and back by two, in each state: nothing of it is counted, and what
 * began before is in the new time. */
static void a_clock_that_is_set(void **state)
{
    (void)state;
    enum { HOUR = 3600000 };
    static const char FORWARD[] = "{\"text\":\"x\",\"jump_ms\":3600000,\"clock\":[7,4600000,0]}";
    static const char BACK[] = "{\"text\":\"x\",\"jump_ms\":-7200000,\"clock\":[7,-2600000,0]}";
    static const struct line lines[] = {
        { 'S', 0, "{\"name\":\"x\",\"retry\":{\"max\":5,\"no_progress\":3,\"backoff_ms\":[60000,60000]},"
                  "\"clock\":[7,1000000,5]}", JOB_PENDING, DO_SCHEDULE, "submitted " },
        { 'T', 0, FORWARD, JOB_PENDING, DO_NOTHING, "clock " },
        { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " },
        { 'T', 0, BACK, JOB_STARTING, DO_NOTHING, "clock " },
        { 'U', 0, UP, JOB_STARTING, DO_LAUNCH, "agent_up " },
        { 'E', "generation_started", GEN1, JOB_RUNNING, DO_NOTHING, "generation_started " },
        { 'T', 0, FORWARD, JOB_RUNNING, DO_NOTHING, "clock " },
        { 'L', 0, "its agent died", JOB_RECOVERING, DO_SCHEDULE, "agent_lost retry " },
        { 'T', 0, FORWARD, JOB_RECOVERING, DO_NOTHING, "clock " },
    };
    struct job_core core, again;
    struct goodput spent;
    int64_t at_ms = 10 * HOUR;
    job_core_init(&core, 5);
    job_core_init(&again, 5);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        at_ms += 1000 + (lines[i].op != 'T' ? 0 : lines[i].body == FORWARD ? HOUR : -2 * HOUR);
        play(&core, &again, &lines[i], at_ms, "clock");
        assert_memory_equal(&core.goodput, &again.goodput, sizeof(core.goodput));
    }
    job_core_spent(&spent, &core, at_ms + 1000);
    assert_int_equal(spent.rank_ms, 2 * 9000);
    assert_int_equal(spent.ms[BUCKET_QUEUED], 2 * 4000);    /* before the first attempt, and after it */
    assert_int_equal(core.started_ms, at_ms - 6000);
    assert_int_equal(core.jumped_ms, HOUR);
    assert_int_equal(core.not_before_ms - at_ms, core.backoff_ms - 1000);
    assert_int_equal(core.boot, 7);
    assert_int_equal(core.clock.ahead_ms, 4600000);
}

static void strange_bodies(void **state)
{
    (void)state;
    static const char *const events[] = { "generation_started", "generation_ended", "checkpoint",
                                          "step", "rank_started", "restart_scheduled",
                                          "attempt_ended", "no_such_kind" };
    static const char *const bodies[] = { "{}", "{\"step\":\"x\",\"cause\":7,\"generation\":[]}",
                                          "{\"result\":null,\"text\":3,\"step\":1.5}" };
    for (size_t e = 0; e < sizeof(events) / sizeof(events[0]); e++) {
        for (size_t b = 0; b < 3; b++) {
            struct job_core core, again;
            job_core_init(&core, 5);
            job_core_init(&again, 5);
            static const struct line begin[] = { BEGIN };
            for (int i = 0; i < 4; i++)
                play(&core, &again, &begin[i], 1000, "strange");
            struct err err = { 0 };
            struct core_output out = { 0 };
            json_t *body = json_loads(bodies[b], 0, NULL);
            struct core_input in = { .kind = CORE_AGENT_EVENT, .at_ms = 5000, .attempt = 1,
                                     .nonce = "abc", .event = events[e], .body = body };
            assert_int_equal(job_core_step(&core, &in, &out, &err), 0);
            core_output_fini(&out);
            json_decref(body);
        }
    }
}

/* Of ranks that ended without a report, the share of their stored steps that no generation had made before counts as
 * work; and progress is a step beyond all earlier ones, whatever steps were made again. */
static void steps_made_again_are_no_progress(void **state)
{
    (void)state;
    static const struct line first[] = {
        BEGIN,                                                                                          /* 4 s */
        { 'E', "generation_ended", DIED, JOB_RECOVERING, DO_NOTHING, "generation_ended " },             /* 40 steps */
        { 'E', "generation_started", GEN2, JOB_RUNNING, DO_NOTHING, "generation_started " },            /* from 20 */
        { 'E', "rank_started", "{\"rank\":0,\"resume_step\":20}", JOB_RUNNING, DO_NOTHING, "rank_started " },
    };
    static const struct line lost = { 'L', NULL, "the agent is gone", JOB_RECOVERING, DO_SCHEDULE,
                                      "agent_lost retry " };
    static const struct line again_placed = { 'P', 0, PLACED, JOB_STARTING, DO_START, "placed " };
    static const struct {
        const char *kind, *body;
        int64_t     best, share; /* of the 8 s of generation 2, in percent */
    } rows[] = {
        { "checkpoint", "{\"generation\":2,\"step\":30,\"path\":\"/c\"}", 40, 0 },
        { "checkpoint", "{\"generation\":2,\"step\":40,\"path\":\"/c\"}", 40, 0 },
        { "checkpoint", "{\"generation\":2,\"step\":60,\"path\":\"/c\"}", 60, 50 },
        { "step", "{\"step\":60}", 60, 50 }, /* of a script, whose checkpoints nobody reports */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_core core, again;
        struct goodput before, spent;
        job_core_init(&core, 5);
        job_core_init(&again, 5);
        for (int n = 0; n < 7; n++)
            play(&core, &again, &first[n], 1000 * (n + 1), "made again");
        assert_int_equal(core.step, 20);
        assert_int_equal(core.best, 40);
        job_core_spent(&before, &core, 6000);
        const bool stored = strcmp(rows[i].kind, "checkpoint") == 0;
        play(&core, &again, &(struct line){ 'E', rows[i].kind, rows[i].body, JOB_RUNNING, DO_NOTHING,
                                            stored ? "checkpoint " : "" }, 7000, "made again");
        assert_int_equal(core.best, stored ? rows[i].best : 40);
        play(&core, &again, &lost, 14000, "made again");
        assert_int_equal(core.best, rows[i].best);
        job_core_spent(&spent, &core, 14000);
        assert_int_equal(spent.ms[BUCKET_PRODUCTIVE] - before.ms[BUCKET_PRODUCTIVE], 2 * 8000 * rows[i].share / 100);
        assert_int_equal(spent.ms[BUCKET_REPLAYED] - before.ms[BUCKET_REPLAYED],
                         2 * 8000 * (100 - rows[i].share) / 100);
        play(&core, &again, &again_placed, 100000, "made again");
        assert_int_equal(core.attempt_best, rows[i].best);
        const int64_t failures = core.failures;
        play(&core, &again, &(struct line){ 'U', 0, UP, JOB_STARTING, DO_LAUNCH, "agent_up " }, 101000, "made again");
        play(&core, &again, &lost, 102000, "made again"); /* without a step: no progress since */
        assert_int_equal(core.failures, failures + 1);
        assert_int_equal(core.best, again.best);
        assert_memory_equal(&core.goodput, &again.goodput, sizeof(core.goodput));
    }
}

/* After a restart the wall clock may have been set: never more is left than the whole back-off. */
static void backoff_is_never_longer(void **state)
{
    (void)state;
    static const struct {
        int64_t wall_ms, left_ms;
    } rows[] = { { 100000, 4000 }, { 102500, 1500 }, { 104000, 0 }, { 999999, 0 }, { 0, 4000 } };
    const struct job_core core = { .not_before_ms = 104000, .backoff_ms = 4000 };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(job_core_backoff_left(&core, rows[i].wall_ms), rows[i].left_ms);
}

/* Only the agent of the live attempt may send events. */
static void fence(void **state)
{
    (void)state;
    static const struct {
        int64_t     attempt;
        const char *nonce;
        int         rc;
    } speakers[] = { { 1, "abc", 0 }, { 1, "abd", -1 }, { 1, NULL, -1 }, { 0, "abc", -1 },
                     { 2, "abc", -1 } };
    static const enum core_input_kind kinds[] = { CORE_AGENT_UP, CORE_AGENT_EVENT };
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof(speakers) / sizeof(speakers[0]); i++) {
            struct job_core core, again;
            job_core_init(&core, 5);
            job_core_init(&again, 5);
            static const struct line begin[] = { BEGIN };
            for (int n = 0; n < 4; n++)
                play(&core, &again, &begin[n], 1000, "fence");
            struct err err = { 0 };
            struct core_output out = { 0 };
            const struct core_input in = { .kind = kinds[k], .event = "restart_scheduled",
                                           .attempt = speakers[i].attempt,
                                           .nonce = speakers[i].nonce };
            assert_int_equal(job_core_step(&core, &in, &out, &err), speakers[i].rc);
            core_output_fini(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_of_jobs),
        cmocka_unit_test(goodput), cmocka_unit_test(goodput_of_ranks_that_stand_still),
        cmocka_unit_test(goodput_of_lost_events),
        cmocka_unit_test(a_run_without_its_gpu), cmocka_unit_test(a_full_disk),
        cmocka_unit_test(another_queue),
        cmocka_unit_test(a_clock_that_is_set),
        cmocka_unit_test(strange_bodies),
        cmocka_unit_test(steps_made_again_are_no_progress),
        cmocka_unit_test(backoff_is_never_longer),
        cmocka_unit_test(fence),
    };
    return cmocka_run_group_tests_name("job_core", tests, NULL, NULL);
}
