/* SPDX-License-Identifier: Apache-2.0 */
/* test_notice.c - when messages are sent, on a virtual clock: bursts, ends, back-off, bundles */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "controller/notify/notice.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND };
#define HOUR ((int64_t)60 * MINUTE)
#define START ((int64_t)1000000)

/* A job and one target, told each second; what it got. */
struct run {
    struct notice_row row;
    bool    stored;
    int     messages;
    int64_t at_ms[200];
    int64_t restarts[200];
    char    event[200][NOTICES_EVENT];
};

static void put(struct run *r, enum notice_fate fate)
{
    if (fate == NOTICE_REMOVE)
        r->row = (struct notice_row){ .job = 7 };
    r->stored = fate == NOTICE_SAME ? r->stored : fate == NOTICE_PUT;
}

static void tell(struct run *r, enum notice_event event, bool wanted, bool ended, int64_t now)
{
    const struct notice_news news = { .event = event, .wanted = wanted, .ended = ended, .at_ms = now, .name = "sana",
                                      .reason = "rank 0 died" };
    put(r, notice_add(&r->row, &news, &NOTICE_TIMES));
}

static void send(struct run *r, int64_t now)
{
    if (!r->stored || !notice_is_due(&r->row, now))
        return;
    const struct notice_row was = r->row;
    r->at_ms[r->messages] = now;
    r->restarts[r->messages] = was.restarts;
    snprintf(r->event[r->messages++], NOTICES_EVENT, "%s", was.event);
    put(r, notice_sent(&r->row, &was, now, &NOTICE_TIMES));
}

/* 100 restarts in 100 s: one message of the first 30 s, one of the rest ten minutes later, no third. */
static void a_storm(void **state)
{
    (void)state;
    struct run r = { .row = { .job = 7 } };
    for (int64_t now = START; now < START + 2 * HOUR; now += SECOND) {
        if (now < START + 100 * SECOND)
            tell(&r, NOTICE_RECOVERING, true, false, now);
        send(&r, now);
    }
    assert_int_equal(r.messages, 2);
    assert_int_equal(r.at_ms[0], START + 30 * SECOND);
    assert_int_equal(r.at_ms[1], START + 30 * SECOND + 10 * MINUTE);
    assert_int_equal(r.restarts[0] + r.restarts[1], 100);
    assert_string_equal(r.event[0], "recovering");
}

/* A restart each minute for a day: the pauses double. */
static void a_long_storm(void **state)
{
    (void)state;
    struct run r = { .row = { .job = 7 } };
    int64_t told = 0;
    for (int64_t now = START; now < START + 24 * HOUR; now += MINUTE) {
        tell(&r, NOTICE_RECOVERING, true, false, now);
        send(&r, now);
    }
    assert_in_range(r.messages, 7, 9);
    for (int i = 0; i < r.messages; i++)
        told += r.restarts[i];
    assert_int_equal(told + r.row.restarts, 24 * 60);
}

static void the_end_at_once(void **state)
{
    (void)state;
    struct run r = { .row = { .job = 7 } };
    tell(&r, NOTICE_RECOVERING, true, false, START);
    tell(&r, NOTICE_HUNG, true, false, START + 1);
    send(&r, START + 2);
    assert_int_equal(r.messages, 0);
    tell(&r, NOTICE_FAILED, true, true, START + 3);
    send(&r, START + 3);
    send(&r, START + HOUR);
    assert_int_equal(r.messages, 1);
    assert_string_equal(r.event[0], "failed");
    assert_int_equal(r.restarts[0], 1);
    assert_false(r.stored);
}

static const struct {
    enum notice_event event;
    bool              wanted, waiting;  /* waiting: trouble before it */
    int               messages;
} ends[] = {
    { NOTICE_DONE, true, false, 1 },  { NOTICE_DONE, false, false, 0 },  { NOTICE_DONE, false, true, 1 },
    { NOTICE_NONE, false, false, 0 }, { NOTICE_NONE, false, true, 0 },   { NOTICE_FAILED, true, true, 1 },
};

static void kinds_of_ends(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct run r = { .row = { .job = 7 } };
        if (ends[i].waiting)
            tell(&r, NOTICE_RECOVERING, true, false, START);
        tell(&r, ends[i].event, ends[i].wanted, true, START + 1);
        for (int64_t now = START; now < START + 2 * HOUR; now += SECOND)
            send(&r, now);
        if (r.messages != ends[i].messages || r.stored)
            fail_msg("end %zu: %d messages, %d left", i, r.messages, r.stored);
    }
}

static void unwanted_trouble(void **state)
{
    (void)state;
    struct run r = { .row = { .job = 7 } };
    tell(&r, NOTICE_RECOVERING, false, false, START);
    assert_false(r.stored);
}

