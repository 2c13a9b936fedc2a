/* SPDX-License-Identifier: Apache-2.0 */
/* dist_mesh_rounds.c - data of a collective between nodes: split in rounds, sent, received, reduced
 *
 * Puts are read into `MESH_SLOTS` slots per peer; if none is free the data stays in the socket,
 * and TCP's flow control stops the sender.  Results are read into the
 * buffer itself.
 */
#include <errno.h>
#include <sys/socket.h>

#include "engine/dist/dist_mesh_internal.h"

enum { DIRECT = 16384 };

enum stage { PUT = 1, RESULT };

/* --- offsets ----------------------------------------------------------------------------- */

/* Elements of rank i's part in round k. */
static void round_of(const struct mesh *m, const struct dist_call *c, int i, uint64_t k, size_t *from, size_t *to)
{
    size_t lo = 0, hi = c->n;
    if (c->kind != DIST_BROADCAST && !m->direct)
        dist_part(m->d, c, i, &lo, &hi);
    size_t at = lo + m->per * k;
    *from = at < hi ? at : hi;
    *to = hi - *from < m->per ? hi : *from + m->per;
}

uint64_t mesh_put_rounds(const struct mesh *m, const struct dist_call *c)
{
    return dist_is_sum(c) ? m->rounds : 0;
}

uint64_t mesh_results_of(const struct mesh *m, const struct dist_call *c, int i)
{
    switch (c->kind) {
    case DIST_ALL_REDUCE:
        return m->direct ? 0 : m->rounds;
    case DIST_ALL_GATHER:
        return m->rounds;
    case DIST_BROADCAST:
        return i == c->root ? m->rounds : 0;
    case DIST_REDUCE_SCATTER:
    case DIST_BARRIER:
        break;
    }
    return 0;
}

static char *slot(const struct mesh *m, int i, uint64_t k)
{
    return m->inbox + ((size_t)i * MESH_SLOTS + (size_t)(k % MESH_SLOTS)) * m->chunk;
}

void mesh_begin_call(struct mesh *m, const struct dist_call *c)
{
    size_t most = 0, unit, from, to;
    m->seq = c->seq;
    m->size = dist_size(c->type);
    m->direct = dist_is_sum(c) && c->n * m->size <= DIRECT;
    m->red = 0;
    m->checked = false;
    for (int i = 0; i < m->d->c.world; i++) {
        struct peer *p = &m->peers[i];
        p->puts_out = p->results_out = p->puts_in = p->results_in = 0;
        dist_part(m->d, c, i, &from, &to);
        most = to - from > most ? to - from : most;
    }
    if (m->direct || c->kind == DIST_BROADCAST)
        most = c->n;
    unit = DIST_UNIT / m->size;
    m->per = (most / 4 + unit - 1) / unit * unit;
    m->per = m->per < MESH_CHUNK_MIN / m->size ? MESH_CHUNK_MIN / m->size : m->per;
    m->per = m->per > m->chunk / m->size ? m->chunk / m->size : m->per;
    m->rounds = (most + m->per - 1) / m->per;
    m->results = dist_is_sum(c) ? 0 : mesh_results_of(m, c, m->d->c.rank);
}

/* --- sending ----------------------------------------------------------------------------- */

static bool next_piece(struct mesh *m, const struct dist_call *c, int i)
{
    struct peer *p = &m->peers[i];
    size_t from, to;
    bool result = p->results_out < m->results;
    if (!result && p->puts_out >= mesh_put_rounds(m, c))
        return false;
    uint64_t k = result ? p->results_out : p->puts_out;
    round_of(m, c, result ? m->d->c.rank : i, k, &from, &to);
    p->head_out = (struct head){m->key[0], c->seq, (to - from) * m->size,
                                result ? RESULT : PUT, (uint32_t)k};
    p->head_left = sizeof(p->head_out);
    p->from = c->data + from * m->size;
    p->left = (to - from) * m->size;
    return true;
}

