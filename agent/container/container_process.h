/* SPDX-License-Identifier: Apache-2.0 */
/* container_process.h - the first process in a container, as this machine numbers it
 *
 * By the variable that only the processes in the container have, not the runtime that started it; of this user alone.
 */
#ifndef AGENT_CONTAINER_CONTAINER_PROCESS_H
#define AGENT_CONTAINER_CONTAINER_PROCESS_H

#include <sys/types.h>

#define CONTAINER_MARK "JOBCTL_CONTAINER" /* = the name of the container */

/* Its pid, held by *pidfd, which the caller closes; 0: not there (yet), or not visible here. */
pid_t container_process_find(const char *name, int *pidfd);

#endif
