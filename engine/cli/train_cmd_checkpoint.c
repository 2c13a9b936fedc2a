/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_checkpoint.c - the checkpoint that a command names, and the frozen weights below its adapters */
#include <stdio.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/cli/train_cmd.h"
#include "engine/contract/err.h"
#include "engine/contract/field.h"
#include "engine/contract/train_spec.h"
#include "engine/model/model.h"
#include "engine/weights/pretrained.h"

int train_cmd_find_checkpoint(char *path, const char *checkpoint, const char *dir, struct err *err)
{
    if (checkpoint) {
        if (snprintf(path, CHECKPOINT_PATH, "%s", checkpoint) >= CHECKPOINT_PATH)
            return err_set(err, ERR_USAGE, "the path is too long: %.200s", checkpoint);
        return 0;
    }
    if (!dir)
        return err_set(err, ERR_USAGE, "name a checkpoint with --checkpoint, or a directory of "
                                       "checkpoints with --dir");
    int64_t newest = checkpoint_newest_step(dir); /* reads only, moves nothing */
    if (newest < 0)
        return err_set(err, ERR_USAGE, "%s holds no checkpoint", dir);
    if (snprintf(path, CHECKPOINT_PATH, "%s/step-%08lld", dir, (long long)newest) >= CHECKPOINT_PATH)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    return 0;
}

int train_cmd_read_base(struct model *m, struct pretrained *p, const struct train_spec *spec, const json_t *notes,
                        struct err *err)
{
    char digest[MANIFEST_DIGEST];
    const char *want = field_text(notes, "base_digest");
    if (pretrained_freeze(p, m, digest, err) < 0)
        return -1;
    if (strcmp(digest, want) == 0)
        return 0;
    return err_set(err, ERR_USAGE, "train.model.weights: %s has other numbers (%s) than the adapters were trained on (%s)",
                   spec->weights, digest, want[0] ? want : "none");
}
