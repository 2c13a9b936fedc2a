/* SPDX-License-Identifier: Apache-2.0 */
/* dist_mesh.c - collectives between nodes over TCP, each node connected to each other
 *
 * As in dist_shm.c every rank reduces a part of the buffer (dist_part), and a part
 * is processed in rounds:
 *
 *   put      send this rank's numbers of a part to the rank that reduces it
 *   red      add up all ranks' numbers of this rank's part, in the order of ranks
 *   result   send the sums of this rank's part to all
 *
 * The volume is that of a ring, 2 (N - 1) / N of the buffer per rank, in two
 * hops instead of 2 (N - 1) and in one order of addition; and all ranks detect a silent rank
 * at once, not only its neighbours.  A small buffer goes as a whole to
 * every rank, and each adds up for itself: one hop.
 *
 * dist_mesh_rounds.c moves the numbers; this file has messages, waits, creation and
 * destruction.  No rank completes a call before all have begun it (WORD_CALL), so a peer is
 * at most one call ahead, and its data for that call stays unread until then.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/dist/dist_mesh_internal.h"

enum { CHUNK_MAX = 524288, INBOX = 16 << 20, SLEEP_MS = 20, LEAVE_MS = 2000 };

/* --- messages ---------------------------------------------------------------------------- */

static bool say(struct mesh *m, int i, enum dist_link_kind kind, uint64_t seq, uint64_t what, uint64_t count)
{
    struct dist_word w = {.key = m->key[0], .kind = kind, .seq = seq, .what = what, .count = count};
    if (m->links[i].fd[DIST_LINK_WORDS] < 0 || m->links[i].gone)
        return true;
    pthread_mutex_lock(&m->say);
    bool said = dist_link_say(&m->links[i], &w);
    pthread_mutex_unlock(&m->say);
    return said;
}

static void note_fault(struct mesh *m, struct dist_fault f)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&m->fault, &none, dist_pack(f));
}

static void hear(struct mesh *m, int i)
{
    struct peer *p = &m->peers[i];
    struct dist_word w;
    if (p->link->out_have > 0) {
        pthread_mutex_lock(&m->say);
        dist_link_flush(p->link);
        pthread_mutex_unlock(&m->say);
    }
    while (dist_link_hear(p->link, m->key[0], &w)) {
        m->d->progress += w.kind == WORD_CALL;
        if (w.kind == WORD_CALL) {
            p->seq = w.seq;
            p->what[w.seq % 2] = w.what;
            p->count[w.seq % 2] = w.count;
        } else if (w.kind == WORD_WAITS) {
            p->waits_for = w.what == UINT64_MAX ? -1 : (int)w.what;
        } else if (w.kind == WORD_FAULT) {
            note_fault(m, (struct dist_fault){(enum dist_fault_kind)w.what, (int)w.count - 1,
                                              w.seq});
        }
    }
}

static struct dist_fault told(struct dist *d)
{
    struct mesh *m = d->way;
    for (int i = 0; !m->connect && i < d->c.world; i++)
        if (mesh_is_peer(m, i))
            hear(m, i);
    return dist_unpack(atomic_load(&m->fault));
}

/* 1: all ranks have begun this call. 0: not yet. -1: a rank began another one, d->fault set. */
static int check(struct mesh *m, const struct dist_call *c)
{
    for (int i = 0; i < m->d->c.world; i++) {
        const struct peer *p = &m->peers[i];
        if (!mesh_is_peer(m, i))
            continue;
        if (p->seq < c->seq)
            return 0;
        if (p->what[c->seq % 2] != dist_what(c) || p->count[c->seq % 2] != c->n) {
            m->d->fault = (struct dist_fault){DIST_MISMATCH, dist_name(m->d, i), c->seq};
            return -1;
        }
    }
    return 1;
}

/* --- one call ---------------------------------------------------------------------------- */

/* All data to and from peer i is transferred. */
static bool is_even(const struct mesh *m, const struct dist_call *c, int i)
{
    const struct peer *p = &m->peers[i];
    return p->seq >= c->seq && p->heard_of >= c->seq && p->puts_in == mesh_put_rounds(m, c) &&
           p->results_in == mesh_results_of(m, c, i) && p->puts_out == mesh_put_rounds(m, c) &&
           p->results_out == mesh_results_of(m, c, m->d->c.rank) && !mesh_is_sending(p);
}

