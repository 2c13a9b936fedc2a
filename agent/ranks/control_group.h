/* SPDX-License-Identifier: Apache-2.0 */
/* control_group.h - a cgroup (v2) for the ranks of an attempt on a node, where one can be made
 *
 * A process cannot leave its cgroup by a fork, a session or an empty environment: so its members are found even if
 * agent and guardian (guardian.h) are both dead.  Made below the agent's own cgroup, without controllers, if that is
 * permitted: for root, below a systemd user manager, in a container with a writable hierarchy. Where it is not
 * permitted, only this proof is missing.
 *
 * RUN_DIR/cgroup has its path.  A daemon that a rank has started is a member, too; marks of others override it
 * (cleanup_pass.h).
 */
#ifndef AGENT_RANKS_CONTROL_GROUP_H
#define AGENT_RANKS_CONTROL_GROUP_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

enum { CONTROL_GROUP_PATH = 2 * PATH_MAX };

/* From now on a child's control_group_open() informs this process as well, so that both find the group when the run
 * directory is gone or a rank has written into its file. */
void control_group_share(void);

/* A descriptor of the group of this run directory, made if there is none yet; -1: there cannot be one. */
int control_group_open(const char *run_dir);

/* Moves this process to a group; async-signal-safe. */
void control_group_join(int group);

/* A descriptor of the group around the one of a rank, if this process is in one; -1: this process is in none. For a
 * daemon that a rank starts, and that must survive the rank. */
int control_group_outside(void);

/* Its path, or "". */
void control_group_find(char out[CONTROL_GROUP_PATH], const char *run_dir);

/* Its members, at most `most`; -1: unknown. */
int control_group_members(const char *path, pid_t *pids, int most);

/* Kills all members at once, if their number is `members` and no group is below. */
void control_group_kill(const char *path, int members);

/* Removes it if it is empty. */
void control_group_remove(const char *run_dir);

#endif
