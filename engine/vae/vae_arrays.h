/* SPDX-License-Identifier: Apache-2.0 */
/* vae_arrays.h - memory for pictures where the kernels run; on a device, released memory is reused
 *
 * A device allocates and frees memory slowly, and waits meanwhile; a picture needs hundreds of arrays of the same
 * sizes. New arrays are uninitialized.
 */
#ifndef ENGINE_VAE_VAE_ARRAYS_H
#define ENGINE_VAE_VAE_ARRAYS_H

#include <stddef.h>

#include "engine/base/err.h"
#include "kernels/kernels.h"

struct vae_arrays;

/* NULL: out of memory. */
struct vae_arrays *vae_arrays_create(const struct kern_ops *ops);
/* Frees it with all its arrays. */
void vae_arrays_destroy(struct vae_arrays *a); /* accepts NULL */

/* n floats; NULL: out of memory, for which vae_arrays_error() is the code. */
float *vae_arrays_new(struct vae_arrays *a, size_t n);
void vae_arrays_drop(struct vae_arrays *a, float *p); /* accepts NULL */
/* Space for n floats, keeping the first `keep`; NULL: out of memory, and p is unchanged. */
float *vae_arrays_grow(struct vae_arrays *a, float *p, size_t keep, size_t n);
/* Like memmove(). */
void vae_arrays_move(const struct vae_arrays *a, float *to, const float *from, size_t n);
/* A copy of host memory: on the CPU the memory itself, which vae_arrays_drop_input() leaves alone. */
const float *vae_arrays_input(struct vae_arrays *a, const float *host, size_t n);
void vae_arrays_drop_input(struct vae_arrays *a, const float *p);
/* Returns unused memory to the device. */
void vae_arrays_trim(struct vae_arrays *a);
enum err_code vae_arrays_error(const struct vae_arrays *a);

#endif
