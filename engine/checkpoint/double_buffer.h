/* SPDX-License-Identifier: Apache-2.0 */
/* double_buffer.h - the state of a run in images that take turns: an update reads one and writes
 * another
 *
 * On the CPU.  Weights and optimizer state live in the images of a memory file (snapshot.h), so that the
 * update of a step is the snapshot of it, without a copy: a range is updated and digested while it is in a
 * core's cache, and when all are, the image is sealed.  The image before it stays as it was until
 * the next update writes there.
 *
 * An image can be held: a checkpoint is written from it while steps go on in the two others.  A third one has
 * memory only meanwhile.
 */
#ifndef ENGINE_CHECKPOINT_DOUBLE_BUFFER_H
#define ENGINE_CHECKPOINT_DOUBLE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct params;
struct snapshot_run;
struct double_buffer;

/* Moves the state of `p`, of which nothing is kept, into `fd` (not owned), or into a file of its own
 * where that is -1. `p` outlives it, and is of no use afterwards. */
int double_buffer_create(struct double_buffer **out, int fd, const struct snapshot_run *run,
                         struct params *p, struct err *err);
void double_buffer_destroy(struct double_buffer *t);

/* Whether each update goes to another image than the last, to be sealed; at first it does not. */
void double_buffer_keep(struct double_buffer *t, bool keep);

/* params_update(), and the image that it has made is step `step`. Unless they are kept, sealing does nothing. */
int double_buffer_update(struct double_buffer *t, double lr, double grad_norm, struct err *err);
void double_buffer_seal(struct double_buffer *t, int64_t step, const void *notes, size_t size);

/* The image of now is not written to until it is let go. One at a time. */
void double_buffer_hold(struct double_buffer *t);
void double_buffer_release(struct double_buffer *t);

/* Bytes that an image more takes. */
int64_t double_buffer_image_bytes(const struct double_buffer *t);

#endif
