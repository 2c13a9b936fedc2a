/* SPDX-License-Identifier: Apache-2.0 */
/* double_buffer.h - double-buffered state: an update reads one image and writes the other
 *
 * CPU only.  Weights and optimizer state live in the images of a memory file (snapshot.h), so that
 * the update of a step is its snapshot, without a copy: each range is updated and digested while it
 * is in a core's cache, and the image is sealed when all ranges are done.  The previous image stays
 * unchanged until the next update overwrites it.
 *
 * An image can be held: a checkpoint is written from it while steps continue in the two others.  A
 * third image has memory only during that time.
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

/* Moves the state of `p`, which loses its contents, into `fd` (not owned), or into a new file if that is -1.
 * params_update() writes images from now on. `p` must outlive it, and is unusable afterwards. */
int double_buffer_create(struct double_buffer **out, int fd, const struct snapshot_run *run,
                         struct params *p, struct err *err);
void double_buffer_destroy(struct double_buffer *t);

/* Does each update write another image than the last, to be sealed? Initially false. */
void double_buffer_keep(struct double_buffer *t, bool keep);

/* The last update produced the image of step `step`. Does nothing unless images are kept. */
void double_buffer_seal(struct double_buffer *t, int64_t step, const void *notes, size_t size);

/* Holds the current image: no update writes to it until its release. One at a time. */
void double_buffer_hold(struct double_buffer *t);
void double_buffer_release(struct double_buffer *t);

/* Size of one more image in bytes. */
int64_t double_buffer_image_bytes(const struct double_buffer *t);

#endif
