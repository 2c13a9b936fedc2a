/* SPDX-License-Identifier: Apache-2.0 */
/* leader_requests.c - what members are told and asked, who owes an answer, and who will never give
 * one */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/nodes/leader_internal.h"
#include "agent/wire/leader_wire.h"
#include "engine/contract/err.h"

void crew_look_later(struct crew *c)
{
    if (!c->closed)
        uv_timer_start(&c->later, c->look, 0, 0);
}

void crew_answered(struct seat *s, enum crew_ask ask)
{
    s->owes[ask] = false;
    crew_look_later(s->crew);
}

void crew_begin_ask(struct crew *c, enum crew_ask ask)
{
    c->asked[ask] = true;
    crew_look_later(c);
}

int crew_tell(struct seat *s, enum wire_message number, json_t *body, struct err *err)
{
    if (!s->lost)
        return crew_link_send(s->link, number, body, err);
    json_decref(body);
    return 0;
}

void crew_ask_all(struct crew *c, enum crew_ask ask, enum wire_message number, json_t *body)
{
    for (int i = 1; i < c->o.nodes; i++) {
        struct seat *s = &c->seats[i];
        s->owes[ask] = !s->lost && crew_tell(s, number, json_copy(body), NULL) == 0;
    }
    json_decref(body);
    crew_begin_ask(c, ask);
}

void crew_tell_all(struct crew *c, enum wire_message number, json_t *body)
{
    for (int i = 1; i < c->o.nodes; i++)
        crew_tell(&c->seats[i], number, json_copy(body), NULL);
    json_decref(body);
}

bool crew_is_answered(const struct crew *c, int ask)
{
    for (int i = 1; i < c->o.nodes; i++)
        if (c->seats[i].owes[ask])
            return false;
    return true;
}

void crew_give_up(struct seat *s, const char *fmt, ...)
{
    struct crew *c = s->crew;
    char why[400], text[CREW_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    if (s->lost || c->bye)
        return;
    snprintf(text, sizeof(text), "%s %s", s->name, why);
    bool inspected = s->owes[ASK_INSPECT];
    if ((s->owes[ASK_PREPARE] || s->owes[ASK_SPAWN]) && !c->text[0])
        snprintf(c->text, sizeof(c->text), "%s", text);
    crew_tell(s, CREW_BYE, json_object(), NULL); /* should it hear us after all */
    s->lost = true;
    memset(s->owes, 0, sizeof(s->owes));
    crew_look_later(c);
    c->hooks.lost(c->hooks.arg, s->node, text);
    if (inspected && !c->closed)
        c->hooks.inspected(c->hooks.arg, s->node, text);
}
