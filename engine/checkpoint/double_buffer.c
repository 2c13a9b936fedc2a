/* SPDX-License-Identifier: Apache-2.0 */
/* double_buffer.c - see double_buffer.h */
#include "engine/checkpoint/double_buffer.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/checkpoint/snapshot.h"
#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/optim/params.h"
#include "engine/optim/state.h"
#include "kernels/thread_pool.h"

enum { NONE = -1 };

/* A unit of update: a range of a tensor with its weights and optimizer state; and the chunks of the
 * file that are complete then, in turns.chunk. */
struct piece {
    int    tensor;
    size_t from, to;
    size_t first, chunks;
};

struct double_buffer {
    struct params   *params;
    struct snapshot *file;
    struct state     state;
    int              own_fd;  /* or -1 */
    bool             keep, fresh; /* fresh: an update made the current image and digested it */
    int              now, held;
    bool             used[SNAPSHOT_IMAGES];
    struct piece    *piece;
    size_t           pieces;
    size_t          *first;   /* [tensors + 1]: pieces of each */
    size_t          *chunk;
};

/* --- pieces of an update ----------------------------------------------------------------- */

static size_t count_cuts(size_t from, size_t to, bool whole)
{
    return to <= from ? 0 : whole ? 1 : (to - from + OPTIM_PIECE - 1) / OPTIM_PIECE;
}

static void cut(struct double_buffer *t, int tensor, size_t from, size_t to, bool whole)
{
    const size_t most = whole ? to - from : OPTIM_PIECE;
    for (; from < to; from += most)
        t->piece[t->pieces++] = (struct piece){
            .tensor = tensor, .from = from, .to = to - from < most ? to : from + most};
}

/* A tensor's pieces end at the borders of its saved range. */
static int list_pieces(struct double_buffer *t, struct err *err)
{
    const struct optim *o = params_optim(t->params);
    const bool whole = !optim_is_elementwise(o);
    size_t most = 1, from, to;
    for (int i = 0; i < t->state.weights; i++) {
        optim_range(o, i, &from, &to);
        most += count_cuts(from, to, whole) + 2;
    }
    t->piece = calloc(most, sizeof(*t->piece));
    t->first = calloc((size_t)t->state.weights + 1, sizeof(*t->first));
    if (!t->piece || !t->first)
        return err_set(err, ERR_MEMORY, "no memory for the list of updated ranges");
    for (int i = 0; i < t->state.weights; i++) {
        const struct state_part *p = &t->state.part[i];
        optim_range(o, i, &from, &to);
        const bool some = !whole && to > from && p->save_to > p->save_from;
        const size_t a = some ? p->save_from : to, b = some ? p->save_to : to;
        t->first[i] = t->pieces;
        cut(t, i, from, a, whole);
        cut(t, i, a, b, whole);
        cut(t, i, b, to, whole);
    }
    t->first[t->state.weights] = t->pieces;
    return 0;
}

/* The piece that makes a chunk, or NULL: no update changes it. */
static struct piece *maker(const struct double_buffer *t, size_t chunk)
{
    const struct snapshot_chunk c = snapshot_chunk(t->file, chunk);
    const int tensor = t->state.part[c.part].tensor;
    size_t lo = t->first[tensor], hi = t->first[tensor + 1];
    const bool whole = !optim_is_elementwise(params_optim(t->params));
    if (lo == hi)
        return NULL;
    while (!whole && hi - lo > 1) {
        const size_t mid = lo + (hi - lo) / 2;
        if (t->piece[mid].from <= c.from)
            lo = mid;
        else
            hi = mid;
    }
    return &t->piece[lo];
}

static int list_chunks(struct double_buffer *t, struct err *err)
{
    const size_t chunks = snapshot_chunks(t->file);
    size_t used = 0;
    t->chunk = calloc(chunks + 1, sizeof(*t->chunk));
    if (!t->chunk)
        return err_set(err, ERR_MEMORY, "no memory for the list of updated ranges");
    for (size_t i = 0; i < chunks; i++)
        if (maker(t, i))
            maker(t, i)->chunks++;
    for (size_t i = 0; i < t->pieces; i++) {
        t->piece[i].first = used;
        used += t->piece[i].chunks;
        t->piece[i].chunks = 0;
    }
    for (size_t i = 0; i < chunks; i++) {
        struct piece *p = maker(t, i);
        if (p)
            t->chunk[p->first + p->chunks++] = i;
    }
    return 0;
}

/* --- choice of images ---------------------------------------------------------------------- */

/* An image that already has memory is preferred. */
static int next_image(const struct double_buffer *t)
{
    int next = NONE;
    if (!t->keep && t->now != t->held)
        return t->now;
    for (int i = SNAPSHOT_IMAGES - 1; i >= 0; i--)
        if (i != t->now && i != t->held && (next == NONE || t->used[i]))
            next = i;
    return next;
}

/* An image whose memory is new. */
static void furnish(struct double_buffer *t, int image)
{
    t->used[image] = true;
    params_carry(t->params, snapshot_image(t->file, image));
    for (size_t i = 0; i < snapshot_chunks(t->file); i++)
        if (!maker(t, i))
            snapshot_look_in(t->file, image, i);
}

