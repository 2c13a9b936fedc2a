/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h - the state of a run in memory that outlives its ranks
 *
 * The agent makes one memory file per rank and generation and keeps it open, so that what a rank
 * wrote stays when the rank is killed at any instruction.  After each step a rank copies the
 * ranges that it saves (state.h) into one of two copies in turn; the copy's checksum and step
 * are written last.  The ranks of the next generation, however many, find the newest step that
 * all ranks of the last one have whole, and go on from it.
 *
 * A copy of step k takes the place of that of step k - 2.  Its writer has the sum of all
 * ranks' gradients of step k by then, so all have finished step k - 1: at every moment there
 * is a step that all have.
 *
 * Layout of a file: struct snapshot_head, a row per range, then the two copies.
 */
#ifndef ENGINE_SNAPSHOT_H
#define ENGINE_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct state;

enum { SNAPSHOT_NOTES = 65536, SNAPSHOT_NAME = 128, SNAPSHOT_RANKS = 128 };

/* --- the agent's: memory, and whether it is of use */

/* A descriptor of an empty memory file, closed on exec; -1: the system has none. */
int snapshot_make(struct err *err);

/* The newest step that all n say they have, or -1. Looks at heads only. */
int64_t snapshot_claims(const int *fds, int n);

/* --- a rank writes */

struct snapshot;

/* What identifies the run: ranks of another one do not go on from it. */
struct snapshot_run {
    uint64_t layout;  /* layout_digest() */
    int      rank, world;
};

/* Makes `fd` (kept, not owned) as large as two copies of what `s` saves; `s` is kept. */
int snapshot_create(struct snapshot **out, int fd, const struct snapshot_run *run,
                    const struct state *s, struct err *err);
void snapshot_destroy(struct snapshot *p);

/* One copy: the numbers as they are now, and at most SNAPSHOT_NOTES bytes of notes. */
void snapshot_save(struct snapshot *p, int64_t step, const void *notes, size_t size);

/* The same in two parts, where the numbers are in another memory: each piece of them is asked for, and
 * when all have come the copy is sealed. bring() returns 0, or -1: then there is no copy. */
typedef int (*snapshot_bring_fn)(void *arg, float *to, const float *from, size_t n);
int snapshot_bring(struct snapshot *p, int64_t step, snapshot_bring_fn bring, void *arg);
void snapshot_seal(struct snapshot *p, int64_t step, const void *notes, size_t size);
/* Where pieces are brought to. */
void *snapshot_memory(const struct snapshot *p, size_t *bytes);

/* Bytes of memory that it may take. */
int64_t snapshot_bytes(const struct state *s);

/* --- a rank of a later generation reads */

struct snapshot_set;

/* All n files of a generation that is dead. NULL where there is nothing to read: no failure. */
int snapshot_set_open(struct snapshot_set **out, const int *fds, int n, struct err *err);
void snapshot_set_close(struct snapshot_set *set);

/* The newest step that all its ranks have whole (checksums are compared), or -1. */
int64_t snapshot_set_step(const struct snapshot_set *set, uint64_t layout);

/* Of that step: the notes of rank 0, valid until the set is closed; and the numbers, for what `into`
 * holds. A failure may have filled a part of it. */
const void *snapshot_set_notes(const struct snapshot_set *set, int64_t step, size_t *size);
int snapshot_set_load(const struct snapshot_set *set, int64_t step, const struct state *into,
                      struct err *err);

#endif
