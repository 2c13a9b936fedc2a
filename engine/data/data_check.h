/* SPDX-License-Identifier: Apache-2.0 */
/* data_check.h - read all training data once and report every error
 *
 * A run stops at the first picture that it cannot use; this check continues to the last, and reads each with the same
 * function as a run (collection_picture()), including those of train.prior.path. An error is data that would stop a run
 * or corrupt the model (a number that is not finite). A notice is data that a run accepts but that may be a mistake: an
 * empty caption, or one longer than the limit, a picture that would be enlarged, the same file twice.
 */
#ifndef ENGINE_DATA_DATA_CHECK_H
#define ENGINE_DATA_DATA_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct train_spec;

struct data_check {
    int64_t samples, prior; /* number read, of data and of train.prior.path */
    int64_t bytes, errors, notices; /* of both */
};

typedef void (*data_check_fn)(void *arg, bool error, const char *where, const char *what);

/* `factor`: pixels per latent of the autoencoder that encodes the pictures; 0: there is none (dct+hash, features). Fails
 * only if nothing can be read at all; reports all other errors. */
int data_check_run(struct data_check *out, const struct train_spec *s, int factor, data_check_fn tell, void *arg,
                   struct err *err);

#endif
