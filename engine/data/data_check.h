/* SPDX-License-Identifier: Apache-2.0 */
/* data_check.h - read all training data once and report every error
 *
 * A run stops at the first picture that it cannot use; this check continues to the last.  An error
 * is data that would stop a run or corrupt the model (a number that is not finite).  A
 * notice is data that a run accepts but that may be a mistake: an empty caption, or one
 * longer than the limit, a picture that would be enlarged, the same file twice.
 */
#ifndef ENGINE_DATA_DATA_CHECK_H
#define ENGINE_DATA_DATA_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct train_spec;

struct data_check {
    int64_t samples, bytes; /* number read */
    int64_t errors, notices;
};

typedef void (*data_check_fn)(void *arg, bool error, const char *where, const char *what);

/* Fails only if nothing can be read at all; reports all other errors. */
int data_check_run(struct data_check *out, const struct train_spec *s, data_check_fn tell, void *arg, struct err *err);

#endif
