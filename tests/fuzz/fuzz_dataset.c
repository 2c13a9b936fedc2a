/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_dataset.c - a shard of features that somebody else wrote, with any number of shapes
 *
 * What is accepted has buckets that count all samples without a gap, each of them with a
 * sample that can be read; a plan of batches over them takes only samples that are there.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/contract/train_spec.h"
#include "engine/data/batch_plan.h"
#include "engine/data/dataset.h"
#include "tests/fuzz/target.h"

enum { FLOATS_MOST = 1 << 16, BUCKETS_MOST = 256, SAMPLES_MOST = 1 << 12 };

static void read_samples(const struct dataset *d, struct dataset_shape s)
{
    size_t row = (size_t)s.words * (size_t)s.caption_channels;
    size_t latent = (size_t)s.channels * (size_t)s.height * (size_t)s.width;
    if (latent > FLOATS_MOST || row > FLOATS_MOST || s.samples > SAMPLES_MOST)
        return;
    float *x = calloc(latent + row + (size_t)s.words, sizeof(*x));
    struct err err = {0};
    for (int64_t i = 0; x && i < s.samples; i++) {
        struct dataset_bucket b = dataset_bucket_of(d, i);
        PROMISE(i >= b.first && i < b.first + b.samples);
        PROMISE((size_t)b.height * (size_t)b.width <= (size_t)s.height * (size_t)s.width);
        PROMISE(dataset_get(d, i, x, x + latent, x + latent + row, &err) == 0 ||
                err.code != ERR_NONE);
        err = (struct err){0};
    }
    free(x);
}

static void plan_batches(const struct dataset *d, struct dataset_shape s)
{
    int64_t sizes[BUCKETS_MOST];
    struct batch_plan *p;
    struct batch_slot slots[3];
    struct err err = {0};
    if (s.buckets > BUCKETS_MOST || s.samples > SAMPLES_MOST)
        return;
    for (int b = 0; b < s.buckets; b++)
        sizes[b] = dataset_bucket(d, b).samples;
    PROMISE(batch_plan_create(&p, 1, 3, sizes, s.buckets, &err) == 0);
    for (int64_t step = 0; step < 20; step++) {
        struct dataset_bucket b = dataset_bucket(d, batch_plan_at(p, step).bucket);
        batch_plan_slots(p, slots, step, 0, 3);
        for (int i = 0; i < 3; i++)
            PROMISE(slots[i].sample >= b.first && slots[i].sample < b.first + b.samples);
    }
    batch_plan_destroy(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct train_spec s = {.encoders = ENCODERS_FEATURES, .multi_scale = true};
    struct dataset *d;
    struct err err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    PROMISE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(s.data_path, sizeof(s.data_path), "/proc/self/fd/%d", fd);
    if (dataset_open(&d, &s, NULL, NULL, &err) < 0) {
        PROMISE(err.code != ERR_NONE && err.text[0]);
    } else {
        struct dataset_shape shape = dataset_shape(d);
        int64_t next = 0;
        for (int b = 0; b < shape.buckets; b++) {
            PROMISE(dataset_bucket(d, b).first == next && dataset_bucket(d, b).samples > 0);
            next += dataset_bucket(d, b).samples;
        }
        PROMISE(next == shape.samples);
        read_samples(d, shape);
        plan_batches(d, shape);
        dataset_close(d);
    }
    close(fd);
    return 0;
}
