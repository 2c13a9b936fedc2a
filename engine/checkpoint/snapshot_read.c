/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_read.c - read the memory files of a dead generation; see snapshot.h */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "engine/checkpoint/snapshot_internal.h"
#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/optim/state.h"

/* One rank's file. */
struct file {
    const struct snapshot_head *head;
    const struct snapshot_row  *row;
    size_t                      size;
};

struct snapshot_set {
    int         n;
    struct file file[];
};

/* Whether every offset in the file is inside the file. */
static bool is_sound(const struct file *f)
{
    const struct snapshot_head *h = f->head;
    const uint64_t data = SNAPSHOT_NOTES + h->floats * sizeof(float);
    if (atomic_load(&h->magic) != SNAPSHOT_MAGIC || h->size != f->size || h->floats > f->size ||
        h->rows > (f->size - SNAPSHOT_ROWS) / sizeof(*f->row) || data > f->size ||
        h->copies > SNAPSHOT_COPIES)
        return false;
    for (uint64_t i = 0; i < h->copies; i++)
        if (h->copy[i].at > f->size - data || h->copy[i].at % sizeof(float) ||
            h->copy[i].notes > SNAPSHOT_NOTES)
            return false;
    for (uint64_t i = 0; i < h->rows; i++) {
        const struct snapshot_row *r = &f->row[i];
        if (r->from > r->to || r->at > h->floats || r->to - r->from > h->floats - r->at ||
            !memchr(r->name, 0, sizeof(r->name)))
            return false;
    }
    return true;
}

static bool map(struct file *f, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size < SNAPSHOT_ROWS)
        return false;
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return false;
    f->head = at;
    f->row = (const struct snapshot_row *)(const void *)((char *)at + SNAPSHOT_ROWS);
    f->size = (size_t)st.st_size;
    return is_sound(f);
}

/* Whether the file belongs to the next rank, of the same world. */
static bool follows(const struct snapshot_set *set, int i)
{
    const struct snapshot_head *first = set->file[0].head, *h = set->file[i].head;
    return first->world <= INT_MAX && h->world == first->world && first->rank < first->world &&
           h->rank == first->rank + (uint64_t)i && h->rank < h->world;
}

int snapshot_set_open(struct snapshot_set **out, const int *fds, int n, struct err *err)
{
    struct snapshot_set *set = calloc(1, sizeof(*set) + (size_t)n * sizeof(set->file[0]));
    *out = NULL;
    if (!set)
        return err_set(err, ERR_MEMORY, "no memory for a list of snapshots");
    for (set->n = 0; set->n < n;) {
        struct file *f = &set->file[set->n++];
        if (!map(f, fds[set->n - 1]) || !follows(set, set->n - 1)) {
            snapshot_set_close(set); /* of a rank that died early: nothing to resume from */
            return 0;
        }
    }
    *out = n > 0 ? set : NULL;
    if (n == 0)
        free(set);
    return 0;
}

void snapshot_set_close(struct snapshot_set *set)
{
    for (int i = 0; set && i < set->n; i++)
        if (set->file[i].head)
            munmap((void *)(uintptr_t)set->file[i].head, set->file[i].size);
    free(set);
}

static const struct snapshot_copy *copy_of(const struct file *f, int64_t step)
{
    for (uint64_t i = 0; i < f->head->copies; i++)
        if (atomic_load_explicit(&f->head->copy[i].step, memory_order_acquire) == step)
            return &f->head->copy[i];
    return NULL;
}

static const float *numbers(const struct file *f, const struct snapshot_copy *c)
{
    return (const float *)(const void *)((const char *)f->head + c->at + SNAPSHOT_NOTES);
}