bool mesh_send_to(struct mesh *m, const struct dist_call *c, int i)
{
    struct peer *p = &m->peers[i];
    bool moved = false;
    while (!p->broken && (mesh_is_sending(p) || next_piece(m, c, i))) {
        struct iovec io[2] = {
            {(char *)&p->head_out + (sizeof(p->head_out) - p->head_left), p->head_left},
            {(void *)(uintptr_t)p->from, p->left}};
        struct msghdr msg = {.msg_iov = io, .msg_iovlen = 2};
        ssize_t n = sendmsg(p->link->fd[DIST_LINK_BYTES], &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        p->broken = n < 0 && errno != EAGAIN;
        if (n < 0)
            break;
        size_t head = (size_t)n < p->head_left ? (size_t)n : p->head_left;
        p->head_left -= head;
        p->from += (size_t)n - head;
        p->left -= (size_t)n - head;
        m->d->progress++;
        m->d->stats.moved += (size_t)n - head;
        m->d->stats.wire += (size_t)n - head;
        moved = true;
        if (!mesh_is_sending(p))
            p->head_out.stage == RESULT ? p->results_out++ : p->puts_out++;
    }
    return moved;
}

/* --- receiving --------------------------------------------------------------------------- */

/* Destination of the announced piece: 1. No free slot: 0. Invalid: -1. */
static int place(struct mesh *m, const struct dist_call *c, int i)
{
    struct peer *p = &m->peers[i];
    const struct head *h = &p->head_in;
    size_t from, to;
    if (h->key != m->key[0])
        return -1;
    if (h->seq == c->seq + 1)
        return 0;
    bool result = h->stage == RESULT;
    uint64_t next = result ? p->results_in : p->puts_in;
    if (h->seq != c->seq || h->round != next ||
        next >= (result ? mesh_results_of(m, c, i) : mesh_put_rounds(m, c)))
        return -1;
    if (!result && next >= m->red + MESH_SLOTS)
        return 0;
    round_of(m, c, result ? i : m->d->c.rank, next, &from, &to);
    if (h->bytes != (to - from) * m->size)
        return -1;
    p->to = result ? c->data + from * m->size : slot(m, i, next);
    p->more = h->bytes;
    return 1;
}

/* Reads what has arrived, at most `most`: > 0; 0 = nothing now. */
static size_t take(struct peer *p, void *to, size_t most)
{
    for (;;) {
        ssize_t n = recv(p->link->fd[DIST_LINK_BYTES], to, most, MSG_DONTWAIT);
        if (n > 0)
            return (size_t)n;
        if (n < 0 && errno == EINTR)
            continue;
        p->broken = p->broken || n == 0 || errno != EAGAIN;
        return 0;
    }
}

int mesh_receive_from(struct mesh *m, const struct dist_call *c, int i)
{
    struct peer *p = &m->peers[i];
    int moved = 0;
    for (;;) {
        if (p->head_have < sizeof(p->head_in)) {
            size_t n = take(p, (char *)&p->head_in + p->head_have, sizeof(p->head_in) - p->head_have);
            p->head_have += n;
            if (n == 0)
                return moved;
            if (p->head_have < sizeof(p->head_in))
                continue;
            p->to = NULL;
        }
        int rc = p->to ? 1 : place(m, c, i);
        if (rc <= 0)
            return rc < 0 ? -1 : moved;
        while (p->more > 0) {
            size_t n = take(p, p->to, p->more);
            if (n == 0)
                return moved;
            p->to += n;
            p->more -= n;
            m->d->progress++;
            moved = 1;
        }
        p->head_in.stage == RESULT ? p->results_in++ : p->puts_in++;
        p->head_have = 0;
        moved = 1;
    }
}

static bool can_reduce(const struct mesh *m, const struct dist_call *c)
{
    if (m->red >= mesh_put_rounds(m, c))
        return false;
    for (int i = 0; i < m->d->c.world; i++) {
        const struct peer *p = &m->peers[i];
        if (mesh_is_peer(m, i) &&
            (p->puts_in <= m->red || (m->direct && (p->puts_out <= m->red || mesh_is_sending(p)))))
            return false;
    }
    return true;
}

bool mesh_reduce(struct mesh *m, const struct dist_call *c)
{
    size_t from, to;
    bool moved = false;
    for (; can_reduce(m, c); m->red++, moved = true) {
        round_of(m, c, m->d->c.rank, m->red, &from, &to);
        for (int i = 0; i < m->d->c.world; i++)
            m->sources[i] = mesh_is_peer(m, i) ? slot(m, i, m->red) : c->data + from * m->size;
        dist_fold(c->data + from * m->size, m->sources, m->d->c.world, to - from, c->type, c->op);
        if (!m->direct && c->kind == DIST_ALL_REDUCE)
            m->results = m->red + 1;
        m->d->progress++;
    }
    return moved;
}
