/* SPDX-License-Identifier: Apache-2.0 */
/* tree_use.h - activity of process trees between two readings: CPU work, bytes, and progress of what they wait for
 *
 * It counts each live thread's CPU time without waiting (agent/monitor/waiting.h), that of main threads also
 * separately, and all CPU time of threads and children that have ended meanwhile; bytes read and written by system
 * calls or from disk; and bytes that others move while a thread waits for them: over TCP connections that leave the
 * job, and by a file's disk if a thread is in state D.
 */
#ifndef AGENT_MONITOR_TREE_USE_H
#define AGENT_MONITOR_TREE_USE_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct tree_use;

struct tree_use_sum {
    uint64_t work_us, io_bytes, moved_bytes;
    uint64_t main_us; /* of main threads of processes without children: launchers poll; 0 if the kernel counts ticks */
    bool     blocked; /* a thread is in state D */
};

int tree_use_create(struct tree_use **out, struct err *err);
void tree_use_destroy(struct tree_use *u); /* NULL accepted */

/* Adds to the sums of n trees (root 0: no process) what they did since the last reading, window_ms ago. first: the
 * numeric address of the machine of rank 0, or NULL if this is it. A process that cannot be read counts as idle. */
void tree_use_read(struct tree_use *u, const int64_t *roots, int n, int64_t window_ms, const char *first,
                   struct tree_use_sum *sums);

#endif
