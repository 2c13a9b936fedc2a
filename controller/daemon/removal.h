/* SPDX-License-Identifier: Apache-2.0 */
/* removal.h - a job that is done is forgotten: its rows first, then its files
 *
 * What went from the store is what was decided; the files follow it, and a daemon
 * that died between the two ends that at its next start.  So a job is listed
 * whole or not at all.
 *
 * Files are those of jobs/<id> in our home, and of its checkpoints only what lies
 * there, and only when that was asked for.  A checkpoint.dir or mirror that somebody
 * chose is never touched, nor what lies on hosts (agent/attempt/host_cache.h tidies there).
 * They are removed beside the loop: a checkpoint may be large.
 */
#ifndef CONTROLLER_DAEMON_REMOVAL_H
#define CONTROLLER_DAEMON_REMOVAL_H

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct err;
struct removed_row;

/* What would go, and what would stay; changes nothing. ERR_CONFLICT where the job is not done, or
 * another one needs it. */
int removal_plan(struct removed_row *row, struct daemon *d, int64_t id, bool checkpoints,
                 struct err *err);

/* After this has succeeded the job is removed; its files are on their way. */
int removal_begin(struct daemon *d, const struct removed_row *row, struct err *err);

/* Are they still? When they are not, server_wake() was called. */
bool removal_runs(const struct daemon *d, int64_t id);

/* Those that an earlier daemon began; and at its end: what is not done stays pending. */
int removal_open(struct daemon *d, struct err *err);
void removal_close(struct daemon *d);

#endif
