/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - the state of a process, from /proc */
#ifndef AGENT_OS_PROCESS_H
#define AGENT_OS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text of /proc/PID/NAME in `out`, "" when unreadable; returns `out`. */
const char *process_text(char *out, size_t size, int64_t pid, const char *name);

/* The base name of its executable, for a script its interpreter's; "" when unreadable. */
void process_program(char *out, size_t size, int64_t pid);

/* The state letter of /proc/PID/stat ('R', 'D', ...), or 0 when unreadable. */
char process_state(int64_t pid);

/* The signals that it catches: bit SIGNO - 1; 0 when unreadable. */
uint64_t process_caught(int64_t pid);

/* A variable of the environment with which it was started, "" if unset or unreadable; false: none. */
bool process_variable(char *out, size_t size, int64_t pid, const char *name);

#endif
