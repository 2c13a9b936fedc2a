/* SPDX-License-Identifier: Apache-2.0 */
/* sample_audit.h - check that a sample log has every sample exactly once per epoch
 *
 * The check is independent of the batch plan: it counts the samples that the ranks logged.
 * Every step between the first and the last must have `batch` samples, all of one bucket;
 * no sample may come twice in an epoch; and a finished epoch of a bucket must have
 * all of the bucket's samples.
 */
#ifndef ENGINE_DATA_SAMPLE_AUDIT_H
#define ENGINE_DATA_SAMPLE_AUDIT_H

#include <stdint.h>

#include "engine/data/dataset.h"

struct err;

struct sample_audit {
    int64_t first, last;  /* first and last step; 0, 0: the log is empty */
    int64_t samples;      /* in all lines */
    int64_t epochs;       /* epochs complete in every bucket */
    int     sizes;        /* different numbers of ranks */
    int64_t wrong;        /* errors; each was reported */
};

typedef void (*sample_audit_bad_fn)(void *arg, const char *where, const char *what);

/* `dir` is a directory of engine/data/sample_log.h. Errors go to `bad`, at most
 * some dozen. */
int sample_audit_make(struct sample_audit *out, const char *dir, const struct dataset *d, int batch,
                      sample_audit_bad_fn bad, void *arg, struct err *err);

#endif
