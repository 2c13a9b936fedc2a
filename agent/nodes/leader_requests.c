/* SPDX-License-Identifier: Apache-2.0 */
/* leader_requests.c - sends requests to followers, and tracks which answers are outstanding */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/nodes/leader_internal.h"
#include "agent/wire/leader_wire.h"
#include "engine/contract/err.h"

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
    if (!s->lost)
        return node_channel_send(s->link, number, body, err);
    json_decref(body);
    return 0;
}

void leader_request_all(struct leader *c, enum leader_request ask, enum wire_message number,
                        json_t *body)
{
    for (int i = 1; i < c->o.nodes; i++) {
        struct follower_state *s = &c->followers[i];
        s->owes[ask] = !s->lost && leader_send(s, number, json_copy(body), NULL) == 0;
    }
    json_decref(body);
    leader_begin_request(c, ask);
}

void leader_send_all(struct leader *c, enum wire_message number, json_t *body)
{
    for (int i = 1; i < c->o.nodes; i++)
        leader_send(&c->followers[i], number, json_copy(body), NULL);
    json_decref(body);
}

bool leader_is_answered(const struct leader *c, int ask)
{
    for (int i = 1; i < c->o.nodes; i++)
        if (c->followers[i].owes[ask])
            return false;
    return true;
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
    c->hooks.lost(c->hooks.arg, s->node, text);
    if (inspected && !c->closed)
        c->hooks.inspected(c->hooks.arg, s->node, text);
}
