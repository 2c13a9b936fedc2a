/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_disk.h - sqlite's files on a disk that fails, fills up and is left in the middle of a write
 *
 * A VFS: the bytes are in real files (on a tmpfs), so that renames and copies of the programs work as ever; locks and
 * the shared memory of a write-ahead log belong to the virtual process that opened the file, and end with it.
 */
#ifndef TESTS_SIM_VIRTUAL_DISK_H
#define TESTS_SIM_VIRTUAL_DISK_H

#include <stdbool.h>

enum disk_call { DISK_WRITE, DISK_SYNC, DISK_TRUNCATE };

/* What a call does: DISK_DIES: the program is killed before it (a write: after half of it). */
enum disk_answer { DISK_WORKS, DISK_NO_ROOM, DISK_FAILS, DISK_DIES };

/* Becomes the VFS that sqlite uses. `ask` decides about each call; NULL: all work. */
void virtual_disk_open(enum disk_answer (*ask)(enum disk_call call), void (*die)(void));

/* The machine stops: what was written since the last sync is on the disk or not, drawn from the seed for each write. All
 * processes must have ended. */
void virtual_disk_power_cut(void);

/* A process has ended: its locks are gone. */
struct sim_process;
void virtual_disk_left(const struct sim_process *p);

#endif
