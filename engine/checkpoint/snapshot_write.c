/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_write.c - create a rank's memory file, and copy device memory to it; see snapshot.h
 *
 * All threads digest a copy chunk by chunk, in the widest vectors; the digests are those
 * of digest_word() all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/checkpoint/snapshot_internal.h"
#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/optim/state.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"

static bool is_saved(const struct state_part *p)
{
    return p->save_to > p->save_from;
}

/* Rows and chunks that a state makes. */
static void measure(const struct state *s, size_t *rows, size_t *chunks)
{
    *rows = *chunks = 0;
    for (int i = 0; i < s->len; i++)
        if (is_saved(&s->part[i])) {
            size_t n = s->part[i].save_to - s->part[i].save_from;
            ++*rows;
            *chunks += (n + SNAPSHOT_CHUNK - 1) / SNAPSHOT_CHUNK;
        }
}

static size_t first_copy(size_t rows)
{
    return SNAPSHOT_ROWS + snapshot_pages(rows * sizeof(struct snapshot_row));
}

static size_t copy_bytes(size_t floats)
{
    return SNAPSHOT_NOTES + snapshot_pages(floats * sizeof(float));
}

int64_t snapshot_bytes(const struct state *s)
{
    size_t rows, chunks;
    measure(s, &rows, &chunks);
    return (int64_t)(first_copy(rows) + 2 * copy_bytes(state_saves(s)));
}

/* Fills in the table of rows and the list of pieces. Numbers of a copy are at their offset from
 * `home`, or contiguous if that is NULL. */
static void snapshot_list(struct snapshot *p, const struct state *s, const float *home)
{
    struct snapshot_row *row = (struct snapshot_row *)(void *)((char *)p->head + SNAPSHOT_ROWS);
    size_t used = 0;
    for (int i = 0; i < s->len; i++) {
        const struct state_part *x = &s->part[i];
        const float *first = x->data + (x->save_from - x->from);
        if (!is_saved(x))
            continue;
        const size_t at = home ? (size_t)(first - home) : used, all = x->save_to - x->save_from;
        *row = (struct snapshot_row){.from = x->save_from, .to = x->save_to, .at = at};
        snprintf(row->name, sizeof(row->name), "%s", x->name);
        row++;
        for (size_t k = 0; k < all; k += SNAPSHOT_CHUNK) {
            const size_t n = all - k < SNAPSHOT_CHUNK ? all - k : SNAPSHOT_CHUNK;
            p->piece[p->pieces++] = (struct snapshot_piece){
                .is = {i, x->save_from + k, n}, .there = home ? NULL : first + k, .at = at + k};
        }
        used += all;
    }
}

static int map(struct snapshot *p, int fd, size_t size, struct err *err)
{
    if (ftruncate(fd, (off_t)size) < 0)
        return err_set_errno(err, errno, "no snapshots in memory");
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return err_set_errno(err, errno, "no snapshots in memory");
    p->head = at;
    p->size = size;
    p->fd = fd;
    return 0;
}

/* Sizes the file for the saved ranges of a state or, if `floats` is not 0, for images. */
static int snapshot_make_file(struct snapshot **out, int fd, const struct snapshot_run *run,
                       const struct state *s, size_t floats, struct err *err)
{
    const size_t copies = floats ? SNAPSHOT_IMAGES : 2;
    size_t rows, chunks;
    measure(s, &rows, &chunks);
    floats = floats ? floats : state_saves(s);
    struct snapshot *p = calloc(1, sizeof(*p));
    if (p) {
        p->piece = calloc(chunks + 1, sizeof(*p->piece));
        p->digest = calloc(chunks + 1, sizeof(*p->digest));
        p->own = calloc(rows + 1, sizeof(*p->own));
    }
    if (!p || !p->piece || !p->digest || !p->own) {
        snapshot_destroy(p);
        return err_set(err, ERR_MEMORY, "no memory for a list of snapshots");
    }
    if (map(p, fd, first_copy(rows) + copies * copy_bytes(floats), err) < 0) {
        snapshot_destroy(p);
        return -1;
    }
    struct snapshot_head *h = p->head;
    h->layout = run->layout;
    h->rank = (uint64_t)run->rank;
    h->world = (uint64_t)run->world;
    h->rows = rows;
    h->floats = floats;
    h->size = p->size;
    h->copies = copies;
    p->turn = 1;
    for (size_t i = 0; i < copies; i++) {
        h->copy[i].step = -1;
        h->copy[i].at = first_copy(rows) + i * copy_bytes(floats);
    }
    *out = p;
    return 0;
}

/* Marks the file as readable. */
static void snapshot_publish(struct snapshot *p)
{
    atomic_store_explicit(&p->head->magic, SNAPSHOT_MAGIC, memory_order_release);
}

int snapshot_create(struct snapshot **out, int fd, const struct snapshot_run *run,
                    const struct state *s, struct err *err)
{
    if (snapshot_make_file(out, fd, run, s, 0, err) < 0)
        return -1;
    snapshot_list(*out, s, NULL);
    snapshot_publish(*out);
    return 0;
}

void snapshot_destroy(struct snapshot *p)
{
    if (!p)
        return;
    if (p->head)
        munmap(p->head, p->size);
    free(p->piece);
    free(p->digest);
    free(p->own);
    free(p);
}

float *snapshot_image(const struct snapshot *p, int image)
{
    return (float *)(void *)((char *)p->head + p->head->copy[image].at + SNAPSHOT_NOTES);
}

