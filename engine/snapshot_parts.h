/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_parts.h - what is where in a memory file; snapshot*.c only
 *
 *   0                       struct snapshot_head
 *   SNAPSHOT_ROWS           struct snapshot_row [rows]
 *   copy_at[i]              SNAPSHOT_NOTES bytes of notes, then the numbers in the order of rows
 *
 * Readers believe nothing: the file may be of a rank that died while it made it.
 */
#ifndef ENGINE_SNAPSHOT_PARTS_H
#define ENGINE_SNAPSHOT_PARTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/snapshot.h"

#define SNAPSHOT_MAGIC UINT64_C(0x31504e5354434a00) /* with the version in it */

enum { SNAPSHOT_COPIES = 2, SNAPSHOT_ROWS = 4096, SNAPSHOT_CHUNK = 16384 /* floats */ };

struct snapshot_copy {
    _Atomic int64_t step;     /* -1: being written, or never */
    uint64_t        checksum; /* of the step, the notes and the numbers */
    uint64_t        notes;    /* bytes */
    uint64_t        at;       /* in the file */
};

struct snapshot_head {
    _Atomic uint64_t     magic; /* written last */
    uint64_t             layout, rank, world, rows, floats, size;
    struct snapshot_copy copy[SNAPSHOT_COPIES];
};
_Static_assert(sizeof(struct snapshot_head) <= SNAPSHOT_ROWS, "the head has a page");

/* Numbers [from, to) of a tensor, at `at` floats behind a copy's notes. */
struct snapshot_row {
    char     name[SNAPSHOT_NAME];
    uint64_t from, to, at;
};

/* The checksum of a copy, from the digests of its chunks of SNAPSHOT_CHUNK floats; the last one is
 * of the notes. */
uint64_t snapshot_checksum(int64_t step, const uint64_t *chunks, size_t n);

#endif
