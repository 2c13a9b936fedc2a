/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_write.c - a rank's copies; see snapshot.h
 *
 * Numbers are copied and digested chunk by chunk, by all threads: the digest reads what the copy has
 * just brought into the cache.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/digest.h"
#include "engine/err.h"
#include "engine/snapshot_parts.h"
#include "engine/state.h"
#include "kernels/team.h"

enum { PAGE = 4096 };

/* One piece of work. */
struct chunk {
    const float *from;
    size_t       at, n;
};

struct snapshot {
    struct snapshot_head *head;
    size_t                size;
    struct chunk         *chunk;
    size_t                chunks;
    uint64_t             *digest; /* [chunks + 1] */
};

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

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
    return SNAPSHOT_ROWS + pages(rows * sizeof(struct snapshot_row));
}

static size_t copy_bytes(const struct state *s)
{
    return SNAPSHOT_NOTES + pages(state_saves(s) * sizeof(float));
}

int64_t snapshot_bytes(const struct state *s)
{
    size_t rows, chunks;
    measure(s, &rows, &chunks);
    return (int64_t)(first_copy(rows) + SNAPSHOT_COPIES * copy_bytes(s));
}

/* The table of rows, and the list of chunks. */
static void describe(struct snapshot *p, const struct state *s)
{
    struct snapshot_row *row = (struct snapshot_row *)(void *)((char *)p->head + SNAPSHOT_ROWS);
    size_t at = 0;
    for (int i = 0; i < s->len; i++) {
        const struct state_part *x = &s->part[i];
        if (!is_saved(x))
            continue;
        *row = (struct snapshot_row){.from = x->save_from, .to = x->save_to, .at = at};
        snprintf(row->name, sizeof(row->name), "%s", x->name);
        row++;
        for (size_t k = x->save_from; k < x->save_to; k += SNAPSHOT_CHUNK) {
            size_t left = x->save_to - k, n = left < SNAPSHOT_CHUNK ? left : SNAPSHOT_CHUNK;
            p->chunk[p->chunks++] = (struct chunk){x->data + (k - x->from), at, n};
            at += n;
        }
    }
}

static int map(struct snapshot *p, int fd, size_t size, struct err *err)
{
    if (ftruncate(fd, (off_t)size) < 0)
        return err_set(err, ERR_SYSTEM, "no snapshots in memory: %s", strerror(errno));
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return err_set(err, ERR_SYSTEM, "no snapshots in memory: %s", strerror(errno));
    p->head = at;
    p->size = size;
    return 0;
}

int snapshot_create(struct snapshot **out, int fd, const struct snapshot_run *run,
                    const struct state *s, struct err *err)
{
    size_t rows, chunks, one = copy_bytes(s);
    measure(s, &rows, &chunks);
    struct snapshot *p = calloc(1, sizeof(*p));
    if (p) {
        p->chunk = calloc(chunks + 1, sizeof(*p->chunk));
        p->digest = calloc(chunks + 1, sizeof(*p->digest));
    }
    if (!p || !p->chunk || !p->digest) {
        snapshot_destroy(p);
        return err_set(err, ERR_MEMORY, "no memory for a list of snapshots");
    }
    if (map(p, fd, (size_t)snapshot_bytes(s), err) < 0) {
        snapshot_destroy(p);
        return -1;
    }
    struct snapshot_head *h = p->head;
    h->layout = run->layout;
    h->rank = (uint64_t)run->rank;
    h->world = (uint64_t)run->world;
    h->rows = rows;
    h->floats = state_saves(s);
    h->size = p->size;
    for (size_t i = 0; i < SNAPSHOT_COPIES; i++) {
        h->copy[i].step = -1;
        h->copy[i].at = first_copy(rows) + i * one;
    }
    describe(p, s);
    atomic_store_explicit(&h->magic, SNAPSHOT_MAGIC, memory_order_release);
    *out = p;
    return 0;
}

void snapshot_destroy(struct snapshot *p)
{
    if (!p)
        return;
    if (p->head)
        munmap(p->head, p->size);
    free(p->chunk);
    free(p->digest);
    free(p);
}

struct saving {
    struct snapshot *p;
    float           *to;
    bool             there; /* the numbers have come */
};

static void save_chunks(const void *arg, size_t from, size_t to)
{
    const struct saving *s = arg;
    for (size_t i = from; i < to; i++) {
        const struct chunk *c = &s->p->chunk[i];
        if (!s->there)
            memcpy(s->to + c->at, c->from, c->n * sizeof(float));
        s->p->digest[i] = digest_word(s->to + c->at, c->n * sizeof(float), i);
    }
}

static struct snapshot_copy *copy_of(const struct snapshot *p, int64_t step)
{
    return &p->head->copy[step % SNAPSHOT_COPIES];
}

static float *numbers_of(const struct snapshot *p, int64_t step)
{
    return (float *)(void *)((char *)p->head + copy_of(p, step)->at + SNAPSHOT_NOTES);
}

/* From here on the copy is of no step. */
static void open_copy(struct snapshot *p, int64_t step)
{
    atomic_store_explicit(&copy_of(p, step)->step, -1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

static void complete(struct snapshot *p, int64_t step, bool there, const void *notes, size_t size)
{
    struct snapshot_copy *c = copy_of(p, step);
    char *to = (char *)p->head + c->at;
    const struct saving s = {p, numbers_of(p, step), there};
    size = size < SNAPSHOT_NOTES ? size : SNAPSHOT_NOTES;
    memcpy(to, notes, size);
    team_range(p->chunks, 1, SNAPSHOT_CHUNK, save_chunks, &s);
    p->digest[p->chunks] = digest_word(to, size, p->chunks);
    c->notes = size;
    c->checksum = snapshot_checksum(step, p->digest, p->chunks + 1);
    atomic_store_explicit(&c->step, step, memory_order_release);
}

void snapshot_save(struct snapshot *p, int64_t step, const void *notes, size_t size)
{
    open_copy(p, step);
    complete(p, step, false, notes, size);
}

void snapshot_seal(struct snapshot *p, int64_t step, const void *notes, size_t size)
{
    complete(p, step, true, notes, size);
}

/* Chunks that touch, here and there, are one piece. */
int snapshot_bring(struct snapshot *p, int64_t step, snapshot_bring_fn bring, void *arg)
{
    float *to = numbers_of(p, step);
    open_copy(p, step);
    for (size_t i = 0, next; i < p->chunks; i = next) {
        const struct chunk *c = &p->chunk[i];
        size_t n = c->n;
        for (next = i + 1; next < p->chunks && p->chunk[next].from == c->from + n; next++)
            n += p->chunk[next].n;
        if (bring(arg, to + c->at, c->from, n) < 0)
            return -1;
    }
    return 0;
}

void *snapshot_memory(const struct snapshot *p, size_t *bytes)
{
    *bytes = p->size;
    return p->head;
}
