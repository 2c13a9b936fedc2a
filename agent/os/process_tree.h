/* SPDX-License-Identifier: Apache-2.0 */
/* process_tree.h - which processes belong to a tree, from one pass over /proc
 *
 * A tree is a process, the session that it leads, and all their descendants.
 */
#ifndef AGENT_OS_PROCESS_TREE_H
#define AGENT_OS_PROCESS_TREE_H

#include <stddef.h>
#include <stdint.h>

struct process_tree_entry {
    int64_t  pid, parent, session;
    uint64_t ticks, child_ticks; /* CPU time of its threads, and of children that it has waited for */
    int      tree;               /* index of its root */
};

/* The processes in the trees of n roots (0: no process), sorted by pid: a new array, NULL if there are none. */
struct process_tree_entry *process_tree_find(const int64_t *roots, int n, size_t *count);

struct process_tree_member {
    int64_t pid, parent;
    int     children;
};

/* Lists at most `most` processes of the tree of a root, parents before their children, and returns
 * how many. */
int process_tree_members(int64_t root, struct process_tree_member *out, int most);

#endif
