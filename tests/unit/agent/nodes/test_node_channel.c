/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_channel.c - two agents that communicate over breaking connections, and strangers that connect */
#include "tests/unit/agent/nodes/leader_proxy.h"
#include "tests/unit/agent/os/loop_fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/nodes/node_channel.h"
#include "agent/wire/frame.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/tls_listener.h"
#include "engine/base/err.h"

enum { PATIENCE_MS = 30000, LOST_MS = 15000, MANY = 1000 };
#define NONCE "0123456789abcdef"


/* One end, and what came to it. */
struct end {
    struct node_channel *link;
    int ups, next, wrong; /* next: number of the message that must come */
    char lost[400];
};

static struct end head, member;
static struct tls_listener *door;
static struct proxy proxy;
static int calls, refusals;

static void on_up(void *arg)
{
    ((struct end *)arg)->ups++;
}

static void on_message(void *arg, const struct wire_row *row, const json_t *body)
{
    struct end *e = arg;
    const char *key = row->number == NODE_SIGNAL ? "signo" : "generation";
    if (json_integer_value(json_object_get(body, key)) == e->next)
        e->next++;
    else
        e->wrong++;
}

static void on_lost(void *arg, const char *text)
{
    struct end *e = arg;
    assert_string_equal(e->lost, "");
    snprintf(e->lost, sizeof(e->lost), "%s", text);
}

static const struct node_channel_hooks leader_hooks_of_test = {on_up, on_message, on_lost, &head};
static const struct node_channel_hooks follower_hooks = {on_up, on_message, on_lost, &member};

static const char *on_called(void *arg, struct byte_stream *s, struct frame_reader *reader, const json_t *call)
{
    const struct wire_id ours = {7, 1, NONCE}, said = wire_id_of(call);
    (void)arg;
    calls++;
    const char *text = wire_id_same(&ours, &said) ? node_channel_take(head.link, s, reader, call)
                                                  : "it is of another attempt";
    refusals += text != NULL;
    return text;
}

/* --- the loop -------------------------------------------------------------------------------- */

static bool run_until_lost(const struct end *e, int ms)
{
    for (int i = 0; i < ms / 50 && !e->lost[0]; i++)
        run_until(NULL, 0, 50);
    return e->lost[0] != '\0';
}

static struct node_channel *dial(const json_t *at, const char *nonce, int join_ms)
{
    struct node_channel *l = NULL;
    struct err err = {0};
    const struct node_channel_call call = {
        .id = {7, 1, nonce}, .node = 1, .endpoint = at, .join_ms = join_ms};
    if (node_channel_dial(&l, &loop, &call, &follower_hooks, &err) < 0)
        fail_msg("%s", err.text);
    return l;
}

static int up(void **state)
{
    struct err err = {0};
    (void)state;
    head = member = (struct end){.next = 0};
    calls = refusals = 0;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    if (tls_listener_open(&door, &loop, &(struct tls_listener_hooks){.called = on_called}, &err) < 0 ||
        node_channel_await(&head.link, &loop, PATIENCE_MS, LOST_MS, &leader_hooks_of_test, &err) < 0)
        fail_msg("%s", err.text);
    json_t *said = tls_listener_endpoint(door);
    proxy_open(&proxy, &loop, (int)json_integer_value(json_object_get(said, "port")));
    json_decref(said);
    return 0;
}

