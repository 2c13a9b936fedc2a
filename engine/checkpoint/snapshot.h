/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h - the state of a run in memory that outlives its ranks
 *
 * The agent makes one memory file per rank and generation and keeps it open, so that what a rank
 * wrote stays when the rank is killed at any instruction.  After each step the ranges that a rank
 * saves (state.h) are in one of the file's copies, in turn; the copy's checksum and step
 * are written last.  The ranks of the next generation, however many, find the newest step that
 * all ranks of the last one have whole, and go on from it.
 *
 * On a GPU they are copied there.  On the CPU they live there: a copy is an image of all of the state, and
 * an update reads one and writes another (double_buffer.h).
 *
 * A copy of step k takes the place of that of step k - 2.  Its writer has the sum of all
 * ranks' gradients of step k by then, so all have finished step k - 1: at every moment there
 * is a step that all have.
 *
 * Layout of a file: struct snapshot_head, a row per range, then the copies.
 */
#ifndef ENGINE_CHECKPOINT_SNAPSHOT_H
#define ENGINE_CHECKPOINT_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct state;

enum { SNAPSHOT_NOTES = 65536, SNAPSHOT_NAME = 128, SNAPSHOT_RANKS = 128 };

/* --- the agent's: memory, and whether it is of use */

/* A descriptor of an empty memory file, closed on exec; -1: the system has none. */
int snapshot_make(struct err *err);

/* The newest step that all n, of so many ranks, say they have, or -1. Looks at heads only. */
int64_t snapshot_claims(const int *fds, int n, int world);

/* --- a rank writes */

struct snapshot;

/* What identifies the run: ranks of another one do not go on from it. */
struct snapshot_run {
    uint64_t layout;  /* layout_digest() */
    int      rank, world;
};

/* Of numbers in another memory: makes `fd` (kept, not owned) as large as two copies of what `s` saves.
 * `s` is kept. */
int snapshot_create(struct snapshot **out, int fd, const struct snapshot_run *run,
                    const struct state *s, struct err *err);
void snapshot_destroy(struct snapshot *p);

/* One copy: each piece of the numbers is asked for, and when all have come it is sealed, with at most
 * SNAPSHOT_NOTES bytes of notes. bring() returns 0, or -1: then there is no copy. */
typedef int (*snapshot_bring_fn)(void *arg, float *to, const float *from, size_t n);
int snapshot_bring(struct snapshot *p, int64_t step, snapshot_bring_fn bring, void *arg);
void snapshot_seal(struct snapshot *p, int64_t step, const void *notes, size_t size);
/* Where pieces are brought to. */
void *snapshot_memory(const struct snapshot *p, size_t *bytes);

/* Bytes of memory that it may take. */
int64_t snapshot_bytes(const struct state *s);

/* --- or the state lives in it */

enum { SNAPSHOT_IMAGES = 3 };

/* Makes `fd` (kept, not owned) as large as three images of `floats` numbers; memory is taken only of what
 * is written to. When what `s` tells of is at home in image 0, snapshot_settle() makes the file
 * readable. What is not saved is there once: where a page holds nothing else, all images show the same one. */
int snapshot_images(struct snapshot **out, int fd, const struct snapshot_run *run,
                    const struct state *s, size_t floats, struct err *err);
void snapshot_settle(struct snapshot *p, const struct state *s);
float *snapshot_image(const struct snapshot *p, int image);

/* A piece of what is saved: numbers from `from` on of a part of the state. */
struct snapshot_chunk {
    int    part;
    size_t from, n;
};
size_t snapshot_chunks(const struct snapshot *p);
struct snapshot_chunk snapshot_chunk(const struct snapshot *p, size_t chunk);

/* An image is no step's; each of its chunks is looked at, by any thread, when it is as it will be, in its place
 * or before it is put there; then the image is sealed. */
void snapshot_open(struct snapshot *p, int image);
void snapshot_look(struct snapshot *p, size_t chunk, const float *numbers);
void snapshot_look_in(struct snapshot *p, int image, size_t chunk);
void snapshot_close(struct snapshot *p, int image, int64_t step, const void *notes, size_t size);

/* The image is no step's, and what is saved of it needs no memory until it is written to again. */
void snapshot_drop(struct snapshot *p, int image);

/* --- a rank of a later generation reads */

struct snapshot_set;

/* n files of a generation that is dead, of one rank after the other: of all, or of those of a node
 * (snapshot_share.h). NULL where there is nothing to read: no failure. */
int snapshot_set_open(struct snapshot_set **out, const int *fds, int n, struct err *err);
void snapshot_set_close(struct snapshot_set *set);

/* Whose files they are: ranks [*first, *first + n) of *world. */
int snapshot_set_ranks(const struct snapshot_set *set, int *first, int *world);

/* The newest step, `most` or older, that all its ranks have whole (checksums are compared), or -1. */
int64_t snapshot_set_step(const struct snapshot_set *set, uint64_t layout, int64_t most);

/* Of that step: the notes of its first rank, valid until the set is closed; all ranks have the same. */
const void *snapshot_set_notes(const struct snapshot_set *set, int64_t step, size_t *size);

/* Its numbers, for what `into` holds; missing[into->len]: how many of each part no file has. */
void snapshot_set_load(const struct snapshot_set *set, int64_t step, const struct state *into,
                       size_t *missing);

/* Numbers [from, to) of a tensor. */
struct snapshot_span {
    size_t from, to;
};
/* What one of its ranks has of the tensor `name`, and the first of the numbers; none: from == to. `hint` is
 * about where it is among all. */
struct snapshot_span snapshot_set_span(const struct snapshot_set *set, int64_t step, int rank,
                                       const char *name, int hint, const float **numbers);

#endif
