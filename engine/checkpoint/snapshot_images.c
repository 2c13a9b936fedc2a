/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_images.c - three images of a state that lives in the memory file; see snapshot.h
 *
 * An image has private pages for the saved ranges.  Its other pages in images 1 and 2 are those of
 * image 0, mapped a second time: state that every rank updates but does not save exists once.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "engine/checkpoint/snapshot_internal.h"

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