/* Whether the file has a copy of that step with a matching checksum. */
static bool has_whole(const struct file *f, int64_t step)
{
    const struct snapshot_head *h = f->head;
    const struct snapshot_copy *c = copy_of(f, step);
    size_t chunks = 0;
    if (!c)
        return false;
    for (uint64_t i = 0; i < h->rows; i++)
        chunks += (f->row[i].to - f->row[i].from + SNAPSHOT_CHUNK - 1) / SNAPSHOT_CHUNK;
    uint64_t *digest = calloc(chunks + 1, sizeof(*digest));
    if (!digest)
        return false;
    size_t k = 0;
    for (uint64_t i = 0; i < h->rows; i++) {
        const struct snapshot_row *r = &f->row[i];
        for (uint64_t at = 0; at < r->to - r->from; at += SNAPSHOT_CHUNK, k++) {
            uint64_t left = r->to - r->from - at;
            digest[k] = digest_word(numbers(f, c) + r->at + at,
                                    sizeof(float) * (left < SNAPSHOT_CHUNK ? left : SNAPSHOT_CHUNK), k);
        }
    }
    digest[k] = digest_word((const char *)h + c->at, c->notes, k);
    bool same = snapshot_checksum(step, digest, k + 1) == c->checksum;
    free(digest);
    return same;
}

static bool all_have(const struct snapshot_set *set, uint64_t layout, int64_t step)
{
    for (int r = 0; r < set->n; r++)
        if (set->file[r].head->layout != layout || !has_whole(&set->file[r], step))
            return false;
    return true;
}

/* The newest step in a file before `than`, or -1. */
static int64_t newest_before(const struct file *f, int64_t than)
{
    int64_t newest = -1;
    for (uint64_t i = 0; i < f->head->copies; i++) {
        const int64_t step = atomic_load(&f->head->copy[i].step);
        newest = step < than && step > newest ? step : newest;
    }
    return newest;
}

int snapshot_set_ranks(const struct snapshot_set *set, int *first, int *world)
{
    *first = (int)set->file[0].head->rank;
    *world = (int)set->file[0].head->world;
    return set->n;
}

int64_t snapshot_set_step(const struct snapshot_set *set, uint64_t layout, int64_t most)
{
    int64_t step = newest_before(&set->file[0], most < INT64_MAX ? most + 1 : most);
    while (step >= 0 && !all_have(set, layout, step))
        step = newest_before(&set->file[0], step);
    return step;
}

const void *snapshot_set_notes(const struct snapshot_set *set, int64_t step, size_t *size)
{
    const struct snapshot_copy *c = copy_of(&set->file[0], step);
    *size = c ? (size_t)c->notes : 0;
    return c ? (const char *)set->file[0].head + c->at : NULL;
}

/* The range of a tensor in a file; `hint` is the approximate index of its row. */
static const struct snapshot_row *find_row(const struct file *f, const char *name, uint64_t hint)
{
    const uint64_t rows = f->head->rows;
    for (uint64_t i = 0; i < rows; i++) {
        const struct snapshot_row *r = &f->row[(hint + i) % rows];
        if (strcmp(r->name, name) == 0)
            return r;
    }
    return NULL;
}

struct snapshot_span snapshot_set_span(const struct snapshot_set *set, int64_t step, int rank,
                                       const char *name, int hint, const float **at)
{
    const uint64_t i = (uint64_t)rank - set->file[0].head->rank;
    const struct file *f = i < (uint64_t)set->n ? &set->file[i] : NULL;
    const struct snapshot_row *r = f ? find_row(f, name, (uint64_t)hint) : NULL;
    const struct snapshot_copy *c = r ? copy_of(f, step) : NULL;
    *at = c ? numbers(f, c) + r->at : NULL;
    return c ? (struct snapshot_span){r->from, r->to} : (struct snapshot_span){0, 0};
}

void snapshot_set_load(const struct snapshot_set *set, int64_t step, const struct state *into, size_t *missing)
{
    const int first = (int)set->file[0].head->rank;
    for (int i = 0; i < into->len; i++) {
        const struct state_part *p = &into->part[i];
        missing[i] = p->to - p->from;
        for (int r = first; r < first + set->n; r++) {
            const float *at;
            const struct snapshot_span s = snapshot_set_span(set, step, r, p->name, i, &at);
            missing[i] -= state_put(p, s.from, s.to, at);
        }
    }
}
