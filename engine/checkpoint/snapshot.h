/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h - snapshots of a run's state in memory that outlives the ranks
 *
 * The agent makes one memory file per rank and generation and keeps it open, so that its
 * contents stay when the rank is killed at any instruction.  After each step (on a GPU after each N-th,
 * snapshot_interval.h) the ranges that a rank saves (state.h) are in one of the file's copies, by turns; the copy's
 * checksum and step are written last.  The ranks of the next generation, however many, find the newest step that
 * all ranks of the last one have completely, and resume from it.
 *
 * On a GPU the ranges are copied to the file.  On the CPU they live in it: a copy is an image of
 * the whole state, and an update reads one image and writes another (double_buffer.h).
 *
 * A new copy replaces the second-newest one. By then its writer has the sum of all ranks' gradients of that step, and
 * each rank sends its gradients only after sealing its previous copy: at every moment there is a step that all ranks
 * have.
 *
 * Layout of a file: struct snapshot_head, a row per range, then the copies. Ranges are stored by name and position: a
 * reader's tensors may have another layout in memory (engine/model/layout.h).
 */
#ifndef ENGINE_CHECKPOINT_SNAPSHOT_H
#define ENGINE_CHECKPOINT_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct state;

enum { SNAPSHOT_NOTES = 65536, SNAPSHOT_NAME = 128, SNAPSHOT_RANKS = 128 };

/* --- for the agent: create a file, inspect its contents */

/* A descriptor of an empty memory file, close-on-exec; -1: the system has no memory files. */
int snapshot_make(struct err *err);

/* The newest step that n files, one per rank, claim to have, or -1. Reads only their heads. */
int64_t snapshot_claims(const int *fds, int n, int world);

/* --- for a rank: write */

struct snapshot;

/* Identifies the run: ranks of another run do not resume from it. */
struct snapshot_run {
    uint64_t layout;  /* layout_digest() */
    int      rank, world;
};

/* For state in device memory: sizes `fd` (not owned) for two copies of what `s` saves.
 * Keeps a reference to `s`. */
int snapshot_create(struct snapshot **out, int fd, const struct snapshot_run *run,
                    const struct state *s, struct err *err);
void snapshot_destroy(struct snapshot *p);

/* Makes one copy: requests each piece of the numbers with bring(), and seals the copy when all have
 * arrived, with at most SNAPSHOT_NOTES bytes of notes, on any thread. bring() returns 0, or -1: then there is no
 * copy. */
typedef int (*snapshot_bring_fn)(void *arg, float *to, const float *from, size_t n);
int snapshot_bring(struct snapshot *p, snapshot_bring_fn bring, void *arg);
void snapshot_seal(struct snapshot *p, int64_t step, const void *notes, size_t size);
/* Destination of the pieces. */
void *snapshot_memory(const struct snapshot *p, size_t *bytes);

/* Bytes of memory that the snapshot needs. */
int64_t snapshot_bytes(const struct state *s);

/* --- or the state lives in the file */

enum { SNAPSHOT_IMAGES = 3 };

/* Sizes `fd` (not owned) for three images of `floats` numbers; memory is allocated on
 * write. Once the state of `s` is in image 0, snapshot_settle() makes the file
 * readable. State that is not saved exists once: pages that hold nothing else are shared by all
 * images. */
int snapshot_images(struct snapshot **out, int fd, const struct snapshot_run *run,
                    const struct state *s, size_t floats, struct err *err);
void snapshot_settle(struct snapshot *p, const struct state *s);
float *snapshot_image(const struct snapshot *p, int image);

/* A piece of the saved state: numbers from `from` on of a part of the state. */
struct snapshot_chunk {
    int    part;
    size_t from, n;
};
size_t snapshot_chunks(const struct snapshot *p);
struct snapshot_chunk snapshot_chunk(const struct snapshot *p, size_t chunk);

/* Invalidates an image; then each of its chunks is digested, by any thread, when it has its final
 * contents, in place or before it is copied there; then the image is sealed. */
void snapshot_open(struct snapshot *p, int image);
void snapshot_look(struct snapshot *p, size_t chunk, const float *numbers);
void snapshot_look_in(struct snapshot *p, int image, size_t chunk);
void snapshot_close(struct snapshot *p, int image, int64_t step, const void *notes, size_t size);

/* Invalidates the image and frees the memory of its saved ranges until they are written again. */
void snapshot_drop(struct snapshot *p, int image);

/* --- for a rank of a later generation: read */

struct snapshot_set;

/* Opens n files of a dead generation's consecutive ranks: all ranks, or those of a node (snapshot_share.h). NULL if
 * there is nothing to read, which is not a failure. */
int snapshot_set_open(struct snapshot_set **out, const int *fds, int n, struct err *err);
void snapshot_set_close(struct snapshot_set *set);

/* Owners of the files: ranks [*first, *first + n) of *world. */
int snapshot_set_ranks(const struct snapshot_set *set, int *first, int *world);

/* The newest step, `most` or older, that all its ranks have completely (checksums are compared), or
 * -1. */
int64_t snapshot_set_step(const struct snapshot_set *set, uint64_t layout, int64_t most);

/* The notes of that step's first rank, valid until the set is closed; all ranks have the same. */
const void *snapshot_set_notes(const struct snapshot_set *set, int64_t step, size_t *size);

/* Reads the numbers that `into` holds; missing[into->len]: how many of each part no file has. */
void snapshot_set_load(const struct snapshot_set *set, int64_t step, const struct state *into, size_t *missing);

/* Numbers [from, to) of a tensor. */
struct snapshot_span {
    size_t from, to;
};
/* The range of the tensor `name` that one of its ranks has, and its first number; empty: from ==
 * to. `hint` is the approximate index among all tensors. */
struct snapshot_span snapshot_set_span(const struct snapshot_set *set, int64_t step, int rank,
                                       const char *name, int hint, const float **numbers);

#endif
