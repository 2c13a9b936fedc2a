/* SPDX-License-Identifier: Apache-2.0 */
/* main_program.h - which processes of a command are asked to end
 *
 * Pure: no clock, no I/O.
 * The main program is the first descendant that is not a shell; of a pipeline each member, except filters (tee, grep
 * and so on), whose end would break the pipe of the others while they save. Not its children: a script whose DataLoader
 * workers end first crashes in the middle of its save.
 */
#ifndef AGENT_RANKS_MAIN_PROGRAM_H
#define AGENT_RANKS_MAIN_PROGRAM_H

#include <stdbool.h>

#include "agent/os/process_tree.h"

/* Lists the main programs among n processes, parents before their children; names[i] is the base name
 * of the executable of all[i].  Returns how
 * many: 0 if there are only shells. */
int main_program_list(const struct process_tree_member *all, const char *const *names, int n, int64_t *out, int most);

/* The shells above the main programs, or of a command that has nothing else. */
int main_program_shells(const struct process_tree_member *all, const char *const *names, int n, int64_t *out, int most);

#endif
