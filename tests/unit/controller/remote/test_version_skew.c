/* SPDX-License-Identifier: Apache-2.0 */
/* test_version_skew.c - an agent of another version is understood, or rejected with an error
 *
 * The messages of an agent of the previous version were recorded: HELLO and all events of a command
 * with two ranks, one of which fails in the first generation. That version had no `spent` or
 * `learned`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/wire/frame.h"
#include "agent/wire/wire_version.h"
#include "controller/job/job_core.h"
#include "engine/contract/err.h"

#define NONCE "4694baf41ec6dc11c750edd5dfbc774b"
#define ID    "\"job\":1,\"attempt\":1,\"nonce\":\"" NONCE "\""

static const char HELLO[] =
    "{\"node\":\"vm\",\"boot_id\":\"f48bd6af-4dc0-4d01-b864-3360a59d43d3\",\"pid\":707,"
    "\"start_time\":1755308,\"incarnation\":1,\"version\":\"0.1.0\",\"launched\":true,"
    "\"first_seq\":0,\"last_seq\":3,\"facts\":{}," ID "}";

static const struct {
    const char    *kind, *body;
    enum job_state state;
} told[] = {
    { "generation_started", "{\"generation\":1,\"np\":2,\"pids\":[708,709],\"resume_step\":null,"
      "\"fresh\":true}", JOB_RUNNING },
    { "rank_exited", "{\"generation\":1,\"rank\":0,\"pid\":708,\"after_ms\":2010,"
      "\"exit_code\":0}", JOB_RUNNING },
    { "rank_exited", "{\"generation\":1,\"rank\":1,\"pid\":709,\"after_ms\":2010,"
      "\"exit_code\":1}", JOB_RUNNING },
    { "generation_ended", "{\"generation\":1,\"cause\":\"user_exit\",\"text\":\"rank 1 exited with "
      "code 1\",\"rank\":1,\"step\":null,\"gained\":0,\"fingerprint\":\"user_exit:exit1:2bb2830f@-1"
      "\",\"evidence\":[],\"exit_code\":1}", JOB_RECOVERING },
    { "restart_scheduled", "{\"generation\":2,\"delay_ms\":0,\"text\":\"rank 1 exited with code "
      "1\"}", JOB_RECOVERING },
    { "generation_started", "{\"generation\":2,\"np\":2,\"pids\":[918,920],\"resume_step\":null,"
      "\"fresh\":true}", JOB_RUNNING },
    { "rank_exited", "{\"generation\":2,\"rank\":0,\"pid\":918,\"after_ms\":2005,"
      "\"exit_code\":0}", JOB_RUNNING },
    { "rank_exited", "{\"generation\":2,\"rank\":1,\"pid\":920,\"after_ms\":2004,"
      "\"exit_code\":0}", JOB_RUNNING },
    { "generation_ended", "{\"generation\":2,\"cause\":\"none\",\"text\":\"every rank exited with "
      "code 0\",\"rank\":null,\"step\":null,\"gained\":0,\"fingerprint\":\"\",\"evidence\":null,"
      "\"exit_code\":0}", JOB_RUNNING },
    { "attempt_ended", "{\"cause\":\"none\",\"step\":null,\"exit_code\":null,\"productive_ms\":2033,"
      "\"fingerprint\":\"user_exit:exit1:2bb2830f@-1\",\"same_fingerprint\":1,"
      "\"failures_without_progress\":1,\"result\":\"succeeded\",\"text\":\"every rank exited with "
      "code 0\",\"generations\":2,\"clean\":true,\"wall_ms\":4058,\"retry_helps\":false,"
      "\"gave_up\":false}", JOB_DONE },
};
enum { TOLD = sizeof(told) / sizeof(told[0]) };

/* A frame in the format of that version. */
static size_t frame(unsigned char *out, unsigned version, unsigned number, const char *body)
{
    size_t n = strlen(body);
    const unsigned char header[] = { (unsigned char)n, (unsigned char)(n >> 8), 0, 0,
                                     (unsigned char)version, 0, (unsigned char)number, 0 };
    memcpy(out, header, sizeof(header));
    memcpy(out + sizeof(header), body, n);
    return sizeof(header) + n;
}

static int hear(json_t **body, unsigned version, unsigned number, const char *text, struct err *err)
{
    static unsigned char bytes[8192];
    struct frame_reader *r;
    const struct wire_row *row;
    size_t n = frame(bytes, version, number, text);
    assert_int_equal(frame_reader_create(&r, TO_CONTROLLER, NULL), 0);
    int used = frame_read(r, bytes, n, &row, body, err);
    frame_reader_destroy(r);
    return used < 0 ? -1 : 0;
}

static void step(struct job_core *core, struct core_input *in, const char *body)
{
    struct err err = { 0 };
    struct core_output out = { 0 };
    json_t *made = body ? json_loads(body, 0, NULL) : NULL;
    if (made)
        in->body = made;
    if (job_core_step(core, in, &out, &err) < 0)
        fail_msg("%s: %s", in->event ? in->event : "?", err.text);
    core_output_fini(&out);
    json_decref(made);
}

