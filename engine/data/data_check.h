/* SPDX-License-Identifier: Apache-2.0 */
/* data_check.h - read all data once and tell of everything that is wrong with it
 *
 * A run stops at the first picture that it cannot use; this goes on to the last.  An error
 * is what a run would end with, or what would poison it (a number that is not finite).  A
 * notice is what it would take, and somebody may not have meant: a caption that is empty
 * or longer than what is kept of it, a picture that would be enlarged, the same file twice.
 */
#ifndef ENGINE_DATA_DATA_CHECK_H
#define ENGINE_DATA_DATA_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct train_spec;

struct data_check {
    int64_t samples, bytes; /* read */
    int64_t errors, notices;
};

typedef void (*data_check_fn)(void *arg, bool error, const char *where, const char *what);

/* Fails only where nothing can be read at all; all else is told. */
int data_check_run(struct data_check *out, const struct train_spec *s, data_check_fn tell,
                   void *arg, struct err *err);

#endif