static int work_with(struct mesh *m, const struct dist_call *c, int i, bool *moved)
{
    struct peer *p = &m->peers[i];
    if (p->heard_of < c->seq && say(m, i, WORD_CALL, c->seq, dist_what(c), c->n))
        p->heard_of = c->seq;
    *moved |= mesh_send_to(m, c, i);
    int rc = mesh_receive_from(m, c, i);
    *moved |= rc > 0;
    if (rc < 0) {
        m->d->fault = (struct dist_fault){DIST_MISMATCH, dist_name(m->d, i), c->seq};
        return -1;
    }
    if (!p->broken)
        return 0; /* also after the end of its messages: its data may still be on the way */
    hear(m, i); /* its last messages may have come after we read */
    if (!is_even(m, c, i)) {
        m->d->fault = (struct dist_fault){p->link->bye ? DIST_LEFT : DIST_DIED,
                                          dist_name(m->d, i), c->seq};
        return -1;
    }
    return 0;
}

static int advance(struct dist *d, const struct dist_call *c)
{
    struct mesh *m = d->way;
    bool moved;
    if (m->seq != c->seq)
        mesh_begin_call(m, c);
    do {
        struct dist_fault f = told(d);
        if (f.kind != DIST_FINE) {
            d->fault = f;
            d->fault.seq = c->seq;
            return -1;
        }
        moved = false;
        bool even = true;
        for (int i = 0; i < d->c.world; i++)
            if (mesh_is_peer(m, i) && work_with(m, c, i, &moved) < 0)
                return -1;
        moved |= mesh_reduce(m, c);
        for (int i = 0; i < d->c.world; i++)
            even = even && (!mesh_is_peer(m, i) || is_even(m, c, i));
        int rc = m->checked ? 1 : check(m, c);
        if (rc < 0)
            return -1;
        m->checked = rc == 1;
        if (even && m->checked && m->red == mesh_put_rounds(m, c))
            return 1;
    } while (moved);
    return 0;
}

/* --- waiting ----------------------------------------------------------------------------- */

static void sleep_some(struct dist *d)
{
    struct mesh *m = d->way;
    nfds_t n = 0;
    uint64_t rung;
    m->polls[n++] = (struct pollfd){.fd = m->bell, .events = POLLIN};
    for (int i = 0; i < d->c.world; i++) {
        const struct peer *p = &m->peers[i];
        if (!mesh_is_peer(m, i))
            continue;
        bool full = p->head_have == sizeof(p->head_in) && p->to == NULL; /* it has to wait */
        short bytes = (short)((full || p->broken ? 0 : POLLIN) | (mesh_is_sending(p) ? POLLOUT : 0));
        short words = (short)(POLLIN | (p->link->out_have ? POLLOUT : 0));
        m->polls[n++] = (struct pollfd){.fd = p->link->gone ? -1 : p->link->fd[DIST_LINK_WORDS],
                                        .events = words};
        m->polls[n++] = (struct pollfd){.fd = bytes ? p->link->fd[DIST_LINK_BYTES] : -1,
                                        .events = bytes};
    }
    poll(m->polls, n, SLEEP_MS);
    while (read(m->bell, &rung, sizeof(rung)) > 0)
        ;
}

/* A rank that has not begun the call, else the rank with the least data sent. */
static void blame(struct dist *d, const struct dist_call *c, struct dist_fault *fault)
{
    const struct mesh *m = d->way;
    uint64_t least = UINT64_MAX;
    int who = -1;
    if (!c) {
        who = m->connect ? dist_connect_absent(m->connect) : -1;
        fault->rank = who >= 0 ? dist_name(d, who) : -1;
        return;
    }
    for (int i = 0; i < d->c.world; i++) {
        const struct peer *p = &m->peers[i];
        uint64_t far = p->seq < c->seq ? 0 : 1 + p->puts_in + p->results_in;
        if (mesh_is_peer(m, i) && !(m->checked && is_even(m, c, i)) && far < least) {
            least = far;
            who = i;
        }
    }
    if (who >= 0)
        fault->rank = m->peers[who].waits_for >= 0 ? m->peers[who].waits_for : dist_name(d, who);
}

static void suspect(struct dist *d, int name)
{
    struct mesh *m = d->way;
    for (int i = 0; i < d->c.world; i++)
        if (mesh_is_peer(m, i))
            say(m, i, WORD_WAITS, m->seq, name < 0 ? UINT64_MAX : (uint64_t)name, 0);
}

