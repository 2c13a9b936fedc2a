/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_internal.h - layout of a memory file; shared by snapshot*.c only
 *
 *   0                       struct snapshot_head
 *   SNAPSHOT_ROWS           struct snapshot_row [rows]
 *   copy_at[i]              SNAPSHOT_NOTES bytes of notes, then the numbers in the order of rows
 *
 * Readers check every value: the rank may have died while it wrote the file.
 */
#ifndef ENGINE_CHECKPOINT_SNAPSHOT_INTERNAL_H
#define ENGINE_CHECKPOINT_SNAPSHOT_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/checkpoint/snapshot.h"
#include "engine/optim/optim.h"

#define SNAPSHOT_MAGIC UINT64_C(0x32504e5354434a00) /* includes the version */

enum {
    SNAPSHOT_COPIES = SNAPSHOT_IMAGES, /* at most */
    SNAPSHOT_ROWS = 4096,
    SNAPSHOT_PAGE = 4096,
    SNAPSHOT_CHUNK = OPTIM_PIECE
};

struct snapshot_copy {
    _Atomic int64_t step;     /* -1: being written, or never written */
    uint64_t        checksum; /* of the step, the notes and the numbers */
    uint64_t        notes;    /* bytes */
    uint64_t        at;       /* offset in the file */
};

struct snapshot_head {
    _Atomic uint64_t     magic; /* written last */
    uint64_t             layout, rank, world, rows, floats, size;
    struct snapshot_copy copy[SNAPSHOT_COPIES];
    uint64_t             copies; /* 2, or 3 */
};
_Static_assert(sizeof(struct snapshot_head) <= SNAPSHOT_ROWS, "the head has a page");

/* Numbers [from, to) of a tensor, `at` floats after a copy's notes. */
struct snapshot_row {
    char     name[SNAPSHOT_NAME];
    uint64_t from, to, at;
};

/* A chunk of the state, for the writer. */
struct snapshot_piece {
    struct snapshot_chunk is;
    const float          *there; /* in device memory, or NULL: the state lives in the file */
    size_t                at;    /* offset in a copy's numbers */
};

/* Bytes of an image's private pages. */
struct snapshot_own {
    size_t from, to;
};

struct snapshot {
    struct snapshot_head  *head;
    size_t                 size;
    int                    fd;
    struct snapshot_piece *piece;
    size_t                 pieces;
    uint64_t              *digest; /* [pieces + 1] */
    struct snapshot_own   *own;
    int                    owns;
    int                    turn; /* the copy of device memory that was begun last: 0 or 1 */
};

static inline size_t snapshot_pages(size_t bytes)
{
    return (bytes + SNAPSHOT_PAGE - 1) / SNAPSHOT_PAGE * SNAPSHOT_PAGE;
}

/* The checksum of a copy, from the digests of its chunks of SNAPSHOT_CHUNK floats; the last one is
 * of the notes. */
uint64_t snapshot_checksum(int64_t step, const uint64_t *chunks, size_t n);

#endif