struct moving {
    const struct double_buffer *turns;
    struct optim_move           move;
    int                         image;
};

/* Digests the chunks of a piece, in the order of the file. */
struct looking {
    const struct moving *of;
    const size_t        *chunk;
};

static void look(void *arg, int which, const float *numbers)
{
    const struct looking *l = arg;
    snapshot_look(l->of->turns->file, l->chunk[which], numbers);
}

static void move_pieces(const void *arg, size_t from, size_t to)
{
    const struct moving *m = arg;
    const struct double_buffer *t = m->turns;
    for (size_t i = from; i < to; i++) {
        const struct piece *p = &t->piece[i];
        struct looking l = {m, t->chunk + p->first};
        const struct optim_look see = {look, &l};
        optim_move(params_optim(t->params), &m->move, p->tensor, p->from, p->to, t->keep && p->chunks ? &see : NULL);
    }
}

static void look_at_chunks(const void *arg, size_t from, size_t to)
{
    const struct looking *l = arg;
    for (size_t i = from; i < to; i++)
        snapshot_look_in(l->of->turns->file, l->of->image, l->chunk[i]);
}

/* A whole tensor uses all threads, a piece uses one. */
static void move_all(const struct moving *m)
{
    const struct double_buffer *t = m->turns;
    if (optim_is_elementwise(params_optim(t->params))) {
        thread_pool_range(t->pieces, 1, OPTIM_PIECE, move_pieces, m);
        return;
    }
    for (size_t i = 0; i < t->pieces; i++) {
        const struct piece *p = &t->piece[i];
        optim_move(params_optim(t->params), &m->move, p->tensor, p->from, p->to, NULL);
        if (t->keep)
            thread_pool_range(p->chunks, 1, OPTIM_PIECE, look_at_chunks,
                              &(struct looking){m, t->chunk + p->first});
    }
}

static int update(void *arg, double lr, double grad_norm, struct err *err)
{
    struct double_buffer *t = arg;
    struct moving m = {.turns = t, .image = next_image(t)};
    t->fresh = false;
    if (m.image == t->now)
        return params_update_here(t->params, lr, grad_norm, err);
    float *image = snapshot_image(t->file, m.image);
    if (params_move_begin(t->params, &m.move, image, lr, grad_norm, err) < 0)
        return -1;
    snapshot_open(t->file, m.image);
    if (!t->used[m.image])
        furnish(t, m.image);
    move_all(&m);
    params_place(t->params, image);
    t->now = m.image;
    t->fresh = true;
    return 0;
}

/* --- create, destroy ---------------------------------------------------------------------- */

static int move_in(struct double_buffer *t, int fd, const struct snapshot_run *run, struct err *err)
{
    if (params_state(t->params, &t->state, err) < 0 ||
        snapshot_images(&t->file, fd, run, &t->state, params_image(t->params), err) < 0)
        return -1;
    params_place(t->params, snapshot_image(t->file, t->now));
    state_free(&t->state);
    if (params_state(t->params, &t->state, err) < 0)
        return -1;
    snapshot_settle(t->file, &t->state);
    params_on_update(t->params, update, t);
    return list_pieces(t, err) < 0 ? -1 : list_chunks(t, err);
}

int double_buffer_create(struct double_buffer **out, int fd, const struct snapshot_run *run,
                         struct params *p, struct err *err)
{
    struct double_buffer *t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(err, ERR_MEMORY, "no memory for a snapshot");
    t->params = p;
    t->held = t->own_fd = NONE;
    t->used[t->now] = true;
    if ((fd < 0 && (fd = t->own_fd = snapshot_make(err)) < 0) || move_in(t, fd, run, err) < 0) {
        double_buffer_destroy(t);
        return -1;
    }
    *out = t;
    return 0;
}

void double_buffer_destroy(struct double_buffer *t)
{
    if (!t)
        return;
    snapshot_destroy(t->file);
    if (t->own_fd >= 0)
        close(t->own_fd);
    state_free(&t->state);
    free(t->piece);
    free(t->first);
    free(t->chunk);
    free(t);
}

void double_buffer_keep(struct double_buffer *t, bool keep)
{
    t->keep = keep;
}

int64_t double_buffer_image_bytes(const struct double_buffer *t)
{
    return (int64_t)(state_saves(&t->state) * sizeof(float));
}

/* --- after updates ------------------------------------------------------------------------ */

void double_buffer_seal(struct double_buffer *t, int64_t step, const void *notes, size_t size)
{
    if (t->keep && t->fresh)
        snapshot_close(t->file, t->now, step, notes, size);
}

void double_buffer_hold(struct double_buffer *t)
{
    t->held = t->now;
}

/* If two other images (one without snapshots) have memory, frees this one's. */
void double_buffer_release(struct double_buffer *t)
{
    const int was = t->held;
    int used = 0;
    t->held = NONE;
    for (int i = 0; i < SNAPSHOT_IMAGES; i++)
        used += t->used[i];
    if (was == NONE || was == t->now || used <= (t->keep ? 2 : 1))
        return;
    snapshot_drop(t->file, was);
    t->used[was] = false;
}
