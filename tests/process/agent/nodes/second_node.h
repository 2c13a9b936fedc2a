/* SPDX-License-Identifier: Apache-2.0 */
/* second_node.h - the second of two nodes, whose messages a test sends
 *
 * The functions of agent/nodes/node_channel.h in this file replace agent/nodes/node_channel.c.
 */
#ifndef TESTS_PROCESS_AGENT_NODES_SECOND_NODE_H
#define TESTS_PROCESS_AGENT_NODES_SECOND_NODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/nodes/node_channel.h"
#include "engine/base/buf.h"
#include "agent/wire/leader_wire.h"
#include "engine/base/err.h"

struct node_channel {
    struct node_channel_hooks hooks;
};

static struct node_channel channel;
static struct buf asked; /* what the second node was asked, a word each */
static int silent_ms;

static long long number_of(const json_t *body, const char *key)
{
    return json_integer_value(json_object_get(body, key));
}

static const char *text_of(const json_t *body, const char *key)
{
    const char *text = json_string_value(json_object_get(body, key));
    return text ? text : "";
}

static void note(enum wire_message number, const json_t *body)
{
    if (number == NODE_SPAWN)
        buf_print(&asked, "spawn %lld: %lld+%lld of %s ", number_of(body, "generation"),
                  number_of(body, "first_rank"), number_of(body, "ranks"), text_of(body, "node_ranks"));
    else if (number == NODE_ASK_SNAPSHOTS)
        buf_print(&asked, "kept before %lld ", number_of(body, "generation"));
    else if (number == NODE_CONTROL)
        buf_print(&asked, "%s ", text_of(body, "command"));
    else if (number == NODE_DELIVER)
        buf_print(&asked, "relay %s ", text_of(json_object_get(body, "line"), "key"));
    else if (number == NODE_SIGNAL)
        buf_print(&asked, "signal %lld ", number_of(body, "signo"));
    else if (number == NODE_CLEANUP)
        buf_print(&asked, "sweep %lld ", number_of(body, "generation"));
    else if (number == NODE_INSPECT)
        buf_print(&asked, "inspect %lld ", number_of(body, "generation"));
    else if (number == NODE_SHUTDOWN)
        buf_print(&asked, "bye ");
}

int node_channel_await(struct node_channel **out, uv_loop_t *loop, int join_ms, int lost_ms,
                       const struct node_channel_hooks *hooks, struct err *err)
{
    (void)loop;
    (void)join_ms;
    (void)lost_ms;
    (void)err;
    channel.hooks = *hooks;
    *out = &channel;
    return 0;
}

int node_channel_send(struct node_channel *l, enum wire_message number, json_t *body, struct err *err)
{
    (void)l;
    (void)err;
    note(number, body);
    json_decref(body);
    return 0;
}

int node_channel_silent_ms(const struct node_channel *l)
{
    (void)l;
    return silent_ms;
}

bool node_channel_address(const struct node_channel *l, bool other, char out[BYTE_STREAM_ADDRESS])
{
    (void)l;
    snprintf(out, BYTE_STREAM_ADDRESS, "10.0.0.%d", other ? 2 : 1);
    return true;
}

bool node_channel_clock(const struct node_channel *l, int64_t *add_ns)
{
    (void)l;
    *add_ns = 0;
    return true;
}

void node_channel_close(struct node_channel *l)
{
    (void)l;
}

/* A follower's end, and what a listener does: nobody calls. */
int node_channel_dial(struct node_channel **out, uv_loop_t *loop, const struct node_channel_call *call,
                      const struct node_channel_hooks *hooks, struct err *err)
{
    (void)out;
    (void)loop;
    (void)call;
    (void)hooks;
    return err_set(err, ERR_BUG, "not here");
}

const char *node_channel_take(struct node_channel *l, struct byte_stream *s,
                              struct frame_reader *reader, const json_t *call)
{
    (void)l;
    (void)s;
    (void)reader;
    (void)call;
    return "not here";
}

bool node_channel_say(struct node_channel *l, enum wire_message number, json_t *body)
{
    (void)l;
    (void)number;
    json_decref(body);
    return false;
}

bool node_channel_is_up(const struct node_channel *l)
{
    (void)l;
    return true;
}

/* --- what the second node says ----------------------------------------------------------------- */

static void say(enum wire_message number, json_t *body)
{
    assert_non_null(body);
    channel.hooks.message(channel.hooks.arg, leader_wire_find(number, TO_LEADER), body);
    json_decref(body);
}

static void say_spawned(int generation, const char *text)
{
    say(NODE_SPAWNED, json_pack("{s:i, s:[i, i], s:s?}", "generation", generation, "pids", 1002, 1003,
                                "text", text));
}

static void say_exit(int generation, int rank, int code, const char *lines)
{
    say(NODE_EXITED, json_pack("{s:i, s:i, s:i, s:s?}", "generation", generation, "rank", rank,
                               "exit_code", code, "last_lines", lines));
}

static void say_cleaned(int generation, bool clean, const char *left)
{
    say(NODE_CLEANED, json_pack("{s:i, s:b, s:s}", "generation", generation, "clean", clean, "left", left));
}

static void say_snapshots(int generation)
{
    say(NODE_SNAPSHOTS, json_pack("{s:i, s:[[i, i]]}", "generation", generation, "sets", 1, 12));
}

#endif
