/* SPDX-License-Identifier: Apache-2.0 */
/* batch_report.h - report of a run's buckets and batches, before it starts */
#ifndef ENGINE_DATA_BATCH_REPORT_H
#define ENGINE_DATA_BATCH_REPORT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/data/dataset.h"

struct err;
struct train_spec;

struct batch_share {
    struct dataset_bucket bucket;
    int64_t               batches;  /* in the whole run */
    int64_t               leftover; /* samples left over at the end of an epoch: carried */
    int64_t               repeats;  /* most times that a batch holds a sample; 1 unless the bucket
                                       is smaller than the batch */
};

struct batch_report {
    int                 batch, buckets;
    int64_t             samples, steps;
    int64_t             per_epoch, leftover; /* batches of the first epoch, samples carried */
    struct batch_share *share;               /* of each bucket */
};

int batch_report_make(struct batch_report *out, const struct dataset *d, const struct train_spec *s, struct err *err);
void batch_report_free(struct batch_report *r);

/* Lines of text. */
void batch_report_print(const struct batch_report *r, FILE *to);
/* samples, batches_per_epoch, leftover_per_epoch, buckets, warnings; a new reference or NULL. */
json_t *batch_report_json(const struct batch_report *r);

#endif
