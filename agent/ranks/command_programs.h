/* SPDX-License-Identifier: Apache-2.0 */
/* command_programs.h - the main programs of a running command, or its shells (main_program.h) */
#ifndef AGENT_RANKS_COMMAND_PROGRAMS_H
#define AGENT_RANKS_COMMAND_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

/* Lists at most `most` pids of the process tree of `root`; returns how many. */
int command_programs_list(int64_t root, bool shells, int64_t *out, int most);

#endif
