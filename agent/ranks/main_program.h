/* SPDX-License-Identifier: Apache-2.0 */
/* main_program.h - which of a command's processes are asked to stop
 *
 * Pure: no clock, no I/O.
 * The main program is the first descendant that is not a shell; in a pipeline, every member except filters (tee, grep
 * and so on), whose end would break the others' pipe while they save. Its children are not included: a script whose
 * DataLoader workers end first crashes in the middle of saving.
 */
#ifndef AGENT_RANKS_MAIN_PROGRAM_H
#define AGENT_RANKS_MAIN_PROGRAM_H

#include <stdbool.h>

#include "agent/os/process_tree.h"

/* Lists the main programs among n processes, parents before their children; names[i] is the base name
 * of the executable of all[i]. Returns the number: 0 if there are only shells. */
int main_program_list(const struct process_tree_member *all, const char *const *names, int n, int64_t *out, int most);

/* The shells above the main programs, or those of a command that runs nothing else. */
int main_program_shells(const struct process_tree_member *all, const char *const *names, int n, int64_t *out, int most);

#endif
