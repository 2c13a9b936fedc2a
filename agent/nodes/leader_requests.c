/* SPDX-License-Identifier: Apache-2.0 */
/* leader_requests.c - sends requests to followers, and tracks which answers are outstanding */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/nodes/follower.h"
#include "agent/nodes/leader_internal.h"
#include "agent/wire/leader_wire.h"
#include "engine/base/err.h"
#include "engine/contract/flight.h"

void leader_look_later(struct leader *c)
{
    if (!c->closed)
        uv_timer_start(&c->later, c->look, 0, 0);
}

void leader_answered(struct follower_state *s, enum leader_request ask)
{
    s->owes[ask] = false;
    leader_look_later(s->leader);
}

void leader_begin_request(struct leader *c, enum leader_request ask)
{
    c->asked[ask] = true;
    leader_look_later(c);
}

int leader_send(struct follower_state *s, enum wire_message number, json_t *body, struct err *err)
{
    if (!s->lost && s->link)
        return node_channel_send(s->link, number, body, err);
    if (!s->lost)
        follower_receive(s->leader->follower, number, body);
    json_decref(body);
    return 0;
}

/* The follower of this node answers before leader_send() returns. */
int leader_ask(struct follower_state *s, enum leader_request ask, enum wire_message number,
               json_t *body, struct err *err)
{
    s->owes[ask] = !s->lost;
    const int rc = leader_send(s, number, body, err);
    if (rc < 0)
        s->owes[ask] = false;
    return rc;
}

void leader_request_all(struct leader *c, enum leader_request ask, enum wire_message number, json_t *body)
{
    for (int i = 0; i < c->nodes; i++)
        leader_ask(&c->followers[i], ask, number, json_copy(body), NULL);
    json_decref(body);
    leader_begin_request(c, ask);
}

void leader_send_all(struct leader *c, enum wire_message number, json_t *body)
{
    for (int i = 0; i < c->nodes; i++)
        leader_send(&c->followers[i], number, json_copy(body), NULL);
    json_decref(body);
}

void leader_give_up(struct leader *c, enum leader_request ask)
{
    c->asked[ask] = false;
    for (int i = 0; i < c->nodes; i++)
        c->followers[i].owes[ask] = false;
}

bool leader_is_answered(const struct leader *c, int ask)
{
    for (int i = 0; i < c->nodes; i++)
        if (c->followers[i].owes[ask])
            return false;
    return true;
}

/* Adds the last known phase of the first of its ranks. */
static void add_last_seen(const struct follower_state *s, char *text, size_t size)
{
    const struct leader *c = s->leader;
    const struct remote_rank *first = s->ranks > 0 ? c->remote[s->first_rank] : NULL;
    const size_t n = strlen(text);
    if (first && first->seen.u.page.pid)
        snprintf(text + n, size - n, "; rank %d there was last seen in %s of step %" PRIu64, s->first_rank,
                 flight_phase_name(flight_phase_of(&first->seen.u.page)), flight_step(&first->seen.u.page) + 1);
}

static void tell_lost(struct follower_state *s, const char *text)
{
    struct leader *c = s->leader;
    char all[300];
    const struct agent_lost l = {.node = s->node,
                                 .name = s->name,
                                 .text = all,
                                 .first_rank = c->of ? s->first_rank : -1,
                                 .ranks = s->ranks};
    snprintf(all, sizeof(all), "%.200s", text);
    add_last_seen(s, all, sizeof(all));
    c->hooks.lost(c->hooks.arg, &l);
}

void leader_lose(struct follower_state *s, const char *fmt, ...)
{
    struct leader *c = s->leader;
    char why[400], text[LEADER_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    if (s->lost || c->shutdown)
        return;
    snprintf(text, sizeof(text), "%s %s", s->name, why);
    bool inspected = s->owes[REQUEST_INSPECT];
    if ((s->owes[REQUEST_PREPARE] || s->owes[REQUEST_SPAWN]) && !c->text[0])
        snprintf(c->text, sizeof(c->text), "%s", text);
    leader_send(s, NODE_SHUTDOWN, json_object(), NULL); /* in case the message still arrives */
    s->lost = true;
    memset(s->owes, 0, sizeof(s->owes));
    leader_look_later(c);
    tell_lost(s, text);
    if (inspected && !c->closed)
        c->hooks.stacks(c->hooks.arg, s->node, text);
}
