/* SPDX-License-Identifier: Apache-2.0 */
/* tree_use.h - what process trees do between two readings: work, bytes, and progress of what they wait for
 *
 * Of each thread the CPU time that is not waiting (agent/monitor/waiting.h); that of threads and children which have
 * ended meanwhile, in full. Bytes read and written by system calls or from disk. And bytes that others move while a
 * thread waits for them: over TCP connections that leave the job, and by the disk of a file if a thread is in state D.
 */
#ifndef AGENT_MONITOR_TREE_USE_H
#define AGENT_MONITOR_TREE_USE_H

#include <stdint.h>

struct err;
struct tree_use;

struct tree_use_sum {
    uint64_t work_us, io_bytes, moved_bytes;
};

int tree_use_create(struct tree_use **out, struct err *err);
void tree_use_destroy(struct tree_use *u); /* NULL accepted */

/* Adds to the sums of n trees (root 0: no process) what they did since the last reading, window_ms ago. first: the
 * numeric address of the machine of rank 0, or NULL if this is it. A process that cannot be read counts as idle. */
void tree_use_read(struct tree_use *u, const int64_t *roots, int n, int64_t window_ms, const char *first,
                   struct tree_use_sum *sums);

#endif
