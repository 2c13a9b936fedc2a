/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.h - room on the disk of the home that is kept for the removal of jobs
 *
 * A job is removed from the store first, which takes some room; HOME/reserve, of RESERVE_BYTES, is given up for it when
 * the disk is full, and made again when there is room.
 */
#ifndef CONTROLLER_DAEMON_RESERVE_H
#define CONTROLLER_DAEMON_RESERVE_H

#include <stdbool.h>

struct daemon;
struct err;

enum { RESERVE_BYTES = 512 * 1024 };

/* Makes it if it is not there; without room, nothing. Called at each beat. */
void reserve_keep(struct daemon *d);

/* After `err`: true if that says that the disk is full, and the reserve has been given up for another try. */
bool reserve_use(struct daemon *d, const struct err *err);

/* If `err` says that the disk is full: its sentence becomes how full the disk of the home is and what frees room. */
void reserve_explain(const struct daemon *d, struct err *err);

#endif
