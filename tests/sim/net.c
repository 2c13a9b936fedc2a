/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - see world.h: messages, and what a network does to them */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

struct message *message_make(enum message_type type, int attempt, const char *nonce)
{
    struct message *m = calloc(1, sizeof(*m));
    if (!m)
        abort();
    m->users = 1;
    m->type = type;
    m->attempt = attempt;
    snprintf(m->nonce, sizeof(m->nonce), "%s", nonce);
    return m;
}

struct message *message_hold(struct message *m)
{
    m->users++;
    return m;
}

void message_drop(struct message *m)
{
    if (!m || --m->users > 0)
        return;
    json_decref(m->body);
    free(m);
}

static void deliver(struct world *w, int64_t in_ms, bool to_hub, int job, int conn, struct message *m)
{
    struct happening *h = plan(w, in_ms, to_hub ? HUB_HEARS : AGENT_HEARS, job, m->attempt, 0);
    h->a = conn;
    h->message = message_hold(m);
}

/* The same numbers with another nonce: of a copy of this state directory. */
static struct message *stranger(const struct message *m)
{
    struct message *s = message_make(m->type, m->attempt, m->nonce);
    *s = *m;
    s->users = 1;
    s->nonce[0] = '!';
    json_incref(s->body);
    return s;
}

/* A connection is a stream: in order, and when one message is lost, so are all after it, until both ends see that it is
 * cut.  conn -1 is a message out of another age: whoever listens then is taken for its receiver, as when a path or a
 * port has found a new owner. The fence alone stands against it. */
void post(struct world *w, bool to_hub, int job, int conn, struct message *m)
{
    struct stream *s = &w->streams[job][to_hub];
    if (s->conn != conn)
        *s = (struct stream){ .conn = conn };
    if (!s->broken && fault(w, 80, HARM_LOST)) {
        s->broken = true;
        plan(w, between(w, 1, 3000), LINK_CUT, job, m->attempt, w->life)->a = conn;
    }
    const int copies = s->broken ? 0 : fault(w, 80, HARM_TWICE) ? 2 : 1;
    const int64_t at = w->now + (fault(w, 20, HARM_LATE) ? between(w, 1, 400) : between(w, 1, 3));
    s->at = at > s->at ? at : s->at;
    for (int i = 0; i < copies; i++)
        deliver(w, s->at - w->now, to_hub, job, conn, m);
    if (fault(w, 120, HARM_GHOST))
        deliver(w, between(w, 500, 30000), to_hub, job, -1, m);
    if (fault(w, 240, HARM_STRANGER)) {
        struct message *strange = stranger(m);
        deliver(w, between(w, 1, 500), to_hub, job, -1, strange);
        message_drop(strange);
    }
    message_drop(m);
}
