/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_interval.h - the number of steps between snapshots of a GPU's state
 *
 * Pure: no clock, no I/O.
 * A snapshot copies the state to host memory.  In the worst case nothing overlaps with the copy, so it costs
 * bytes / rate.  The interval is the least for which that is at most SNAPSHOT_COST of the steps between two snapshots.
 */
#ifndef ENGINE_CHECKPOINT_SNAPSHOT_INTERVAL_H
#define ENGINE_CHECKPOINT_SNAPSHOT_INTERVAL_H

#define SNAPSHOT_COST 0.02
enum { SNAPSHOT_INTERVAL_MOST = 1000 };

struct snapshot_pace {
    double bytes;  /* of one copy */
    double rate;   /* bytes per second from the GPU to host memory; 0: not known */
    double step_s; /* duration of a step; 0: not known */
};

/* Steps from one snapshot to the next, 1 to SNAPSHOT_INTERVAL_MOST; 1 if a value is not known. */
int snapshot_interval(const struct snapshot_pace *p);

#endif
