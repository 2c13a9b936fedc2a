/* SPDX-License-Identifier: Apache-2.0 */
/* test_channel.c - two channels on a virtual clock, over connections that are lost, late and doubled */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/wire/channel.h"

enum { LOOK_MS = 250, STEP_MS = 10, MESSAGES = 400, SEEDS = 200, FLIGHT = 4096, CALM_MS = 60000 };

/* --- a network of one caller (0) and one listener (1) ------------------------------------------- */

enum kind { CONNECT, ACCEPTED, MESSAGE, ALIVE };

struct packet {
    enum kind kind;
    int       to, connection;
    int64_t   at_ms, number; /* of a MESSAGE; else what the sender has received */
};

struct end {
    struct channel channel;
    int            connection; /* 0: none */
    int64_t        made, delivered, repeats;
};

static struct {
    int64_t       now_ms, free_at_ms[2]; /* packets of one direction do not overtake each other */
    bool          calm;                  /* no connection fails any more */
    int           connections, dead;     /* dead: connections up to this one carry nothing */
    int           left;                  /* packets until the newest one fails */
    uint64_t      random;
    struct packet flight[FLIGHT];
    int           n;
    struct end    ends[2];
} net;

static unsigned below(unsigned n)
{
    net.random = net.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(net.random >> 33) % n;
}

static void put(enum kind kind, int to, int connection, int64_t number)
{
    const bool alone = kind == CONNECT && !net.calm; /* connections overtake each other */
    int64_t at = net.now_ms + STEP_MS + below(alone ? 3000 : 40);
    if (!net.calm && (net.left-- <= 0 || (alone && below(3) == 0)))
        net.dead = net.connections;
    if (connection <= net.dead)
        return;
    if (!alone)
        net.free_at_ms[to] = at = at > net.free_at_ms[to] ? at : net.free_at_ms[to];
    assert_true(net.n < FLIGHT);
    net.flight[net.n++] = (struct packet){kind, to, connection, at, number};
}

static void send_kept(struct end *e)
{
    const int other = e == &net.ends[0];
    for (const struct channel_frame *f; (f = channel_next(&e->channel));) {
        put(MESSAGE, other, e->connection, strtoll(f->bytes, NULL, 10));
        channel_said(&e->channel, e->channel.sent + 1, net.now_ms);
    }
}

static void connect_again(struct end *e)
{
    channel_down(&e->channel);
    channel_try(&e->channel);
    e->connection = ++net.connections;
    net.left = (int)below(60);
    put(CONNECT, 1, e->connection, e->channel.received);
    if (below(4) == 0) /* and once more, later */
        put(CONNECT, 1, e->connection, e->channel.received);
}

static void begin(struct end *e, int64_t received)
{
    channel_up(&e->channel);
    channel_open(&e->channel, received);
    send_kept(e);
}

static void take_message(struct end *e, int64_t number)
{
    const enum channel_order order = channel_take(&e->channel, number);
    e->repeats += order == CHANNEL_REPEATED;
    if (order == CHANNEL_NEW)
        assert_int_equal(++e->delivered, number);
    if (order == CHANNEL_GAP)
        channel_down(&e->channel);
}

static void take_packet(struct end *e, const struct packet *p)
{
    if (p->kind == CONNECT) {
        if (!channel_can_open(&e->channel, p->number))
            return; /* an old one: what it asks for is acknowledged */
        channel_down(&e->channel);
        e->connection = p->connection;
        put(ACCEPTED, 0, e->connection, e->channel.received);
        begin(e, p->number);
        return;
    }
    if (p->connection != e->connection)
        return;
    channel_heard(&e->channel);
    if (p->kind == ACCEPTED && !e->channel.up) {
        assert_true(channel_can_open(&e->channel, p->number));
        begin(e, p->number);
    } else if (p->kind == MESSAGE && e->channel.up) {
        take_message(e, p->number);
    } else if (p->kind == ALIVE && e->channel.up) {
        assert_true(channel_ack(&e->channel, p->number));
    }
}