static int down(void **state)
{
    (void)state;
    node_channel_close(member.link);
    node_channel_close(head.link);
    tls_listener_close(door);
    proxy_close(&proxy);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static json_t *door_behind_proxy(void)
{
    json_t *said = tls_listener_endpoint(door), *at = proxy_door(&proxy, said);
    json_decref(said);
    return at;
}

static void bootstrap(void)
{
    json_t *at = door_behind_proxy();
    member.link = dial(at, NONCE, PATIENCE_MS);
    json_decref(at);
    assert_true(run_until(&member.ups, 1, PATIENCE_MS));
    assert_true(run_until(&head.ups, 1, PATIENCE_MS));
}

static void send_both(int i)
{
    assert_int_equal(node_channel_send(member.link, NODE_CLEANED,
                                       json_pack("{s:i, s:b, s:s}", "generation", i, "clean", 1,
                                                 "left", ""), NULL), 0);
    assert_int_equal(node_channel_send(head.link, NODE_SIGNAL, json_pack("{s:i}", "signo", i), NULL), 0);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void nothing_is_lost_or_doubled_over_broken_connections(void **state)
{
    (void)state;
    bootstrap();
    for (int i = 0; i < MANY; i++) {
        send_both(i);
        if (i % 50 == 7)
            proxy_break(&proxy);
        if (i % 10 == 3)
            run_until(NULL, 0, 5);
    }
    assert_true(run_until(&head.next, MANY, PATIENCE_MS));
    assert_true(run_until(&member.next, MANY, PATIENCE_MS));
    run_until(NULL, 0, 600); /* would anything come twice? */
    assert_int_equal(head.next, MANY);
    assert_int_equal(member.next, MANY);
    assert_int_equal(head.wrong + member.wrong, 0);
    assert_true(proxy.n > 1);
}

/* What is sent while it stands still comes later; what was lost on the way is repeated. */
static void a_wire_cut_for_three_seconds_is_no_loss(void **state)
{
    (void)state;
    bootstrap();
    send_both(0);
    proxy.cut = true;
    for (int i = 1; i < 10; i++)
        send_both(i);
    run_until(NULL, 0, 3000);
    assert_true(head.next <= 1 && member.next <= 1);
    proxy.cut = false;
    assert_true(run_until(&head.next, 10, PATIENCE_MS));
    assert_true(run_until(&member.next, 10, PATIENCE_MS));
    assert_string_equal(head.lost, "");
    assert_string_equal(member.lost, "");
}

/* The member has the shorter limit, so that nothing of it runs when the head goes on. */
static void a_wire_cut_for_ever_is_lost_on_both_sides(void **state)
{
    struct err err = {0};
    (void)state;
    node_channel_close(head.link);
    assert_int_equal(node_channel_await(&head.link, &loop, PATIENCE_MS, 2000, &leader_hooks_of_test, &err), 0);
    bootstrap();
    proxy.cut = true;
    assert_true(run_until_lost(&member, PATIENCE_MS));
    assert_non_null(strstr(member.lost, "sent no heartbeat for 2 s"));
    assert_true(run_until_lost(&head, PATIENCE_MS));
    assert_non_null(strstr(head.lost, "sent no heartbeat for 3 s"));
}

static void who_was_given_up_is_told_so(void **state)
{
    (void)state;
    struct err err = {0};
    node_channel_close(head.link);
    assert_int_equal(node_channel_await(&head.link, &loop, 300, 2000, &leader_hooks_of_test, &err), 0);
    assert_true(run_until_lost(&head, PATIENCE_MS));
    assert_non_null(strstr(head.lost, "did not connect within"));
    json_t *at = door_behind_proxy();
    member.link = dial(at, NONCE, PATIENCE_MS);
    json_decref(at);
    assert_true(run_until_lost(&member, PATIENCE_MS));
    assert_non_null(strstr(member.lost, "the attempt continues without this node"));
}

static void who_does_not_know_the_key_is_not_let_in(void **state)
{
    (void)state;
    json_t *at = door_behind_proxy();
    char key[2 * TLS_PSK_KEY + 1];
    assert_int_equal(tls_psk_key_draw(key), 0);
    json_object_set_new(at, "key", json_string(key));
    member.link = dial(at, NONCE, 1500);
    json_decref(at);
    assert_true(run_until_lost(&member, PATIENCE_MS));
    assert_non_null(strstr(member.lost, "does not know the key"));
    assert_int_equal(calls, 0);
    node_channel_close(member.link);
    member = (struct end){.next = 0};
    bootstrap(); /* the others do not notice */
}

/* Whoever sits on the wire reads nothing; what is changed on the way ends the connection, and what was
 * said comes over the next one, once. */
static void what_passes_can_be_neither_read_nor_changed(void **state)
{
    (void)state;
    proxy.look_for = NONCE;
    bootstrap();
    assert_int_equal(proxy.found, 0);
    proxy.look_for = "generation";
    send_both(0);
    assert_true(run_until(&head.next, 1, PATIENCE_MS));
    assert_true(run_until(&member.next, 1, PATIENCE_MS));
    assert_int_equal(proxy.found, 0);
    const int before = calls;
    proxy.spoil = 1;
    send_both(1);
    assert_true(run_until(&head.next, 2, PATIENCE_MS));
    assert_true(run_until(&member.next, 2, PATIENCE_MS));
    assert_int_equal(proxy.spoil, 0);
    assert_true(calls > before);
}

static void who_is_of_another_attempt_is_refused(void **state)
{
    (void)state;
    json_t *at = door_behind_proxy();
    member.link = dial(at, "fedcba9876543210", PATIENCE_MS);
    json_decref(at);
    assert_true(run_until_lost(&member, PATIENCE_MS));
    assert_non_null(strstr(member.lost, "of another attempt"));
    assert_int_equal(head.ups, 0);
}

/* A second process with the place of the first: its ranks would not be ours. */
static void another_process_does_not_take_the_place_of_a_member(void **state)
{
    (void)state;
    bootstrap();
    struct node_channel *first = member.link;
    json_t *at = door_behind_proxy();
    member.link = dial(at, NONCE, PATIENCE_MS);
    json_decref(at);
    assert_true(run_until_lost(&member, PATIENCE_MS));
    assert_non_null(strstr(member.lost, "a different process"));
    assert_int_equal(node_channel_send(head.link, NODE_SIGNAL, json_pack("{s:i}", "signo", 0), NULL), 0);
    assert_true(run_until(&member.next, 1, PATIENCE_MS));
    node_channel_close(first);
}

/* --- strangers -------------------------------------------------------------------------------- */

static int call_raw(void)
{
    struct sockaddr_in a;
    uv_ip4_addr("127.0.0.1", proxy.to, &a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

static bool is_closed(int fd)
{
    char c[256];
    for (int i = 0; i < PATIENCE_MS / 20; i++) {
        run_until(NULL, 0, 20);
        ssize_t n = recv(fd, c, sizeof(c), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return true;
    }
    return false;
}

static void strangers_do_not_disturb(void **state)
{
    (void)state;
    int silent[150];
    for (int i = 0; i < 150; i++) { /* more than may stand at the door */
        silent[i] = call_raw();
        if (i % 20 == 0)
            run_until(NULL, 0, 5);
    }
    int http = call_raw();
    assert_int_equal(send(http, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    assert_true(is_closed(http));
    bootstrap();
    assert_true(is_closed(silent[0]));
    assert_true(is_closed(silent[149])); /* within some seconds */
    for (int i = 0; i < 150; i++)
        close(silent[i]);
    close(http);
    assert_int_equal(calls, 1);
}

struct talker {
    struct byte_stream *s;
    int ready, ended;
};

static void talker_ready(void *arg)
{
    ((struct talker *)arg)->ready = 1;
}

static void talker_data(void *arg, const char *bytes, size_t size)
{
    (void)arg;
    (void)bytes;
    (void)size;
}

static void talker_ended(void *arg, const char *text)
{
    (void)text;
    ((struct talker *)arg)->ended = 1;
}

/* Connects with the key. */
static void talk(struct talker *t)
{
    unsigned char key[TLS_PSK_KEY];
    struct sockaddr_in a;
    const struct byte_stream_hooks hooks = {
        .ready = talker_ready, .data = talker_data, .ended = talker_ended, .arg = t};
    json_t *at = tls_listener_endpoint(door);
    assert_int_equal(tls_psk_key_parse(key, json_string_value(json_object_get(at, "key"))), 0);
    json_decref(at);
    uv_ip4_addr("127.0.0.1", proxy.to, &a);
    assert_int_equal(byte_stream_connect(&t->s, &loop, (const struct sockaddr *)&a,
                                         tls_psk_client(TLS_LISTENER_NAME, key), &hooks, NULL), 0);
    assert_true(run_until(&t->ready, 1, PATIENCE_MS));
}

/* Who knows the key and says nothing is sent away after some seconds. */
static void a_silent_peer_with_the_key_is_sent_away(void **state)
{
    struct talker t = {.ready = 0};
    (void)state;
    talk(&t);
    assert_true(run_until(&t.ended, 1, PATIENCE_MS));
    byte_stream_close(t.s);
    assert_int_equal(calls, 0);
    bootstrap();
    run_until(NULL, 0, BYTE_STREAM_LIMIT_MS + 500); /* a taken connection has no such limit */
    assert_int_equal(calls, 1);
    assert_true(node_channel_is_up(head.link));
}

/* Who knows the key may still say nonsense. */
static void what_is_too_long_or_nonsense_ends_the_connection(void **state)
{
    static const struct {
        uint32_t size;
        unsigned number;
        const char *body;
    } said[] = {
        {100 * 1024 * 1024, NODE_JOIN, ""},
        {2000, NODE_CONNECT, ""},
        {2, NODE_CONNECT, "{}"},
        {2, WIRE_HELLO, "{}"},
        {2, NODE_SPAWN, "{}"},
        {0, NODE_BROADCAST, "{\"seq\":1,\"generation\":1,\"line\":{}}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        struct talker t = {.ready = 0};
        talk(&t);
        char frame[200] = {0};
        uint32_t size = said[i].size == 0 ? (uint32_t)strlen(said[i].body) : said[i].size;
        for (int k = 0; k < 4; k++)
            frame[k] = (char)(size >> (8 * k));
        frame[4] = WIRE_VERSION;
        frame[6] = (char)said[i].number;
        strcpy(frame + FRAME_HEADER, said[i].body);
        assert_int_equal(byte_stream_write(t.s, frame, FRAME_HEADER + strlen(said[i].body)), 0);
        assert_true(run_until(&t.ended, 1, PATIENCE_MS));
        byte_stream_close(t.s);
    }
    assert_int_equal(calls, 0);
    bootstrap();
}

static void a_bad_door_is_refused(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"addresses\":[\"127.0.0.1\"],\"port\":1,\"key\":\"ab\"}",
        "{\"addresses\":[\"here\"],\"port\":1,\"key\":"
        "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}",
        "{\"addresses\":[\"127.0.0.1\"],\"port\":70000,\"key\":"
        "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct node_channel *l = NULL;
        json_t *at = json_loads(bad[i], 0, NULL);
        const struct node_channel_call call = {
            .id = {7, 1, NONCE}, .node = 1, .endpoint = at, .join_ms = 1000};
        assert_int_equal(node_channel_dial(&l, &loop, &call, &follower_hooks, NULL), -1);
        json_decref(at);
    }
}

/* Two ends on one machine: what is to be added is nearly nothing. */
static void the_clocks_of_both_are_compared(void **state)
{
    (void)state;
    int64_t add = INT64_MAX;
    bootstrap();
    for (int i = 0; i < PATIENCE_MS / 50 && !node_channel_clock(head.link, &add); i++)
        run_until(NULL, 0, 50);
    assert_true(node_channel_clock(head.link, &add));
    assert_true(add > -2000000000 && add < 2000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LINK(test) cmocka_unit_test_setup_teardown(test, up, down)
        LINK(nothing_is_lost_or_doubled_over_broken_connections),
        LINK(a_wire_cut_for_three_seconds_is_no_loss),
        LINK(a_wire_cut_for_ever_is_lost_on_both_sides),
        LINK(who_was_given_up_is_told_so),
        LINK(who_does_not_know_the_key_is_not_let_in),
        LINK(what_passes_can_be_neither_read_nor_changed),
        LINK(who_is_of_another_attempt_is_refused),
        LINK(another_process_does_not_take_the_place_of_a_member),
        LINK(strangers_do_not_disturb),
        LINK(a_silent_peer_with_the_key_is_sent_away),
        LINK(what_is_too_long_or_nonsense_ends_the_connection),
        LINK(a_bad_door_is_refused),
        LINK(the_clocks_of_both_are_compared),
    };
    return cmocka_run_group_tests_name("crew_link", tests, NULL, NULL);
}
