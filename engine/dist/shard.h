/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - which numbers of a layout each rank keeps: a pure function of layout and world
 *
 * Pure: no clock, no I/O.
 * The layout's units (a block of the model; all before the blocks; all after) are
 * each split into one part per rank, so that a unit can be gathered and reduced when it is
 * needed.  Split evenly, a part is the rank's dist_slice() of the unit; split at tensors, a rank
 * has whole ones, for an optimizer that needs whole tensors.  Buffers are in no part: every rank
 * has all of them.
 *
 * A rank's parts, and then the buffers, are contiguous in its packed memory.  With one
 * rank the packed memory is the block itself.
 */
#ifndef ENGINE_DIST_SHARD_H
#define ENGINE_DIST_SHARD_H

#include <stddef.h>

struct err;
struct layout;
struct tensor;

enum shard_cut { SHARD_EVEN, SHARD_TENSORS };

/* How several ranks hold a run's state: each has everything; each has its part of the optimizer state; each has its
 * part of everything and gathers a unit when it is needed. */
enum sharing { SHARING_DDP, SHARING_ZERO1, SHARING_FSDP };

struct shard_part {
    size_t from, to;  /* numbers of the layout's block */
    size_t at;        /* offset in the rank's packed memory */
};

struct shard;

/* A rank of a shard, and so its numbers. */
struct shard_holder {
    const struct shard *shard;
    int                 rank;
};

int shard_create(struct shard **out, const struct layout *l, int world, enum shard_cut cut, struct err *err);
void shard_destroy(struct shard *s);

int shard_world(const struct shard *s);
enum shard_cut shard_cut(const struct shard *s);
int shard_units(const struct shard *s);
/* The whole unit: at is 0. */
struct shard_part shard_unit(const struct shard *s, int unit);
/* The part of a rank; from == to if it is empty. */
struct shard_part shard_part(const struct shard *s, int unit, int rank);
struct shard_part shard_held(struct shard_holder h, int unit);
/* Numbers of a rank's packed memory, and of the widest unit. */
size_t shard_floats(const struct shard *s, int rank);
size_t shard_widest(const struct shard *s);

/* The numbers [*from, *to) of a tensor, counted from its first, that a rank has (of a buffer: all),
 * and the offset of the first of them in its packed memory. */
void shard_of_tensor(struct shard_holder h, const struct tensor *t, size_t *from, size_t *to, size_t *at);

#endif
