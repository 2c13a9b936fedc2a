/* SPDX-License-Identifier: Apache-2.0 */
/* test_frame.c - messages in a stream of bytes: cut anywhere, and wrong in every field */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/wire/frame.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define ID           "\"job\":7,\"attempt\":1,\"nonce\":\"ab\""

static json_t *parse(const char *text)
{
    json_t *v = json_loads(text, 0, NULL);
    assert_non_null(v);
    return v;
}

static void *make(enum wire_message number, const char *text, size_t *size)
{
    struct err err = {0};
    json_t *v = parse(text);
    void *frame = frame_make(number, v, size, &err);
    if (!frame)
        fail_msg("%s", err.text);
    json_decref(v);
    return frame;
}

static void whole_stream_in_any_pieces(void **state)
{
    (void)state;
    size_t a_size, b_size;
    char *a =
        make(WIRE_STOP, "{" ID ",\"reason\":\"x\",\"grace_ms\":5,\"checkpoint\":true}", &a_size);
    char *b = make(WIRE_ACK, "{" ID ",\"seq\":9}", &b_size);
    char *stream = malloc(a_size + b_size);
    memcpy(stream, a, a_size);
    memcpy(stream + a_size, b, b_size);
    for (size_t piece = 1; piece <= a_size + b_size; piece++) {
        struct frame_reader *r;
        assert_int_equal(frame_reader_create(&r, TO_AGENT, NULL), 0);
        enum wire_message seen[2];
        int n = 0;
        for (size_t at = 0; at < a_size + b_size;) {
            size_t len = a_size + b_size - at < piece ? a_size + b_size - at : piece;
            const struct wire_row *row;
            json_t *body;
            int used = frame_read(r, stream + at, len, &row, &body, NULL);
            assert_true(used > 0);
            at += (size_t)used;
            if (body) {
                assert_true(n < 2);
                seen[n++] = row->number;
                json_decref(body);
            }
        }
        assert_int_equal(n, 2);
        assert_int_equal(seen[0], WIRE_STOP);
        assert_int_equal(seen[1], WIRE_ACK);
        frame_reader_destroy(r);
    }
    free(stream);
    free(a);
    free(b);
}

/* One bad frame each: header fields, then the body. */
static const struct {
    const char *what;
    uint32_t size_add; /* to the true size */
    unsigned version, number;
    const char *body;
    const char *text;
} bad[] = {
    {"version", 0, WIRE_VERSION + 1, WIRE_ACK, "{}", "protocol version"},
    {"older version", 0, 1, WIRE_ACK, "{}", "protocol version 1"},
    {"number", 0, WIRE_VERSION, 99, "{}", "number 99"},
    {"direction", 0, WIRE_VERSION, WIRE_EVENT, "{}", "number 2"},
    {"size", 4000000, WIRE_VERSION, WIRE_LAUNCH, "{}", "exceeds its limit"},
    {"no JSON", 0, WIRE_VERSION, WIRE_ACK, "{x}", "not JSON"},
    {"duplicate", 0, WIRE_VERSION, WIRE_ACK, "{" ID ",\"seq\":1,\"seq\":2}", "not JSON"},
    {"no object", 0, WIRE_VERSION, WIRE_ACK, "[1]", "must be a JSON object"},
    {"missing", 0, WIRE_VERSION, WIRE_ACK, "{" ID "}", "no field 'seq'"},
    {"type", 0, WIRE_VERSION, WIRE_ACK, "{" ID ",\"seq\":\"1\"}",
     "'seq' of a ack message is not an integer"},
    {"unknown", 0, WIRE_VERSION, WIRE_ACK, "{" ID ",\"seq\":1,\"sec\":1}", "unknown field 'sec'"},
    {"bool", 0, WIRE_VERSION, WIRE_STOP, "{" ID ",\"reason\":\"\",\"grace_ms\":1,\"checkpoint\":1}",
     "not true or false"},
};

