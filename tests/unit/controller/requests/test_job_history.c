/* SPDX-License-Identifier: Apache-2.0 */
/* test_job_history.c - what `jobctl show` says of attempts, after each of their events */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "controller/requests/job_history.h"
#include "controller/job/event_kind.h"
#include "db/events.h"

static struct job_history h;
static int64_t seq;

static int up(void **state)
{
    (void)state;
    h = (struct job_history){ .attempts = json_array() };
    seq = 0;
    return 0;
}

static int down(void **state)
{
    (void)state;
    json_decref(h.attempts);
    json_decref(h.plan);
    json_decref(h.set);
    return 0;
}

/* An event of the newest attempt, a second after the last one. */
static void add(enum event_kind kind, int64_t attempt, const char *body)
{
    seq++;
    const struct event_row row = { .job = 3, .seq = seq, .at_ms = 1000 * seq, .kind = event_kind_name(kind),
                                   .attempt = attempt, .body = body };
    assert_int_equal(job_history_add(&h, &row), 0);
}

/* The value at a path such as "0.nodes.1.state" below the attempts, as JSON. */
static void assert_at(const char *path, const char *want)
{
    const json_t *v = h.attempts;
    for (const char *p = path; *p; p += strspn(p, ".")) {
        char key[40];
        const size_t n = strcspn(p, ".");
        snprintf(key, sizeof(key), "%.*s", (int)n, p);
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(key)) : json_object_get(v, key);
        p += n;
    }
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : strdup("none");
    if (strcmp(text, want) != 0)
        fail_msg("%s is %s, not %s", path, text, want);
    free(text);
}

#define PLACED "{\"node\":\"a\",\"nonce\":\"c0\",\"nodes\":[\"a\",\"b\",\"c\"]}"
#define NODES  "{\"nodes\":[{\"node\":0,\"name\":\"a\"},{\"node\":1,\"name\":\"b\"},{\"node\":2,\"name\":\"c\"}]}"

static void nodes_join_and_are_lost(void **state)
{
    (void)state;
    add(EVENT_NODE_LOST, 0, "{\"name\":\"b\"}"); /* without an attempt: ignored, as each of an attempt */
    add(EVENT_NODES, 0, NODES);
    add(EVENT_PLACED, 1, PLACED);
    assert_at("0.nodes", "[{\"node\":0,\"name\":\"a\",\"state\":\"placed\"},{\"node\":1,\"name\":\"b\",\"state\":\"placed\"},"
                         "{\"node\":2,\"name\":\"c\",\"state\":\"placed\"}]");
    assert_at("0.state", "\"live\"");
    assert_at("0.started_at", "\"1970-01-01T00:00:03.000Z\"");
    assert_at("0.ended_at", "null");
    add(EVENT_NODES, 1, NODES);
    for (int i = 0; i < 3; i++)
        assert_at((const char *[]){ "0.nodes.0.state", "0.nodes.1.state", "0.nodes.2.state" }[i], "\"joined\"");
    /* Events that name a node without its loss change nothing. */
    add(EVENT_RANK_STARTED, 1, "{\"rank\":1,\"name\":\"a\",\"text\":\"x\"}");
    add(EVENT_NODE_LOST, 1, "{\"name\":\"b\",\"text\":\"node b is unreachable\"}");
    assert_at("0.nodes.0", "{\"node\":0,\"name\":\"a\",\"state\":\"joined\"}");
    assert_at("0.nodes.1", "{\"node\":1,\"name\":\"b\",\"state\":\"lost\",\"text\":\"node b is unreachable\"}");
    assert_at("0.nodes.2.state", "\"joined\"");
}

