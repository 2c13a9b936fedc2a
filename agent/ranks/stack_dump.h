/* SPDX-License-Identifier: Apache-2.0 */
/* stack_dump.h - ends the processes of a hung rank so that they print their stacks first
 *
 * Python prints the stacks of all its threads on SIGABRT (PYTHONFAULTHANDLER=1, which
 * agent/ranks/launch_env.h sets for commands), and ends. Which signal a process gets:
 *
 *   catches SIGTERM                      SIGTERM: it may want to save
 *   else catches SIGABRT                 SIGABRT
 *   else is a shell, or has children     none: it would end before they do
 *   else                                 SIGTERM
 *
 * The last call sends SIGABRT to all remaining processes that catch it; SIGKILL follows. Descendants of an aborted
 * process (workers of a DataLoader) are left to that process. No core file is written. Processes are aborted one after
 * the other, each after a line with its rank ($RANK), so the workers of torchrun can be told apart.
 */
#ifndef AGENT_RANKS_STACK_DUMP_H
#define AGENT_RANKS_STACK_DUMP_H

#include <stdbool.h>
#include <stdint.h>

/* root: the pid of the rank. */
void stack_dump_end(int64_t root, bool last);

#endif
