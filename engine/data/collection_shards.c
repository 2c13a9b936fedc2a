/* SPDX-License-Identifier: Apache-2.0 */
/* collection_shards.c - samples in tar files, as WebDataset keeps them */
#include "engine/contract/err.h"
#include "engine/data/collection_internal.h"

static int no(struct collection_sample *s, const struct collection *c, int64_t i, struct err *err)
{
    (void)s, (void)c, (void)i;
    return err_set(err, ERR_DATA, "tar shards are not read yet");
}
static int no_load(struct collection_bytes *s, const struct collection *c, int64_t i, struct err *err)
{
    (void)s, (void)c, (void)i;
    return err_set(err, ERR_DATA, "tar shards are not read yet");
}
const struct collection_kind collection_shards_kind = {no, no_load, collection_file_side};
int collection_open_shards(struct collection *c, struct err *err)
{
    return err_set(err, ERR_DATA, "%s: tar shards are not read yet", c->path);
}
