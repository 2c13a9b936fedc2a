/* SPDX-License-Identifier: Apache-2.0 */
/* dist_mesh.c - collectives between nodes: each sends to each, over TCP
 *
 * As in dist_shm.c every rank answers for a part of the buffer (dist_part), and a part
 * is cut in rounds:
 *
 *   put      send my numbers of your part to you
 *   red      add up all ranks' numbers of my part, in the order of ranks
 *   result   send the sums of my part to all
 *
 * That is as many bytes as a ring sends, 2 (N - 1) / N of the buffer per rank, in two
 * hops instead of 2 (N - 1), in one order of addition, and who is silent is known to all
 * at once instead of to its neighbours only.  What is small goes as a whole to
 * everybody, who adds up for himself: one hop.
 *
 * Puts are read into `SLOTS` slots per peer; where none is free the bytes stay with the
 * system, and the sender's wait there is all the flow control.  Results are read into the
 * buffer itself.  Nobody ends a call before all have begun it (WORD_CALL), so a peer is
 * at most one call ahead, and its bytes for that one stay unread until then.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/digest.h"
#include "engine/dist_door.h"
#include "engine/dist_link.h"
#include "engine/dist_parts.h"
#include "engine/err.h"

enum { DIRECT = 16384, CHUNK_MIN = 65536, CHUNK_MAX = 524288, INBOX = 16 << 20, SLOTS = 4,
       SLEEP_MS = 20, LEAVE_MS = 2000 };

enum stage { PUT = 1, RESULT };

/* Before each piece of numbers. */
struct head {
    uint64_t key, seq, bytes;
    uint32_t stage, round;
};

struct peer {
    struct dist_link *link;
    uint64_t          seq, what[2], count[2]; /* its newest call; what it is, at [seq % 2] */
    uint64_t          heard_of;               /* the newest of our calls that it knows of */
    int               waits_for;              /* a rank's name, or -1 */
    /* going out: the piece in hand, and rounds sent */
    struct head       head_out;
    const char       *from;
    size_t            head_left, left;
    uint64_t          puts_out, results_out;
    /* coming in: the same */
    struct head       head_in;
    char             *to;
    size_t            head_have, more;
    uint64_t          puts_in, results_in;
    bool              broken; /* its bytes have ended */
};

struct mesh {
    struct dist      *d;
    struct dist_door *door; /* while they meet */
    struct dist_link *links;
    struct peer      *peers; /* [world]; the own one is unused */
    struct pollfd    *polls;
    const char      **sources;
    char             *inbox; /* [world][SLOTS] chunks */
    size_t            chunk;
    uint64_t          key[2];
    pthread_mutex_t   say;   /* words out: also another thread's */
    _Atomic uint64_t  fault; /* packed */
    int               bell;  /* rung by another thread */
    /* the call in hand */
    uint64_t          seq, rounds, red, results;
    size_t            size, per;
    bool              direct, checked;
};

static bool is_peer(const struct mesh *m, int i)
{
    return i != m->d->c.rank;
}

/* --- what goes where --------------------------------------------------------------------- */

/* Elements of rank i's part that round k is about. */
static void round_of(const struct mesh *m, const struct dist_call *c, int i, uint64_t k,
                     size_t *from, size_t *to)
{
    size_t lo = 0, hi = c->n;
    if (c->kind != DIST_BROADCAST && !m->direct)
        dist_part(m->d, c, i, &lo, &hi);
    size_t at = lo + m->per * k;
    *from = at < hi ? at : hi;
    *to = hi - *from < m->per ? hi : *from + m->per;
}

static uint64_t put_rounds(const struct mesh *m, const struct dist_call *c)
{
    return dist_is_sum(c) ? m->rounds : 0;
}

/* Rounds of results that rank i sends to each other one. */
static uint64_t results_of(const struct mesh *m, const struct dist_call *c, int i)
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
    return m->inbox + ((size_t)i * SLOTS + (size_t)(k % SLOTS)) * m->chunk;
}

