/* SPDX-License-Identifier: Apache-2.0 */
/* sweeps.h - the members of sweeps: stored when they start, counted when they end (controller/job/sweep.h)
 *
 * A member is stored with its sweep and index in one row, and a sweep counts its rows at the start of the daemon: no
 * index is lost or started twice, whenever a daemon dies.
 */
#ifndef CONTROLLER_LIFECYCLE_SWEEPS_H
#define CONTROLLER_LIFECYCLE_SWEEPS_H

#include <jansson.h>
#include <stdint.h>

#include "controller/job/job_core.h"

struct daemon;
struct err;
struct index_list;
struct job;
struct job_row;

/* For struct fleet. */
struct job *sweeps_member(struct job *sweep, struct err *err);
int sweeps_settle(struct job *sweep, struct err *err);

/* True if this daemon can run the spec of the sweep's next member. */
int sweeps_check(const json_t *spec, struct err *err);

/* A job is done and forgotten: the next member may start, or the sweep is over; `sweep` is 0 if it was no member. */
void sweeps_member_done(struct daemon *d, int64_t sweep, enum job_result result);

/* A sweep is done: stops its running members; now: also members that are stopping already, without a last
 * checkpoint. */
void sweeps_stop_members(struct daemon *d, int64_t sweep, const char *reason, bool now);

/* Call after all jobs were loaded. */
void sweeps_recall(struct daemon *d);

/* {count, running, succeeded, failed, cancelled, not_started} of a sweep's row, or null. */
json_t *sweeps_json(struct daemon *d, const struct job_row *row);

/* The indices of a done sweep's members that did not succeed. ERR_CONFLICT: one still runs, or all succeeded. */
int sweeps_unsuccessful(struct index_list *list, struct daemon *d, const struct job_row *sweep, const json_t *spec,
                        struct err *err);

#endif
