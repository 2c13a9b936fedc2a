/* SPDX-License-Identifier: Apache-2.0 */
/* control_group.h - a cgroup (v2) for an attempt's ranks on a node, if one can be created
 *
 * A process cannot leave its cgroup by forking, starting a session or clearing its environment, so members are found
 * even if agent and guardian (guardian.h) are both dead. The cgroup is created below the agent's own, without
 * controllers, if that is permitted: for root, below a systemd user manager, in a container with a writable hierarchy.
 * Where it is not permitted, cleanup lacks only this proof.
 *
 * RUN_DIR/cgroup has its path.  A daemon started by a rank is also a member; a foreign mark overrides membership
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

/* A descriptor of this run directory's group, created if necessary; -1: impossible. */
int control_group_open(const char *run_dir);

/* Moves this process to a group; async-signal-safe. */
void control_group_join(int group);

/* A descriptor of the group around a rank's group, if this process is in one; -1: it is in none. For a daemon that a
 * rank starts, and that must survive the rank. */
int control_group_outside(void);

/* Its path, or "". */
void control_group_find(char out[CONTROL_GROUP_PATH], const char *run_dir);

/* Its members, at most `most`; -1: unknown. */
int control_group_members(const char *path, pid_t *pids, int most);

/* Kills all members at once, if there are `members` of them and no group is below. */
void control_group_kill(const char *path, int members);

/* Removes it if it is empty. */
void control_group_remove(const char *run_dir);

#endif