/* What comes while a message is on its way is in the next one. */
static void while_sending(void **state)
{
    (void)state;
    struct run r = { .row = { .job = 7 } };
    tell(&r, NOTICE_RECOVERING, true, false, START);
    const struct notice_row was = r.row;
    tell(&r, NOTICE_RECOVERING, true, false, START + 31 * SECOND);
    put(&r, notice_sent(&r.row, &was, START + 32 * SECOND, &NOTICE_TIMES));
    assert_int_equal(r.row.restarts, 1);
    assert_int_equal(r.row.due_ms, START + 32 * SECOND + 10 * MINUTE);

    const struct notice_row second = r.row;
    tell(&r, NOTICE_DONE, true, true, START + HOUR);
    put(&r, notice_sent(&r.row, &second, START + HOUR + 1, &NOTICE_TIMES));
    assert_true(r.stored);
    assert_true(notice_is_due(&r.row, START + HOUR + 1));
    assert_string_equal(r.row.event, "done");
}

static void given_up(void **state)
{
    (void)state;
    struct notice_row n = { .job = 7, .due_ms = START };
    assert_int_equal(notice_failed(&n, true, START), NOTICE_PUT);
    assert_int_equal(notice_failed(&n, true, START), NOTICE_PUT);
    assert_int_equal(notice_failed(&n, true, START), NOTICE_REMOVE);
    n.tries = 0;
    for (int i = 0; i < 50; i++)
        assert_int_equal(notice_failed(&n, false, START + NOTICE_KEEP_MS - 1), NOTICE_PUT);
    assert_int_equal(notice_failed(&n, false, START + NOTICE_KEEP_MS), NOTICE_REMOVE);
}

/* The wall clock was set back by a year. */
static void clock_set_back(void **state)
{
    (void)state;
    const struct notice_row n = { .due_ms = START + 366 * 24 * HOUR };
    assert_true(notice_is_due(&n, START));
    const struct notice_row later = { .due_ms = START + 24 * HOUR };
    assert_false(notice_is_due(&later, START));
}

/* 10,000 jobs fail at once: ten messages of 1000 each. */
static void a_bundle(void **state)
{
    (void)state;
    struct notice_lane lane = { .used = 0 };
    size_t due = 10000;
    int messages = 0;
    for (int64_t now = HOUR; due > 0 && messages < 100; now += SECOND) {
        const size_t n = notice_lane_take(&lane, due, now, &NOTICE_TIMES);
        messages += n > 0;
        due -= n;
        if (n > 0)
            notice_lane_ended(&lane, true, now, &NOTICE_TIMES);
    }
    assert_int_equal(messages, 10);
}

/* One job fails each second for an hour: five messages at once, then one a minute. */
static void a_stream(void **state)
{
    (void)state;
    struct notice_lane lane = { .used = 0 };
    size_t due = 0, sent = 0;
    int messages = 0;
    for (int64_t now = HOUR; now < 2 * HOUR; now += SECOND) {
        const size_t n = notice_lane_take(&lane, ++due, now, &NOTICE_TIMES);
        messages += n > 0;
        sent += n;
        due -= n;
    }
    assert_in_range(messages, 60, 66);
    assert_int_equal(sent + due, 3600);
}

/* A dead target: 5 s, 10 s, ... at most an hour apart; then it works again. */
static void back_off(void **state)
{
    (void)state;
    struct notice_lane lane = { .used = 0 };
    int tries = 0;
    for (int64_t now = HOUR; now < 25 * HOUR; now += SECOND)
        if (notice_lane_take(&lane, 1, now, &NOTICE_TIMES) > 0) {
            tries++;
            notice_lane_ended(&lane, false, now, &NOTICE_TIMES);
            if (tries == 2)
                assert_int_equal(lane.next_ms, now + 10 * SECOND);
        }
    assert_in_range(tries, 25, 36);
    notice_lane_ended(&lane, true, 25 * HOUR, &NOTICE_TIMES);
    assert_int_equal(notice_lane_take(&lane, 1, 25 * HOUR, &NOTICE_TIMES), 1);
}

static void names(void **state)
{
    (void)state;
    for (int e = NOTICE_RECOVERING; e < NOTICE_EVENTS; e++)
        assert_int_equal(notice_event_of(notice_event_name((enum notice_event)e)), e);
    assert_int_equal(notice_event_of(NULL), NOTICE_NONE);
    assert_int_equal(notice_event_of("other"), NOTICE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storm),          cmocka_unit_test(a_long_storm), cmocka_unit_test(the_end_at_once),
        cmocka_unit_test(kinds_of_ends),    cmocka_unit_test(unwanted_trouble), cmocka_unit_test(while_sending),
        cmocka_unit_test(given_up),         cmocka_unit_test(clock_set_back), cmocka_unit_test(a_bundle),
        cmocka_unit_test(a_stream),         cmocka_unit_test(back_off),     cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
