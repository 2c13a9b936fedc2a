/* SPDX-License-Identifier: Apache-2.0 */
/* shell_trap.h - makes bash name the line of a text at which `set -e` ends it
 *
 * Pure: no clock, no I/O.
 * Many commands fail without a message: `((n++))`, `grep -q`, `[ -f x ]`. A trap of ERR, set before the first command
 * on its line, prints SHELL_TRAP_HEAD with the line. A last line that is a simple command takes the trap away again, so
 * that bash still replaces itself by that program, which then has the pid of the rank.
 */
#ifndef AGENT_OS_SHELL_TRAP_H
#define AGENT_OS_SHELL_TRAP_H

#include <stdbool.h>
#include <stddef.h>

/* "--- line 3 of the command ended with code 1 ---" */
#define SHELL_TRAP_HEAD "--- line "
#define SHELL_TRAP_SAYS " of the command ended with code "

/* Writes the text with its trap; false: none, for a single command, a here-document, or a text that does not fit. */
bool shell_trap(char *out, size_t size, const char *text);

#endif
