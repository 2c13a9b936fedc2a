/* SPDX-License-Identifier: Apache-2.0 */
/* sample_audit.h - does a sample log show every sample exactly once an epoch?
 *
 * Nothing is taken from the plan of batches: what is counted is what the ranks wrote down.
 * Every step between the first and the last must have `batch` samples, all of one bucket;
 * none may come twice in an epoch; and an epoch that its bucket has left behind must have
 * all of the bucket's samples.
 */
#ifndef ENGINE_DATA_SAMPLE_AUDIT_H
#define ENGINE_DATA_SAMPLE_AUDIT_H

#include <stdint.h>

#include "engine/data/dataset.h"

struct err;

struct sample_audit {
    int64_t first, last;  /* steps; 0, 0: the log is empty */
    int64_t samples;      /* in all lines */
    int64_t epochs;       /* that are complete in every bucket */
    int     sizes;        /* different numbers of ranks */
    int64_t wrong;        /* what does not add up; each was told */
};

typedef void (*sample_audit_bad_fn)(void *arg, const char *where, const char *what);

/* `dir` is a directory of engine/data/sample_log.h. What is wrong is told to `bad`, not more than
 * some dozen times. */
int sample_audit_make(struct sample_audit *out, const char *dir, const struct dataset *d, int batch,
                      sample_audit_bad_fn bad, void *arg, struct err *err);

#endif
