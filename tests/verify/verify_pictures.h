/* SPDX-License-Identifier: Apache-2.0 */
/* verify_pictures.h - run pictures of several sizes through a model, one by one
 *
 * A batch of Next-DiT has pictures of different sizes: tensors x1.i (data) and x0.i (noise), t,
 * cap_feats and cap_mask, whose names begin with "in." or "step3.in.".  The authors' code
 * pads them to one size and masks the padding, which changes no result; here each picture
 * is a batch of its own, and their gradients add up to those of the batch, however it
 * was divided into micro-batches there.
 */
#ifndef TESTS_VERIFY_VERIFY_PICTURES_H
#define TESTS_VERIFY_VERIFY_PICTURES_H

#include <stddef.h>

struct err;
struct model;
struct model_config;
struct verify_case_files;
struct verify_pictures;

/* Results of a picture, in host memory; valid until the next call. */
struct verify_picture {
    const float *x_t, *out;  /* [channels, height, width]: t x1 + (1 - t) x0, and the velocity */
    size_t       count;      /* of each */
    size_t       tokens;
};

/* A model as large as the pictures in files->golden require; its weights are unset. */
int verify_pictures_create(struct verify_pictures **out, const struct model_config *cfg,
                           const struct verify_case_files *files, struct err *err);
void verify_pictures_destroy(struct verify_pictures *p);
struct model *verify_pictures_model(struct verify_pictures *p);

/* Selects the batch of the next passes. Zeroes the gradients. `files` and `prefix` must outlive
 * them. */
int verify_pictures_begin(struct verify_pictures *p, const struct verify_case_files *files,
                          const char *prefix, struct err *err);
int verify_pictures_len(const struct verify_pictures *p);
int verify_pictures_forward(struct verify_pictures *p, int i, struct verify_picture *seen, struct err *err);
/* After forward of a picture: its loss, mean (x1 - x0 - out)^2, and its part of the gradients of
 * the batch's mean loss. */
int verify_pictures_backward(struct verify_pictures *p, double *loss, struct err *err);

#endif
