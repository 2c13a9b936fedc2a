/* SPDX-License-Identifier: Apache-2.0 */
/* batch_report.h - what a run takes from its buckets, told before it begins */
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
    int64_t               leftover; /* samples that do not fill a batch of an epoch: carried */
    int64_t               repeats;  /* how often a batch may hold a sample; 1 unless the bucket is
                                       smaller than the batch */
};

struct batch_report {
    int                 batch, buckets;
    int64_t             samples, steps;
    int64_t             per_epoch, leftover; /* batches of the first epoch, and what is carried */
    struct batch_share *share;               /* of each bucket */
};

int batch_report_make(struct batch_report *out, const struct dataset *d, const struct train_spec *s,
                      struct err *err);
void batch_report_free(struct batch_report *r);

/* Lines for people. */
void batch_report_print(const struct batch_report *r, FILE *to);
/* samples, batches_per_epoch, leftover_per_epoch, buckets, warnings; a new reference or NULL. */
json_t *batch_report_json(const struct batch_report *r);

#endif