static struct dist_fault raise_all(struct dist *d, struct dist_fault f)
{
    struct mesh *m = d->way;
    uint64_t one = 1;
    note_fault(m, f);
    f = dist_unpack(atomic_load(&m->fault));
    for (int i = 0; i < d->c.world; i++)
        if (mesh_is_peer(m, i))
            say(m, i, WORD_FAULT, f.seq, (uint64_t)f.kind, (uint64_t)(f.rank + 1));
    if (write(m->bell, &one, sizeof(one)) < 0)
        return f; /* already woken */
    return f;
}

/* --- create, destroy --------------------------------------------------------------------- */

static void destroy(struct dist *d)
{
    struct mesh *m = d->way;
    bool fine = atomic_load(&m->fault) == 0 && d->connected;
    for (int i = 0; m->links && i < d->c.world; i++)
        if (mesh_is_peer(m, i) && fine && say(m, i, WORD_BYE, m->seq, 0, 0))
            dist_link_end(&m->links[i]);
    for (int64_t until = clock_ms() + LEAVE_MS; fine && m->links && clock_ms() < until;) {
        bool sent = true;
        for (int i = 0; i < d->c.world; i++)
            sent = sent && dist_link_sent(&m->links[i]);
        if (sent)
            break;
        poll(NULL, 0, 1);
    }
    for (int i = 0; m->links && i < d->c.world; i++)
        dist_link_close(&m->links[i]);
    dist_connect_close(m->connect);
    if (m->bell >= 0)
        close(m->bell);
    pthread_mutex_destroy(&m->say);
    free(m->inbox);
    free(m->sources);
    free(m->polls);
    free(m->peers);
    free(m->links);
    free(m);
}

static size_t chunk_for(size_t world)
{
    size_t chunk = INBOX / MESH_SLOTS / world / DIST_UNIT * DIST_UNIT;
    return chunk > CHUNK_MAX ? CHUNK_MAX : chunk < MESH_CHUNK_MIN ? MESH_CHUNK_MIN : chunk;
}

static int begin(struct dist *d, struct err *err)
{
    struct mesh *m = calloc(1, sizeof(*m));
    size_t world = (size_t)d->c.world, length = strlen(d->c.name);
    if (!m)
        return err_set(err, ERR_MEMORY, "no memory for collectives");
    d->way = m;
    m->d = d;
    m->chunk = chunk_for(world);
    m->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    m->key[0] = digest_word(d->c.name, length, world);
    m->key[1] = digest_word(d->c.name, length, ~(uint64_t)world);
    pthread_mutex_init(&m->say, NULL);
    m->links = calloc(world, sizeof(*m->links));
    m->peers = calloc(world, sizeof(*m->peers));
    m->polls = calloc(1 + DIST_LINK_CHANNELS * world, sizeof(*m->polls));
    m->sources = calloc(world, sizeof(*m->sources));
    m->inbox = malloc(world * MESH_SLOTS * m->chunk);
    for (size_t i = 0; m->links && m->peers && i < world; i++) {
        m->links[i].fd[DIST_LINK_WORDS] = m->links[i].fd[DIST_LINK_BYTES] = -1;
        m->peers[i].link = &m->links[i];
        m->peers[i].waits_for = -1;
    }
    struct dist_connect_config config = {.rank = d->c.rank, .world = d->c.world, .names = d->names,
                                       .key = {m->key[0], m->key[1]}, .bootstrap = d->c.bootstrap,
                                       .links = m->links};
    int rc = m->links && m->peers && m->polls && m->sources && m->inbox && m->bell >= 0
                 ? dist_connect_open(&m->connect, &config, err)
                 : err_set(err, ERR_MEMORY, "no memory for collectives of %d nodes", d->c.world);
    if (rc < 0)
        destroy(d);
    return rc;
}

static int connect_all(struct dist *d, struct err *err)
{
    struct mesh *m = d->way;
    int rc = dist_connect_poll(m->connect, err);
    if (rc == 1) {
        dist_connect_close(m->connect);
        m->connect = NULL;
    }
    return rc;
}

const struct dist_ops dist_mesh = {
    .name = "mesh",
    .begin = begin,
    .connect = connect_all,
    .advance = advance,
    .sleep = sleep_some,
    .blame = blame,
    .raise = raise_all,
    .destroy = destroy,
    .told = told,
    .suspect = suspect,
};