void snapshot_open(struct snapshot *p, int image)
{
    atomic_store_explicit(&p->head->copy[image].step, -1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

void snapshot_look(struct snapshot *p, size_t chunk, const float *numbers)
{
    p->digest[chunk] = kern_cpu()->digest(numbers, p->piece[chunk].is.n * sizeof(float), chunk);
}

void snapshot_look_in(struct snapshot *p, int image, size_t chunk)
{
    snapshot_look(p, chunk, snapshot_image(p, image) + p->piece[chunk].at);
}

void snapshot_close(struct snapshot *p, int image, int64_t step, const void *notes, size_t size)
{
    struct snapshot_copy *c = &p->head->copy[image];
    char *to = (char *)p->head + c->at;
    size = size < SNAPSHOT_NOTES ? size : SNAPSHOT_NOTES;
    memcpy(to, notes, size);
    p->digest[p->pieces] = digest_word(to, size, p->pieces);
    c->notes = size;
    c->checksum = snapshot_checksum(step, p->digest, p->pieces + 1);
    atomic_store_explicit(&c->step, step, memory_order_release);
}

/* --- copies of device memory ------------------------------------------------------------ */

struct looking {
    struct snapshot *p;
    int              image;
};

static void look_at_chunks(const void *arg, size_t from, size_t to)
{
    const struct looking *l = arg;
    for (size_t i = from; i < to; i++)
        snapshot_look_in(l->p, l->image, i);
}

void snapshot_seal(struct snapshot *p, int64_t step, const void *notes, size_t size)
{
    const struct looking l = {p, p->turn};
    thread_pool_range(p->pieces, 1, SNAPSHOT_CHUNK, look_at_chunks, &l);
    snapshot_close(p, p->turn, step, notes, size);
}

/* Chunks adjacent in both memories are one piece. */
int snapshot_bring(struct snapshot *p, snapshot_bring_fn bring, void *arg)
{
    p->turn = !p->turn;
    float *to = snapshot_image(p, p->turn);
    snapshot_open(p, p->turn);
    for (size_t i = 0, next; i < p->pieces; i = next) {
        const struct snapshot_piece *c = &p->piece[i];
        size_t n = c->is.n;
        for (next = i + 1; next < p->pieces && p->piece[next].there == c->there + n; next++)
            n += p->piece[next].is.n;
        if (bring(arg, to + c->at, c->there, n) < 0)
            return -1;
    }
    return 0;
}

void *snapshot_memory(const struct snapshot *p, size_t *bytes)
{
    *bytes = p->size;
    return p->head;
}

int snapshot_images(struct snapshot **out, int fd, const struct snapshot_run *run,
                    const struct state *s, size_t floats, struct err *err)
{
    return snapshot_make_file(out, fd, run, s, floats, err);
}

static int by_place(const void *a, const void *b)
{
    const struct snapshot_own *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Whole pages around all rows, in order, merged. */
static void find_own(struct snapshot *p)
{
    const struct snapshot_row *row = (const struct snapshot_row *)(const void *)((const char *)p->head + SNAPSHOT_ROWS);
    const size_t rows = p->head->rows;
    for (size_t i = 0; i < rows; i++)
        p->own[i] = (struct snapshot_own){
            row[i].at * sizeof(float) / SNAPSHOT_PAGE * SNAPSHOT_PAGE,
            snapshot_pages((row[i].at + (row[i].to - row[i].from)) * sizeof(float))};
    qsort(p->own, rows, sizeof(*p->own), by_place);
    for (size_t i = 0; i < rows; i++) {
        struct snapshot_own *last = p->owns ? &p->own[p->owns - 1] : NULL;
        if (last && p->own[i].from <= last->to)
            last->to = p->own[i].to > last->to ? p->own[i].to : last->to;
        else
            p->own[p->owns++] = p->own[i];
    }
}

static off_t offset_of(const struct snapshot *p, int image)
{
    return (off_t)p->head->copy[image].at + SNAPSHOT_NOTES;
}

/* If the system refuses, the image keeps private pages: more memory, the same numbers. */
static void share(struct snapshot *p, int image, size_t from, size_t to)
{
    char *at = (char *)snapshot_image(p, image) + from;
    if (to > from)
        (void)mmap(at, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd, offset_of(p, 0) + (off_t)from);
}

void snapshot_settle(struct snapshot *p, const struct state *s)
{
    const size_t end = snapshot_pages(p->head->floats * sizeof(float));
    snapshot_list(p, s, snapshot_image(p, 0));
    find_own(p);
    for (int image = 1; image < SNAPSHOT_IMAGES; image++) {
        size_t from = 0;
        for (int i = 0; i < p->owns; from = p->own[i++].to)
            share(p, image, from, p->own[i].from);
        share(p, image, from, end);
    }
    snapshot_publish(p);
}

static void punch(const struct snapshot *p, off_t from, size_t bytes)
{
    (void)fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, (off_t)bytes);
}

void snapshot_drop(struct snapshot *p, int image)
{
    snapshot_open(p, image);
    punch(p, (off_t)p->head->copy[image].at, SNAPSHOT_NOTES);
    for (int i = 0; i < p->owns; i++)
        punch(p, offset_of(p, image) + (off_t)p->own[i].from, p->own[i].to - p->own[i].from);
}

size_t snapshot_chunks(const struct snapshot *p)
{
    return p->pieces;
}

struct snapshot_chunk snapshot_chunk(const struct snapshot *p, size_t chunk)
{
    return p->piece[chunk].is;
}
