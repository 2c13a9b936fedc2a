/* SPDX-License-Identifier: Apache-2.0 */
/* process_tree.h - CPU time and I/O of whole process trees, from one pass over /proc
 *
 * A tree is a process, the session that it leads, and all their descendants. Time and bytes of
 * children that have ended are in the counters of the parent that waited for them, so sums grow.
 */
#ifndef AGENT_OS_PROCESS_TREE_H
#define AGENT_OS_PROCESS_TREE_H

#include <stdint.h>

struct process_tree {
    int64_t  root;     /* pid; 0: no process, and its sums are 0 */
    uint64_t cpu_ms;   /* user and system time */
    uint64_t io_bytes; /* read and written, by system calls or from disk */
};

/* Fills the sums of n trees. Processes that cannot be read count as idle. */
void process_tree_read(struct process_tree *trees, int n);

struct process_tree_member {
    int64_t pid, parent;
    int     children;
};

/* Lists at most `most` processes of the tree of a root, parents before their children, and returns
 * how many. */
int process_tree_members(int64_t root, struct process_tree_member *out, int most);

#endif