static void generations_end_and_so_do_attempts(void **state)
{
    (void)state;
    add(EVENT_PLACED, 1, PLACED);
    add(EVENT_RANK_STARTED, 1, "{\"resume_step\":9}"); /* of no generation */
    add(EVENT_GENERATION_STARTED, 1, "{\"generation\":1,\"np\":2,\"pids\":[5,6],\"resume_step\":null}");
    add(EVENT_RANK_STARTED, 1, "{}");
    assert_at("0.generations.0.resume_step", "null");
    add(EVENT_RANK_STARTED, 1, "{\"resume_step\":40}");
    assert_at("0.generations.0.resume_step", "40");
    add(EVENT_GENERATION_ENDED, 1, "{\"cause\":\"crash\",\"text\":\"rank 1\",\"step\":50,\"more\":1}");
    assert_at("0.generations.0.cause", "\"crash\"");
    assert_at("0.generations.0.step", "50");
    assert_at("0.generations.0.more", "none");
    assert_at("0.generations.0.ended_at", "\"1970-01-01T00:00:06.000Z\"");
    assert_at("0.ended_at", "null");
    add(EVENT_GENERATION_STARTED, 1, "{\"generation\":2,\"np\":1,\"pids\":[7],\"resume_step\":50}");
    assert_at("0.generations.0.ended_at", "\"1970-01-01T00:00:06.000Z\"");
    /* The agent is lost: its generation has ended with it. */
    add(EVENT_AGENT_LOST, 1, "{\"cause\":\"node_lost\",\"text\":\"gone\"}");
    assert_at("0.generations.1.ended_at", "\"1970-01-01T00:00:08.000Z\"");
    assert_at("0.generations.1.text", "\"gone\"");
    assert_at("0.state", "\"lost\"");
    assert_at("0.cause", "\"node_lost\"");
    assert_at("0.ended_at", "\"1970-01-01T00:00:08.000Z\"");
    /* The next attempt does not change the first one. */
    add(EVENT_PLACED, 2, "{\"node\":\"d\",\"nonce\":\"c1\",\"left_out\":[\"a\"]}");
    add(EVENT_GENERATION_STARTED, 2, "{\"generation\":1,\"np\":1,\"pids\":[8],\"resume_step\":50}");
    add(EVENT_GENERATION_ENDED, 2, "{\"cause\":null,\"step\":60}");
    add(EVENT_ATTEMPT_ENDED, 2, "{\"result\":\"done\",\"step\":60,\"cause\":null}");
    assert_at("0.state", "\"lost\"");
    assert_at("1.state", "\"done\"");
    assert_at("1.attempt", "2");
    assert_at("1.left_out", "[\"a\"]");
    assert_at("1.generations.0.ended_at", "\"1970-01-01T00:00:11.000Z\"");
    assert_at("1.ended_at", "\"1970-01-01T00:00:12.000Z\"");
    assert_at("2", "none");
}

/* An attempt that ends without a word for its open generation leaves it open. */
static void only_a_loss_ends_an_open_generation(void **state)
{
    (void)state;
    add(EVENT_PLACED, 1, PLACED);
    add(EVENT_GENERATION_STARTED, 1, "{\"generation\":1,\"np\":1,\"pids\":[8]}");
    add(EVENT_ATTEMPT_ENDED, 1, "{\"cause\":\"crash\"}");
    assert_at("0.state", "\"failed\"");
    assert_at("0.generations.0.ended_at", "null");
}

static void plans_are_compared(void **state)
{
    (void)state;
    add(EVENT_SUBMITTED, 0, "{\"set\":{\"train.steps\":5}}");
    add(EVENT_PLAN, 0, "{\"hash\":\"h0\"}"); /* of no attempt */
    assert_null(h.plan);
    assert_int_equal(json_object_size(h.set), 1);
    add(EVENT_PLACED, 1, PLACED);
    add(EVENT_PLAN, 1, "{\"hash\":\"h1\",\"why\":[\"w\"],\"expects\":{\"x\":1},\"ranks\":[]}");
    assert_at("0.plan", "{\"hash\":\"h1\",\"why\":[\"w\"],\"expects\":{\"x\":1},\"changes\":[]}");
    add(EVENT_NCCL, 1, "{\"expected\":true,\"text\":\"as planned\",\"pairs\":4,\"more\":1}");
    assert_at("0.plan.nccl", "{\"expected\":true,\"text\":\"as planned\",\"pairs\":4}");
    assert_string_equal(json_string_value(json_object_get(h.plan, "hash")), "h1");
    add(EVENT_EDITED, 0, "{}");
    assert_null(h.set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_join_and_are_lost, up, down),
        cmocka_unit_test_setup_teardown(generations_end_and_so_do_attempts, up, down),
        cmocka_unit_test_setup_teardown(only_a_loss_ends_an_open_generation, up, down),
        cmocka_unit_test_setup_teardown(plans_are_compared, up, down),
    };
    return cmocka_run_group_tests_name("job_history", tests, NULL, NULL);
}