static void the_version_before(void **state)
{
    (void)state;
    struct job_core core;
    struct err err = { 0 };
    json_t *hello;
    job_core_init(&core, 1);
    step(&core, &(struct core_input){ .kind = CORE_SUBMIT, .at_ms = 1000 },
         "{\"name\":\"old\",\"retry\":{\"max\":10,\"no_progress\":3,\"backoff_ms\":[5000,9000]}}");
    step(&core, &(struct core_input){ .kind = CORE_PLACE, .at_ms = 1000 },
         "{\"nonce\":\"" NONCE "\",\"node\":\"vm\",\"cpus\":1,\"gpus\":0}");
    if (hear(&hello, 1, WIRE_HELLO, HELLO, &err) < 0)
        fail_msg("%s", err.text);
    const struct wire_id id = wire_id_of(hello);
    step(&core, &(struct core_input){ .kind = CORE_AGENT_UP, .at_ms = 1000, .attempt = id.attempt,
                                      .nonce = id.nonce, .body = hello }, NULL);
    for (int i = 0; i < TOLD; i++) {
        char text[4096];
        json_t *event;
        snprintf(text, sizeof(text), "{" ID ",\"incarnation\":1,\"seq\":%d,\"mono_ns\":%d,"
                 "\"wall_ms\":%d,\"kind\":\"%s\",\"body\":%s}", i + 1, i, 2000 + 1000 * i,
                 told[i].kind, told[i].body);
        if (hear(&event, 1, WIRE_EVENT, text, &err) < 0)
            fail_msg("%s", err.text);
        step(&core, &(struct core_input){ .kind = CORE_AGENT_EVENT, .attempt = 1, .nonce = NONCE,
                                          .at_ms = 2000 + 1000 * i, .event = told[i].kind,
                                          .body = json_object_get(event, "body") }, NULL);
        assert_int_equal(core.state, told[i].state);
        assert_true(goodput_adds_up(&core.goodput.spent));
        json_decref(event);
    }
    assert_int_equal(core.result, RESULT_SUCCEEDED);
    /* It did not report how it spent its time: the controller estimates it. */
    assert_int_equal(core.goodput.spent.ms[BUCKET_REPLAYED], 2 * 3000);
    assert_int_equal(core.goodput.spent.ms[BUCKET_PRODUCTIVE], 2 * 3000);
    json_decref(hello);
}

/* How its time was spent, under the old key and the new one. */
static void goodput_is_read(void **state)
{
    static const char *const keys[] = { "spent", "goodput" };
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct job_core core;
        char text[512];
        snprintf(text, sizeof(text), "{\"generation\":1,\"cause\":\"none\",\"text\":\"done\",\"rank\":null,"
                 "\"step\":5,\"gained\":5,\"fingerprint\":\"\",\"exit_code\":0,\"%s\":{\"rank_ms\":2000,"
                 "\"productive\":1300,\"init\":400,\"data\":300}}", keys[k]);
        job_core_init(&core, 1);
        step(&core, &(struct core_input){ .kind = CORE_SUBMIT, .at_ms = 1000 },
             "{\"name\":\"old\",\"retry\":{\"max\":1,\"no_progress\":3,\"backoff_ms\":[5000,9000]}}");
        step(&core, &(struct core_input){ .kind = CORE_PLACE, .at_ms = 1000 },
             "{\"nonce\":\"" NONCE "\",\"node\":\"vm\",\"cpus\":1,\"gpus\":0}");
        step(&core, &(struct core_input){ .kind = CORE_AGENT_EVENT, .attempt = 1, .nonce = NONCE, .at_ms = 2000,
                                          .event = "generation_started" },
             "{\"generation\":1,\"np\":1,\"pids\":[7],\"resume_step\":null,\"fresh\":true}");
        step(&core, &(struct core_input){ .kind = CORE_AGENT_EVENT, .attempt = 1, .nonce = NONCE, .at_ms = 4000,
                                          .event = "generation_ended" }, text);
        assert_int_equal(core.goodput.spent.ms[BUCKET_DATA], 300);
        assert_int_equal(core.goodput.spent.ms[BUCKET_PRODUCTIVE], 1300);
    }
}

static void told_apart(void **state)
{
    (void)state;
    struct err err = { 0 };
    json_t *body;
    assert_int_equal(hear(&body, WIRE_VERSION + 1, WIRE_HELLO, HELLO, &err), -1);
    assert_non_null(strstr(err.text, "the peer uses protocol version 5, this side 4: install the same version "
                                     "of jobctl on both"));
    err = (struct err){ 0 };
    assert_int_equal(hear(&body, 1, WIRE_HELLO, "{\"mood\":\"good\"," ID "}", &err), -1);
    assert_non_null(strstr(err.text, "a hello message has no field"));
    err = (struct err){ 0 };
    assert_int_equal(hear(&body, 1, 40, HELLO, &err), -1);
    assert_non_null(strstr(err.text, "message number 40 is not valid in this direction"));
}

/* An agent refuses a launch with keys that it does not know. */
static void later_keys_are_left_out(void **state)
{
    (void)state;
    json_t *now = json_loads("{\"env_place\":\"here\",\"budget\":{\"restarts\":1,\"same_line\":2,\"same_line_ms\":3}}",
                             0, NULL);
    json_t *then = wire_version_write(2, WIRE_LAUNCH, now);
    char *text = json_dumps(then, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"budget\":{\"restarts\":1}}");
    assert_int_equal(json_object_size(now), 2);
    free(text);
    json_decref(then);
    json_decref(now);
}

/* An agent refuses a message that it does not know. */
static void later_messages_are_not_sent(void **state)
{
    (void)state;
    for (unsigned version = 1; version < 4; version++)
        assert_false(wire_version_knows(version, WIRE_WATCH_GPUS));
    assert_true(wire_version_knows(4, WIRE_WATCH_GPUS));
    assert_true(wire_version_knows(1, WIRE_LAUNCH));
    assert_true(wire_version_knows(2, WIRE_ATTACH));    /* some of its keys are left out */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_keys_are_left_out),
        cmocka_unit_test(later_messages_are_not_sent),
        cmocka_unit_test(the_version_before),
        cmocka_unit_test(goodput_is_read),
        cmocka_unit_test(told_apart),
    };
    return cmocka_run_group_tests_name("skew", tests, NULL, NULL);
}