static void wrong_frames_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        unsigned char frame[256];
        size_t len = strlen(bad[i].body);
        uint32_t size = (uint32_t)len + bad[i].size_add;
        for (int k = 0; k < 4; k++)
            frame[k] = (unsigned char)(size >> (8 * k));
        frame[4] = (unsigned char)bad[i].version;
        frame[5] = 0;
        frame[6] = (unsigned char)bad[i].number;
        frame[7] = 0;
        memcpy(frame + 8, bad[i].body, len);

        struct frame_reader *r;
        struct err err = {0};
        const struct wire_row *row;
        json_t *body;
        assert_int_equal(frame_reader_create(&r, TO_AGENT, NULL), 0);
        assert_int_equal(frame_read(r, frame, 8 + len, &row, &body, &err), -1);
        assert_null(body);
        if (!strstr(err.text, bad[i].text))
            fail_msg("%s: got '%s'", bad[i].what, err.text);
        /* and it stays broken */
        assert_int_equal(frame_read(r, "", 0, &row, &body, NULL), -1);
        frame_reader_destroy(r);
    }
}

static void nested_objects_are_checked_where_described(void **state)
{
    (void)state;
    const struct wire_row *row = wire_find(WIRE_LAUNCH, TO_AGENT);
    const char *good =
        "{" ID ",\"name\":\"n\",\"spec\":{\"any\":[1]},\"spec_digest\":\"\","
        "\"run_dir\":\"/r\",\"job_dir\":\"/j\",\"ckpt_dir\":\"/c\",\"acked\":0,\"secrets\":{},"
        "\"budget\":{\"restarts\":1,\"backoff_min_ms\":1,\"backoff_max_ms\":2,"
        "\"no_progress\":3},\"history\":{\"failures_without_progress\":0,"
        "\"same_fingerprint\":0,\"last_step\":0,\"fingerprint\":\"\"}}";
    struct err err = {0};
    json_t *v = parse(good);
    if (wire_check(row, v, &err) < 0)
        fail_msg("%s", err.text);
    json_object_set_new(json_object_get(v, "budget"), "extra", json_integer(1));
    assert_int_equal(wire_check(row, v, &err), -1);
    assert_non_null(strstr(err.text, "budget.extra"));
    err = (struct err){0};
    json_object_del(json_object_get(v, "budget"), "extra");
    json_object_del(json_object_get(v, "history"), "last_step");
    assert_int_equal(wire_check(row, v, &err), -1);
    assert_non_null(strstr(err.text, "history.last_step"));
    json_decref(v);
}

static void a_wrong_body_is_not_sent(void **state)
{
    (void)state;
    struct err err = {0};
    size_t size;
    json_t *v = parse("{" ID "}");
    assert_null(frame_make(WIRE_ACK, v, &size, &err));
    assert_non_null(strstr(err.text, "refused to send"));
    json_decref(v);
}

/* Also one that the controller could have understood: the daemon of its version controls it. */
static void an_agent_of_another_version_is_told_apart(void **state)
{
    (void)state;
    static const unsigned others[] = {0, WIRE_VERSION - 1, WIRE_VERSION + 1, 255};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        const unsigned char frame[FRAME_HEADER] = {2, 0, 0, 0, (unsigned char)others[i], 0, WIRE_HELLO, 0};
        char want[64];
        struct frame_reader *r;
        struct err err = {0};
        const struct wire_row *row;
        json_t *body;
        assert_int_equal(frame_reader_create(&r, TO_CONTROLLER, NULL), 0);
        assert_int_equal(frame_read(r, frame, sizeof(frame), &row, &body, &err), -1);
        snprintf(want, sizeof(want), "uses protocol version %u, this side %d: its job keeps running", others[i],
                 WIRE_VERSION);
        assert_non_null(strstr(err.text, want));
        frame_reader_destroy(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_stream_in_any_pieces),
        cmocka_unit_test(wrong_frames_are_refused),
        cmocka_unit_test(nested_objects_are_checked_where_described),
        cmocka_unit_test(a_wrong_body_is_not_sent),
        cmocka_unit_test(an_agent_of_another_version_is_told_apart),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