static void begin_call(struct mesh *m, const struct dist_call *c)
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
    m->per = m->per < CHUNK_MIN / m->size ? CHUNK_MIN / m->size : m->per;
    m->per = m->per > m->chunk / m->size ? m->chunk / m->size : m->per;
    m->rounds = (most + m->per - 1) / m->per;
    m->results = dist_is_sum(c) ? 0 : results_of(m, c, m->d->c.rank);
}

/* --- words ------------------------------------------------------------------------------- */

static bool say(struct mesh *m, int i, enum link_kind kind, uint64_t seq, uint64_t what,
                uint64_t count)
{
    struct dist_word w = {.key = m->key[0], .kind = kind, .seq = seq, .what = what, .count = count};
    if (m->links[i].fd[LINK_WORDS] < 0 || m->links[i].gone)
        return true;
    pthread_mutex_lock(&m->say);
    bool said = link_say(&m->links[i], &w);
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
        link_flush(p->link);
        pthread_mutex_unlock(&m->say);
    }
    while (link_hear(p->link, m->key[0], &w)) {
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
    for (int i = 0; !m->door && i < d->c.world; i++)
        if (is_peer(m, i))
            hear(m, i);
    return dist_unpack(atomic_load(&m->fault));
}

/* All have begun this call: 1. Not yet: 0. Somebody another one: -1, d->fault set. */
static int check(struct mesh *m, const struct dist_call *c)
{
    for (int i = 0; i < m->d->c.world; i++) {
        const struct peer *p = &m->peers[i];
        if (!is_peer(m, i))
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

/* --- numbers out ------------------------------------------------------------------------- */

static bool next_piece(struct mesh *m, const struct dist_call *c, int i)
{
    struct peer *p = &m->peers[i];
    size_t from, to;
    bool result = p->results_out < m->results;
    if (!result && p->puts_out >= put_rounds(m, c))
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

static bool is_sending(const struct peer *p)
{
    return p->head_left > 0 || p->left > 0;
}

static bool send_to(struct mesh *m, const struct dist_call *c, int i)
{
    struct peer *p = &m->peers[i];
    bool moved = false;
    while (!p->broken && (is_sending(p) || next_piece(m, c, i))) {
        struct iovec io[2] = {
            {(char *)&p->head_out + (sizeof(p->head_out) - p->head_left), p->head_left},
            {(void *)(uintptr_t)p->from, p->left}};
        struct msghdr msg = {.msg_iov = io, .msg_iovlen = 2};
        ssize_t n = sendmsg(p->link->fd[LINK_BYTES], &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
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
        if (!is_sending(p))
            p->head_out.stage == RESULT ? p->results_out++ : p->puts_out++;
    }
    return moved;
}

/* --- numbers in -------------------------------------------------------------------------- */

/* Where the piece that is announced shall go: 1. It must wait: 0. It makes no sense: -1. */
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
        next >= (result ? results_of(m, c, i) : put_rounds(m, c)))
        return -1;
    if (!result && next >= m->red + SLOTS)
        return 0;
    round_of(m, c, result ? i : m->d->c.rank, next, &from, &to);
    if (h->bytes != (to - from) * m->size)
        return -1;
    p->to = result ? c->data + from * m->size : slot(m, i, next);
    p->more = h->bytes;
    return 1;
}

/* What there is, at most `most`: > 0; 0 = nothing now. */
static size_t take(struct peer *p, void *to, size_t most)
{
    for (;;) {
        ssize_t n = recv(p->link->fd[LINK_BYTES], to, most, MSG_DONTWAIT);
        if (n > 0)
            return (size_t)n;
        if (n < 0 && errno == EINTR)
            continue;
        p->broken = p->broken || n == 0 || errno != EAGAIN;
        return 0;
    }
}

/* 1: something came; 0: nothing; -1: nonsense. */
static int receive_from(struct mesh *m, const struct dist_call *c, int i)
{
    struct peer *p = &m->peers[i];
    int moved = 0;
    for (;;) {
        if (p->head_have < sizeof(p->head_in)) {
            size_t n = take(p, (char *)&p->head_in + p->head_have,
                            sizeof(p->head_in) - p->head_have);
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
    if (m->red >= put_rounds(m, c))
        return false;
    for (int i = 0; i < m->d->c.world; i++) {
        const struct peer *p = &m->peers[i];
        if (is_peer(m, i) &&
            (p->puts_in <= m->red || (m->direct && (p->puts_out <= m->red || is_sending(p)))))
            return false;
    }
    return true;
}

static bool reduce(struct mesh *m, const struct dist_call *c)
{
    size_t from, to;
    bool moved = false;
    for (; can_reduce(m, c); m->red++, moved = true) {
        round_of(m, c, m->d->c.rank, m->red, &from, &to);
        for (int i = 0; i < m->d->c.world; i++)
            m->sources[i] = is_peer(m, i) ? slot(m, i, m->red) : c->data + from * m->size;
        dist_fold(c->data + from * m->size, m->sources, m->d->c.world, to - from, c->type, c->op);
        if (!m->direct && c->kind == DIST_ALL_REDUCE)
            m->results = m->red + 1;
        m->d->progress++;
    }
    return moved;
}

/* --- one call ---------------------------------------------------------------------------- */

/* Everything to and from peer i is done. */
static bool is_even(const struct mesh *m, const struct dist_call *c, int i)
{
    const struct peer *p = &m->peers[i];
    return p->seq >= c->seq && p->heard_of >= c->seq && p->puts_in == put_rounds(m, c) &&
           p->results_in == results_of(m, c, i) && p->puts_out == put_rounds(m, c) &&
           p->results_out == results_of(m, c, m->d->c.rank) && !is_sending(p);
}

static int work_with(struct mesh *m, const struct dist_call *c, int i, bool *moved)
{
    struct peer *p = &m->peers[i];
    if (p->heard_of < c->seq && say(m, i, WORD_CALL, c->seq, dist_what(c), c->n))
        p->heard_of = c->seq;
    *moved |= send_to(m, c, i);
    int rc = receive_from(m, c, i);
    *moved |= rc > 0;
    if (rc < 0) {
        m->d->fault = (struct dist_fault){DIST_MISMATCH, dist_name(m->d, i), c->seq};
        return -1;
    }
    if (!p->broken)
        return 0; /* also when its words have ended: its numbers may still be on their way */
    hear(m, i); /* its last words may have come after we listened */
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
        begin_call(m, c);
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
            if (is_peer(m, i) && work_with(m, c, i, &moved) < 0)
                return -1;
        moved |= reduce(m, c);
        for (int i = 0; i < d->c.world; i++)
            even = even && (!is_peer(m, i) || is_even(m, c, i));
        int rc = m->checked ? 1 : check(m, c);
        if (rc < 0)
            return -1;
        m->checked = rc == 1;
        if (even && m->checked && m->red == put_rounds(m, c))
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
        if (!is_peer(m, i))
            continue;
        bool full = p->head_have == sizeof(p->head_in) && p->to == NULL; /* it is to wait */
        short bytes = (short)((full || p->broken ? 0 : POLLIN) | (is_sending(p) ? POLLOUT : 0));
        short words = (short)(POLLIN | (p->link->out_have ? POLLOUT : 0));
        m->polls[n++] = (struct pollfd){.fd = p->link->gone ? -1 : p->link->fd[LINK_WORDS],
                                        .events = words};
        m->polls[n++] = (struct pollfd){.fd = bytes ? p->link->fd[LINK_BYTES] : -1,
                                        .events = bytes};
    }
    poll(m->polls, n, SLEEP_MS);
    while (read(m->bell, &rung, sizeof(rung)) > 0)
        ;
}

/* Whoever has not begun the call, else whoever has sent least of it. */
static void blame(struct dist *d, const struct dist_call *c, struct dist_fault *fault)
{
    const struct mesh *m = d->way;
    uint64_t least = UINT64_MAX;
    int who = -1;
    if (!c) {
        who = m->door ? door_absent(m->door) : -1;
        fault->rank = who >= 0 ? dist_name(d, who) : -1;
        return;
    }
    for (int i = 0; i < d->c.world; i++) {
        const struct peer *p = &m->peers[i];
        uint64_t far = p->seq < c->seq ? 0 : 1 + p->puts_in + p->results_in;
        if (is_peer(m, i) && !(m->checked && is_even(m, c, i)) && far < least) {
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
        if (is_peer(m, i))
            say(m, i, WORD_WAITS, m->seq, name < 0 ? UINT64_MAX : (uint64_t)name, 0);
}

static struct dist_fault raise_all(struct dist *d, struct dist_fault f)
{
    struct mesh *m = d->way;
    uint64_t one = 1;
    note_fault(m, f);
    f = dist_unpack(atomic_load(&m->fault));
    for (int i = 0; i < d->c.world; i++)
        if (is_peer(m, i))
            say(m, i, WORD_FAULT, f.seq, (uint64_t)f.kind, (uint64_t)(f.rank + 1));
    if (write(m->bell, &one, sizeof(one)) < 0)
        return f; /* it is rung already */
    return f;
}

/* --- life -------------------------------------------------------------------------------- */

static void destroy(struct dist *d)
{
    struct mesh *m = d->way;
    bool fine = atomic_load(&m->fault) == 0 && d->connected;
    for (int i = 0; m->links && i < d->c.world; i++)
        if (is_peer(m, i) && fine && say(m, i, WORD_BYE, m->seq, 0, 0))
            link_end(&m->links[i]);
    for (int64_t until = dist_clock_ms() + LEAVE_MS; fine && m->links && dist_clock_ms() < until;) {
        bool sent = true;
        for (int i = 0; i < d->c.world; i++)
            sent = sent && link_sent(&m->links[i]);
        if (sent)
            break;
        poll(NULL, 0, 1);
    }
    for (int i = 0; m->links && i < d->c.world; i++)
        link_close(&m->links[i]);
    door_close(m->door);
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
    size_t chunk = INBOX / SLOTS / world / DIST_UNIT * DIST_UNIT;
    return chunk > CHUNK_MAX ? CHUNK_MAX : chunk < CHUNK_MIN ? CHUNK_MIN : chunk;
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
    m->polls = calloc(1 + LINK_CHANNELS * world, sizeof(*m->polls));
    m->sources = calloc(world, sizeof(*m->sources));
    m->inbox = malloc(world * SLOTS * m->chunk);
    for (size_t i = 0; m->links && m->peers && i < world; i++) {
        m->links[i].fd[LINK_WORDS] = m->links[i].fd[LINK_BYTES] = -1;
        m->peers[i].link = &m->links[i];
        m->peers[i].waits_for = -1;
    }
    struct door_config door = {.rank = d->c.rank, .world = d->c.world, .names = d->names,
                               .key = {m->key[0], m->key[1]}, .meet = d->c.meet,
                               .links = m->links};
    int rc = m->links && m->peers && m->polls && m->sources && m->inbox && m->bell >= 0
                 ? door_open(&m->door, &door, err)
                 : err_set(err, ERR_MEMORY, "no memory for collectives of %d nodes", d->c.world);
    if (rc < 0)
        destroy(d);
    return rc;
}

static int connect_all(struct dist *d, struct err *err)
{
    struct mesh *m = d->way;
    int rc = door_poll(m->door, err);
    if (rc == 1) {
        door_close(m->door);
        m->door = NULL;
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