static void deliver(void)
{
    for (int i = 0; i < net.n;) {
        if (net.flight[i].at_ms > net.now_ms) {
            i++;
            continue;
        }
        const struct packet p = net.flight[i];
        memmove(&net.flight[i], &net.flight[i + 1], sizeof(p) * (size_t)(--net.n - i));
        take_packet(&net.ends[p.to], &p);
    }
}

static void look(struct end *e)
{
    const enum channel_due due = channel_look(&e->channel, net.now_ms, LOOK_MS);
    assert_int_not_equal(due, CHANNEL_LOST);
    if (due == CHANNEL_RECONNECT || (e == &net.ends[0] && !e->channel.tried)) {
        connect_again(e);
    } else if (due == CHANNEL_SAY_ALIVE) {
        put(ALIVE, e == &net.ends[0], e->connection, channel_tell(&e->channel));
        channel_said(&e->channel, 0, net.now_ms);
    }
}

static void make_message(struct end *e)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)++e->made);
    assert_int_equal(channel_keep(&e->channel, strdup(text), strlen(text) + 1), 0);
    send_kept(e);
}

static void pass(int64_t ms)
{
    for (const int64_t end = net.now_ms + ms; net.now_ms < end; net.now_ms += STEP_MS) {
        deliver();
        for (int i = 0; i < 2 && net.now_ms % LOOK_MS == 0; i++)
            look(&net.ends[i]);
    }
}

static bool all_acknowledged(void)
{
    return net.ends[0].channel.acked == MESSAGES && net.ends[1].channel.acked == MESSAGES;
}

static void run_seed(uint64_t seed)
{
    memset(&net, 0, sizeof(net));
    net.random = seed;
    for (int i = 0; i < 2; i++)
        net.ends[i].channel.limit_ms = 3600 * 1000;
    while (net.ends[0].made < MESSAGES || net.ends[1].made < MESSAGES) {
        struct end *e = &net.ends[below(2)];
        for (unsigned n = below(30); n > 0 && e->made < MESSAGES; n--)
            make_message(e);
        pass(STEP_MS * below(100));
    }
    net.calm = true;
    for (const int64_t end = net.now_ms + CALM_MS; net.now_ms < end && !all_acknowledged();)
        pass(LOOK_MS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(net.ends[i].delivered, MESSAGES);
        assert_int_equal(net.ends[i].channel.acked, MESSAGES);
        assert_int_equal(net.ends[i].channel.kept_bytes, 0);
        channel_free(&net.ends[i].channel);
    }
}

static void each_message_comes_once_and_in_order(void **state)
{
    int64_t connections = 0, repeats = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
        connections += net.connections;
        repeats += net.ends[0].repeats + net.ends[1].repeats;
    }
    assert_true(connections > 5 * SEEDS && repeats > SEEDS); /* the network was bad enough */
}

/* --- numbers -------------------------------------------------------------------------------------- */

static void repeats_and_gaps_are_told_apart(void **state)
{
    struct channel c = {.received = 4};
    (void)state;
    assert_int_equal(channel_take(&c, 4), CHANNEL_REPEATED);
    assert_int_equal(channel_take(&c, 6), CHANNEL_GAP);
    assert_int_equal(c.received, 4);
    assert_int_equal(channel_take(&c, 5), CHANNEL_NEW);
    assert_int_equal(channel_take(&c, 5), CHANNEL_REPEATED);
    assert_int_equal(channel_take(&c, INT64_MIN), CHANNEL_REPEATED);
}

static void what_was_never_sent_cannot_be_acknowledged(void **state)
{
    struct channel c = {.newest = 0};
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(channel_keep(&c, malloc(10), 10), 0);
    assert_false(channel_ack(&c, 4));
    assert_true(channel_ack(&c, 2));
    assert_true(channel_ack(&c, 1)); /* late */
    assert_int_equal(c.acked, 2);
    assert_int_equal(c.kept_bytes, 10);
    assert_false(channel_can_open(&c, 1)); /* message 2 is no longer kept */
    assert_true(channel_can_open(&c, 2));
    assert_false(channel_can_open(&c, 4));
    channel_free(&c);
}

