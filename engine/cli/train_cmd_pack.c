/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_pack.c - jobctl-train pack: encode the training data in advance, describe the pack */
#include <jansson.h>
#include <stdio.h>

#include "engine/cli/train_cmd.h"
#include "engine/contract/err.h"
#include "engine/contract/exit_code.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"

int train_cmd_pack(int argc, char **argv)
{
    const char *file = NULL, *cache = "cache";
    const struct train_cmd_option options[] = {
        {.name = "--spec", .value = &file, .required = true},
        {.name = "--cache", .value = &cache},
        {.name = NULL},
    };
    struct err err = {0};
    struct train_spec spec;
    struct dataset *data = NULL;
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    json_t *job = train_cmd_load_spec(file, &err);
    if (job && train_spec_parse(&spec, job, &err) == 0 &&
        dataset_open(&data, &spec, cache, NULL, NULL, &err) == 0) {
        struct dataset_shape s = dataset_shape(data);
        printf("%s: %s, %lld samples, latents %d x %d x %d, captions %d x %d, %s\n", dataset_path(data),
               dataset_packed(data) == PACK_FOUND ? "up to date" : "packed", (long long)s.samples, s.channels, s.height,
               s.width, s.words, s.caption_channels, dataset_digest(data));
    }
    dataset_close(data);
    json_decref(job);
    return err.code ? train_cmd_fail("pack", &err) : EXIT_DONE;
}
