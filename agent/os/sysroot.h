/* SPDX-License-Identifier: Apache-2.0 */
/* sysroot.h - read /proc and /sys, of this machine or of a recording
 *
 * /proc and /sys are read below $JOBCTL_SYSROOT if it is set, so a test can replay any recorded
 * machine. A missing file reads as empty, a missing number as -1 (unknown).
 */
#ifndef AGENT_OS_SYSROOT_H
#define AGENT_OS_SYSROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is a recording in use?  Then this machine must not be queried. */
bool sysroot_replayed(void);

/* The path to open for a file such as "/proc/version". */
void sysroot_path(char *out, size_t size, const char *path);
bool sysroot_has(const char *path);

/* First line without its newline; value of the line that starts with "key", blanks and colons
 * skipped. "" if missing. Both return out. */
const char *sysroot_line(char *out, size_t size, const char *path);
const char *sysroot_value(char *out, size_t size, const char *path, const char *key);

/* The number at the start of the first line, or -1. */
int64_t sysroot_number(const char *path);

/* Calls back with each name in a directory, sorted, without dot files; false ends the walk. */
void sysroot_each(const char *path, bool (*name)(void *arg, const char *name), void *arg);

#endif
