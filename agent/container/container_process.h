/* SPDX-License-Identifier: Apache-2.0 */
/* container_process.h - the first process in a container, by its pid on this machine
 *
 * Found by a variable that only processes in the container have, not the runtime that started it; only this user's
 * processes.
 */
#ifndef AGENT_CONTAINER_CONTAINER_PROCESS_H
#define AGENT_CONTAINER_CONTAINER_PROCESS_H

#include <sys/types.h>

#define CONTAINER_MARK "JOBCTL_CONTAINER" /* = the name of the container */

/* Its pid, pinned by *pidfd, which the caller closes; 0: it does not exist (yet), or is not visible here. */
pid_t container_process_find(const char *name, int *pidfd);

#endif