static void messages_may_be_kept_elsewhere(void **state)
{
    struct channel c = {.newest = 7, .acked = 3};
    (void)state;
    channel_up(&c);
    channel_open(&c, 1); /* older than what is kept */
    assert_int_equal(c.sent, 3);
    assert_null(channel_next(&c));
    channel_said(&c, 4, 0);
    channel_said(&c, 0, 0);
    assert_int_equal(c.sent, 4);
    assert_true(channel_ack(&c, 6));
    assert_int_equal(c.sent, 6);
    channel_free(&c);
}

/* --- silence -------------------------------------------------------------------------------------- */

/* Looks until something else is due; returns when. */
static int64_t due_at(struct channel *c, int64_t now, enum channel_due *due)
{
    do
        now += LOOK_MS;
    while ((*due = channel_look(c, now, LOOK_MS)) == CHANNEL_FINE && now < 1000000);
    return now;
}

static void both_sides_say_something_each_second(void **state)
{
    enum channel_due due;
    struct channel c = {.limit_ms = 15000};
    (void)state;
    channel_up(&c);
    assert_true(due_at(&c, 0, &due) <= CHANNEL_ALIVE_MS);
    assert_int_equal(due, CHANNEL_SAY_ALIVE);
    channel_said(&c, 0, 750);
    assert_true(due_at(&c, 750, &due) <= 750 + CHANNEL_ALIVE_MS);
    assert_int_equal(due, CHANNEL_SAY_ALIVE);
    channel_said(&c, 0, 1500);
    channel_take(&c, 1); /* is acknowledged at once */
    assert_int_equal(channel_look(&c, 1510, LOOK_MS), CHANNEL_SAY_ALIVE);
    assert_int_equal(channel_tell(&c), 1);
    assert_int_equal(channel_look(&c, 1520, LOOK_MS), CHANNEL_FINE);
}

static void silence_of_the_other_side_is_limited(void **state)
{
    enum channel_due due;
    struct channel c = {.limit_ms = 10000};
    (void)state;
    channel_try(&c);
    assert_int_equal(due_at(&c, 0, &due), 2500); /* a quarter of the limit */
    assert_int_equal(due, CHANNEL_RECONNECT);
    channel_down(&c);
    assert_int_equal(due_at(&c, 2500, &due), 10000);
    assert_int_equal(due, CHANNEL_LOST);
    c = (struct channel){.limit_ms = 10000, .silent_ms = 9900};
    channel_heard(&c);
    assert_int_equal(channel_look(&c, LOOK_MS, LOOK_MS), CHANNEL_FINE);
    c = (struct channel){.limit_ms = 0};
    assert_int_equal(due_at(&c, 0, &due), 1000000); /* no limit */
}

static void a_suspended_process_does_not_count_as_silence(void **state)
{
    struct channel c = {.limit_ms = 10000};
    (void)state;
    for (int64_t now = 3600 * 1000; c.silent_ms < 9500; now += 3600 * 1000)
        assert_int_equal(channel_look(&c, now, LOOK_MS), CHANNEL_FINE);
    assert_int_equal(c.looked_ms / 3600 / 1000, 9500 / (2 * LOOK_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_comes_once_and_in_order),
        cmocka_unit_test(repeats_and_gaps_are_told_apart),
        cmocka_unit_test(what_was_never_sent_cannot_be_acknowledged),
        cmocka_unit_test(messages_may_be_kept_elsewhere),
        cmocka_unit_test(both_sides_say_something_each_second),
        cmocka_unit_test(silence_of_the_other_side_is_limited),
        cmocka_unit_test(a_suspended_process_does_not_count_as_silence),
    };
    return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
