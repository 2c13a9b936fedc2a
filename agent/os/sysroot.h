/* SPDX-License-Identifier: Apache-2.0 */
/* sysroot.h - the files in which a kernel tells of its machine, here or recorded elsewhere
 *
 * /proc and /sys are read below $JOBCTL_SYSROOT, where that is set: so a whole
 * machine can be replayed in a test, on a machine that is nothing like it.
 * A file that is not there reads as empty, a number in it as -1: unknown.
 */
#ifndef AGENT_OS_SYSROOT_H
#define AGENT_OS_SYSROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is it a machine that was recorded?  Then nothing may be asked of the one we run on. */
bool sysroot_replayed(void);

/* Where a file of the machine is: "/proc/version" to its path here. */
void sysroot_path(char *out, size_t size, const char *path);
bool sysroot_has(const char *path);

/* The first line without its newline; the value behind "key" at the start of a line, blanks and
 * colons skipped; "" where there is none. Both return out. */
const char *sysroot_line(char *out, size_t size, const char *path);
const char *sysroot_value(char *out, size_t size, const char *path, const char *key);

/* The number that the first line begins with, or -1. */
int64_t sysroot_number(const char *path);

/* Each name in a directory, sorted, without those that begin with a dot; false ends the walk. */
void sysroot_each(const char *path, bool (*name)(void *arg, const char *name), void *arg);

#endif
