/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_room.c - bytes that a checkpoint needs, and that its disk has free; see checkpoint.h */
#include <sys/statvfs.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/optim/state.h"

enum { SMALL_FILES = 1 << 16, HEADER_ROW = 256 }; /* state.json, manifest.json, trust; a tensor in a header */

int64_t checkpoint_need(const struct state *s)
{
    int64_t bytes = SMALL_FILES;
    for (int i = 0; i < s->len; i++)
        bytes += (int64_t)(s->part[i].count * sizeof(float)) + HEADER_ROW;
    return bytes;
}

int64_t checkpoint_free(const char *root)
{
    struct statvfs v;
    return statvfs(root, &v) == 0 ? (int64_t)(v.f_bavail * v.f_frsize) : -1;
}
