/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.h - disk space of the home that is kept for the removal of jobs
 *
 * A job is removed from the store first, which takes some space. If the disk is full, the file HOME/reserve
 * (RESERVE_BYTES) is deleted for that, and made again once there is space.
 */
#ifndef CONTROLLER_LIFECYCLE_RESERVE_H
#define CONTROLLER_LIFECYCLE_RESERVE_H

#include <stdbool.h>
#include <stddef.h>

struct home;
struct err;

enum { RESERVE_BYTES = 512 * 1024 };

/* Makes the file if it is missing and there is space. Called at each beat. */
void reserve_keep(struct home *h);

/* After `err`: true if the error is a full disk and the reserve was deleted, so that the caller tries again. */
bool reserve_use(struct home *h, const struct err *err);

/* Describes the home's disk, full by `errnum`: its free space, and a command that frees more. */
void reserve_full(char *out, size_t size, const struct home *h, int errnum);

/* If `err` is a full disk: replaces its sentence by this one, and "try again". */
void reserve_explain(const struct home *h, struct err *err);

#endif
